"""The costs of designs, beliefs and attacks."""

from __future__ import annotations

import pytest

from benchmarks import costs, measuring, timing
from benchmarks.output import print_costs
from sim.scenario.reference import listing
from tests.benchmarks.support import bench, refused


def test_every_design_belief_and_attack_has_its_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "BLOCK_S", 1e-5)
    parts = costs.parts()
    for family in ("design", "belief", "attack"):
        kinds = {part.said["kind"] for part in parts.values() if part.family == family}
        assert kinds == listing()[family][1].keys() - {"module:Class"}
    found = costs.measure(list(parts.values()), cells=6, rounds=1, queries=20)
    assert [cost.part for cost in found] == list(parts.values())
    for cost in found:
        assert cost.figures
        assert all(figure > 0 for figure in cost.figures.values()), cost
        assert ("end" in cost.figures) == (cost.part.said["kind"].split("-")[0] in {"smoothing", "path"})
        budget = cost.part.family == "design" and cost.part.said["kind"] not in {"identity", "dummies"}
        assert ("budget" in cost.figures) == budget
    print_costs(found, 6, measuring.machine())
    out = capsys.readouterr().out
    assert [name for name in parts if f"│ {name} " not in out] == []


def test_large_programs_are_solved_only_where_they_are_named() -> None:
    chosen = [part for part in costs.parts().values() if part.is_program]
    assert len(chosen) == 4
    for cost in costs.measure(chosen, cells=54):
        assert (cost.figures, cost.note) == ({}, "over 50 cells only if named")
    printed = bench("--costs", "optimal_privacy-manhattan", "--cells", "54", "--solver", "simplex").stdout
    assert "54 cells" in printed
    assert "│ optimal_privacy-manhattan │" in printed


def test_costs_are_asked_for_in_words_that_go_together() -> None:
    assert "Did you mean 'planar_laplace'" in refused("--costs", "planar_laplas")
    assert "found --quick or --out" in refused("--costs", "--quick")
