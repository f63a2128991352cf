"""Warnings about implausible parameters: no protection, or no information."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim import report
from sim.analysis import narrative
from sim.scenario.plausibility import NEVER, escape_probability, remarks
from sim.scenario.sweep import points
from tests.support import MakeScenario, done

KINDS = ("Exp", "PL", "PG", "SP-GeoOpt")


def remarks_on(make_scenario: MakeScenario, kind: str, **design: Any) -> list[str]:
    """Return the remarks on one LPPM."""
    return remarks([make_scenario(lppms=[{"kind": kind, "design": design}])])


@pytest.mark.parametrize("kind", KINDS)
def test_an_implausible_epsilon_is_remarked_upon(kind: str, make_scenario: MakeScenario) -> None:
    (huge,) = remarks_on(make_scenario, kind, epsilon_per_km=5000.0)
    assert huge.startswith(f"{kind}: epsilon_per_km 5000: no protection")
    assert "1 x 1 km" in huge
    assert "0.999999" in huge
    (tiny,) = remarks_on(make_scenario, kind, epsilon_per_km=1e-6)
    assert tiny.startswith(f"{kind}: epsilon_per_km 1e-06: almost no information")
    assert "5 x 4 km" in tiny
    assert "more than 1.00001" in tiny


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 8.0])
@pytest.mark.parametrize("kind", KINDS)
def test_plausible_values_and_an_explicit_zero_are_not_remarked_upon(
    kind: str, epsilon: float, make_scenario: MakeScenario
) -> None:
    assert remarks_on(make_scenario, kind, epsilon_per_km=epsilon) == []
    assert remarks_on(make_scenario, kind) == []


def test_a_mix_informs_at_any_epsilon(make_scenario: MakeScenario) -> None:
    assert remarks_on(make_scenario, "SP-Mix", epsilon_per_km=1e-6) == []
    assert len(remarks_on(make_scenario, "SP-Mix", epsilon_per_km=1e-6, reveal_probability=0.0)) == 1


@pytest.mark.parametrize("kind", ["Exp", "PG", "PL"])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 12.0, 16.0, 18.0, 40.0])
@pytest.mark.parametrize("distance", ["manhattan", "euclidean"])
def test_the_probability_bounds_that_of_the_channel(
    kind: str, epsilon: float, distance: str, make_scenario: MakeScenario
) -> None:
    """Compare with the row of the channel for the cell in the middle."""
    world = {"grid": {"kind": "rectangle", "rows": 5, "cols": 5, "width_km": 5.0, "height_km": 6.0}}
    scenario = make_scenario(
        world=world | {"quality_distance": distance}, lppms=[{"kind": kind, "design": {"epsilon_per_km": epsilon}}]
    )
    (lppm,) = scenario.lppms
    built = scenario.build_world()
    channel: Any = lppm.design.build(built)(np.full(25, 1 / 25))
    elsewhere = 1 - float(channel.row(12)[12])
    bound = escape_probability(lppm.design, epsilon, distance, built.grid)
    assert bound is not None
    assert elsewhere <= bound + (1e-9 if epsilon > 1 else 1e-3)  # the infinite lattice is cut off after twenty cells
    if kind == "Exp":
        assert elsewhere == pytest.approx(bound, rel=1e-6, abs=1e-12)
    assert bool(remarks([scenario])) == (bound < NEVER)


def test_a_budget_larger_than_the_region_is_remarked_upon(make_scenario: MakeScenario) -> None:
    (remark,) = remarks_on(make_scenario, "SP-Exp", quality_budget_km=300.0)
    assert remark.startswith("SP-Exp: quality_budget_km 300: ")
    assert "7 km" in remark
    assert remarks_on(make_scenario, "SP-Exp", quality_budget_km=6.9) == []


def test_swept_values_are_listed_once_with_the_number_of_points(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(
        lppms=["Exp", "SP-LH"], sweep={"lppms.Exp.design.epsilon_per_km": [1.0, 50.0, 5000.0], "users.count": [3, 4]}
    )
    (remark,) = remarks(point.scenario for point in points(scenario))
    assert remark.startswith("Exp: epsilon_per_km 50 and 5000 (4 of 6 sweep points): no protection")
    many = make_scenario(lppms=["Exp"], sweep={"lppms.Exp.design.epsilon_per_km": [float(100 + i) for i in range(9)]})
    (remark,) = remarks(point.scenario for point in points(many))
    assert remark.startswith("Exp: epsilon_per_km 100, 101, 102, 103 and 5 more: ")


def test_distances_from_a_file_are_not_judged(make_scenario: MakeScenario, tmp_path: Path) -> None:
    np.save(tmp_path / "km.npy", np.full((20, 20), 1e-6) * (1 - np.eye(20)))
    world = {"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0}}
    near = {"kind": "matrix", "file": str(tmp_path / "km.npy")}
    for epsilon in (5000.0, 1e-6):
        scenario = make_scenario(
            world=world | {"quality_distance": near}, lppms=[{"kind": "Exp", "design": {"epsilon_per_km": epsilon}}]
        )
        assert remarks([scenario]) == []


def test_ten_thousand_cells_need_no_matrix(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the world must not be built")

    monkeypatch.setattr("sim.scenario.world.WorldSpec.build", refuse)
    world = {"grid": {"kind": "rectangle", "rows": 100, "cols": 100, "width_km": 50.0, "height_km": 50.0}}
    scenario = make_scenario(world=world, lppms=[{"kind": "Exp", "design": {"epsilon_per_km": 5000.0}}])
    expected, remark = remarks([scenario])
    assert "on cells of 0.5 x 0.5 km" in remark
    assert expected.startswith("expected metrics are not recorded, ")
    assert len(remarks([scenario.with_settings({"record.expected": False})])) == 1


def test_a_ceiling_of_disclosed_cells_is_remarked_once(make_scenario: MakeScenario) -> None:
    ceiling = {"kind": "RPEB-Exp", "name": "ceiling", "learns_from": "disclosed_cells"}
    scenario = make_scenario(lppms=["RPEB-Exp", ceiling])
    (remark,) = remarks([scenario, scenario])
    assert remark.startswith("ceiling learns from disclosed cells, ")
    assert remarks([make_scenario(lppms=["RPEB-Exp"])]) == []


def test_check_run_and_report_show_the_remark(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write(lppms="[{kind: SP-Exp, design: {epsilon_per_km: 5000}}]", sweep=None)
    (text,) = remarks([sim.load(path)])
    assert f"note {text}" in " ".join(done("check", path, "--no-time").split())
    assert text in " ".join(done("run", path, "-o", tmp_path / "run", "--no-figures").split())
    result = sim.Result.open(tmp_path / "run")
    assert list(result.manifest.remarks) == [text]
    assert narrative.warnings(result.manifest)[0] == text
    assert text in report.page([result])


REGION = {"kind": "region", "rows": 20, "cols": 20, "south": 47.3, "north": 47.39, "west": 8.5, "east": 8.633}
"""Cells of 500 m."""


@pytest.mark.parametrize(
    ("lppm", "parameter", "step"),
    [
        ({"kind": "Meshtastic", "design": {"precision_bits": 17}}, "precision_bits 17", "0.364 km"),
        ({"kind": "Android", "design": {"accuracy_m": 400.0}}, "accuracy_m 400", "0.401 km"),
        ({"kind": "LG", "design": {"radius_m": 300.0}}, "radius_m 300", "0.3 km"),
        ({"kind": "SP-Zone", "design": {"radius_m": 200.0}}, "radius_m 200", "0.4 km"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_cells_larger_than_the_steps_of_a_mechanism_are_remarked_upon(
    lppm: dict[str, Any], parameter: str, step: str, make_scenario: MakeScenario
) -> None:
    training = {"own": {"kind": "own_test"}}
    (remark,) = remarks([make_scenario(world={"grid": REGION}, lppms=[lppm], training=training)])
    assert remark.startswith(f"{lppm['kind']}: {parameter}: cells of 0.5")
    assert f"larger than the steps of the mechanism, {step}" in remark
    fine = REGION | {"rows": 54, "cols": 54}
    assert remarks([make_scenario(world={"grid": fine}, lppms=[lppm], training=training)]) == []


@pytest.mark.parametrize(("kind", "number"), [("own_test", 0), ("others", 1)])
def test_a_zone_around_the_home_of_others_is_remarked_upon(kind: str, number: int, make_scenario: MakeScenario) -> None:
    training = {"it": {"kind": kind} | ({"count": 3, "queries": 10} if kind == "others" else {})}
    lppm = {"kind": "SP-Zone", "design": {"radius_m": 900.0}}
    notes = remarks([make_scenario(lppms=[lppm], training=training)])
    assert len([note for note in notes if "other people" in note]) == number
