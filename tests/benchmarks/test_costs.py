"""CPU time of designs, beliefs and attacks."""

from __future__ import annotations

import pytest

from benchmarks import costs, measuring, timing
from benchmarks.output import print_costs
from sim.scenario.reference import group_of, listing
from tests.benchmarks.support import bench, refused


def test_every_design_belief_and_attack_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "BLOCK_S", 1e-5)
    parts = costs.parts()
    for family in ("design", "belief", "attack"):
        kinds = {part.settings["kind"] for part in parts.values() if part.family == family}
        assert kinds == listing()[family][1].keys() - {"module:Class"}
    measured = costs.measure(list(parts.values()), cells=6, rounds=1, queries=20)
    assert [cost.part for cost in measured] == list(parts.values())
    for cost in measured:
        assert cost.metrics
        assert all(value > 0 for value in cost.metrics.values()), cost
        assert ("end" in cost.metrics) == (cost.part.settings["kind"].split("-")[0] in {"smoothing", "path"})
        assert ("budget" in cost.metrics) == (cost.part.family == "design" and has_budget(cost.part.settings["kind"]))
    print_costs(measured, 6, measuring.machine())
    out = capsys.readouterr().out
    assert [name for name in parts if f"│ {name} " not in out] == []


def has_budget(design: str) -> bool:
    """Return whether a design can be calibrated; those of phones, and those with a secret, have published strengths."""
    fixed = {"identity", "dummies", "memoised", "daily_offset", "drifting_offset"}
    return design not in fixed and not group_of("design", design)


def test_large_programs_are_solved_only_if_named() -> None:
    chosen = [part for part in costs.parts().values() if part.is_program]
    assert len(chosen) == 4
    for cost in costs.measure(chosen, cells=54):
        assert cost.metrics == {}
        assert "50 cells" in cost.note
    printed = bench("--costs", "optimal_privacy-manhattan", "--cells", "54", "--solver", "simplex").stdout
    assert "54 cells" in " ".join(printed.split())
    assert "│ optimal_privacy-manhattan │" in printed


def test_invalid_options_of_costs_are_refused() -> None:
    assert "'planar_laplace'" in refused("--costs", "planar_laplas")
    assert "--quick" in refused("--costs", "--quick")
