"""Complete runs with mix and coin: the equality of error and loss, expected metrics, and a frontier of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.analysis.sweep_labels import with_distinct_names
from sim.scenario.sweep import columns, points
from tests.support import MakeScenario

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

SAME = {
    "RPEB-Mix": {"name": "same", "belief": "recursive_profile", "knows": "training"},
    "RPEB-AMix": {"name": "same", "belief": "recursive_profile", "knows": "training"},
    "PEB-Mix": {"name": "same", "belief": "estimated_profile", "knows": "training"},
    "PEB-Coin": {"name": "same", "belief": "estimated_profile", "knows": "training"},
    "PEB-MK-Coin": {"name": "same", "belief": "gravity_filter", "knows": "training"},
}
"""Adversaries with the belief of the mechanism."""


@pytest.mark.parametrize("distance", ["manhattan", "euclidean"])
@pytest.mark.parametrize("lppm", SAME)
def test_error_equals_loss_if_the_adversary_has_the_belief_of_the_mechanism(
    lppm: str, distance: str, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    """Every output is its own estimate, so that error and loss are equal at each query; other adversaries differ."""
    world = {
        "grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.5, "height_km": 3.7},
        "privacy_distance": distance,
        "quality_distance": distance,
    }
    scenario = make_scenario(world=world, lppms=[lppm], attacks=["sporadic", "markov", SAME[lppm]])
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    events = result.events()
    assert len(events) == 3 * 25 * 3
    same = events[events["attack"] == "same"]
    assert (same["estimate"] == same["output"]).all()
    np.testing.assert_array_equal(same["adversary_error_km"], same["quality_loss_km"])
    np.testing.assert_allclose(same["expected_adversary_error_km"], same["expected_quality_loss_km"], atol=1e-12)
    assert same["expected_quality_loss_km"].mean() > 0.1
    for attack in ("sporadic", "markov"):
        other = events[events["attack"] == attack]
        assert (other["estimate"] != other["output"]).any()
        assert other["expected_adversary_error_km"].notna().all()
    summary = result.summary().set_index("attack")
    assert summary.loc["same", "expected_adversary_error_km"] == pytest.approx(
        summary.loc["same", "expected_quality_loss_km"], abs=1e-12
    )


def test_expected_metrics_are_the_means_over_the_noise(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """With fixed beliefs, realised metrics of many replications average to the expected ones."""
    scenario = make_scenario(
        users={"count": 2, "queries": 10, "mobility": {"kind": "favourites", "places": 4}},
        lppms=["SP-Mix", {"kind": "SP-Coin", "design": {"quality_budget_km": 0.8}}],
        attacks=["sporadic"],
        replications=400,
    )
    events = sim.run(scenario, out=tmp_path / "run", figures=False).events()
    for _, rows in events.groupby("lppm"):
        for metric in ("quality_loss_km", "adversary_error_km"):
            noise = (rows[metric] - rows[f"expected_{metric}"]).to_numpy()
            assert abs(noise.mean()) < 4 * noise.std() / np.sqrt(noise.size)
            assert noise.std() > 0.1


FRONTIER = [(0.05, 0.03), (0.2, 0.1), (0.3, 0.7), (0.3, 2.5)]


def test_a_frontier_of_pairs_is_one_curve(make_scenario: MakeScenario, tmp_path: Path) -> None:
    designs = [{"reveal_probability": reveal, "epsilon_per_km": epsilon} for reveal, epsilon in FRONTIER]
    sweep: dict[str, Any] = {"lppms.RPEB-Mix.design": designs, "lppms.SP-Exp.design.epsilon_per_km": [0.3, 2]}
    scenario = make_scenario(lppms=["RPEB-Mix", "SP-Exp"], attacks=["sporadic"], sweep=sweep)
    for point in points(scenario):
        design = point.scenario.lppms[0].design
        assert design.kind == "exponential"
        assert point.values["lppms.RPEB-Mix.design"].items() <= design.model_dump().items()
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    table = result.points()
    paths = ["lppms.RPEB-Mix.design.reveal_probability", "lppms.RPEB-Mix.design.epsilon_per_km"]
    assert {*table.columns} == {"point", "lppms.SP-Exp.design.epsilon_per_km", *paths}
    summary = result.summary()
    assert set(with_distinct_names(summary[["lppm", "point"]], table)["lppm"]) == {"RPEB-Mix", "SP-Exp"}
    mix = summary[summary["lppm"] == "RPEB-Mix"]
    assert list(zip(mix[paths[0]], mix[paths[1]], strict=True)) == FRONTIER
    assert mix["expected_quality_loss_km"].is_monotonic_decreasing
    at_loss = result.at_loss([float(mix["expected_quality_loss_km"].iloc[1:3].mean())])
    assert set(at_loss["lppm"]) == {"RPEB-Mix", "SP-Exp"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            [{"kind": "coin", "reveal_probability": 0.1}, {"kind": "coin", "reveal_probability": 1}],
            "reveal_probability",
        ),
        ([{"kind": "coin"}, {"kind": "exponential"}], None),
        ([{"kind": "exponential", "remap": True}, {"kind": "exponential", "remap": False}], None),
        (["coin", {"kind": "coin", "reveal_probability": 0.2}], None),
        ([{"kind": "coin", "reveal_probability": 0.2}], None),
    ],
)
def test_only_mappings_that_differ_in_numbers_are_split(
    values: list[Any], expected: str | None, make_scenario: MakeScenario
) -> None:
    lppm = {"name": "a", "belief": "fixed_profile", "design": "coin"}
    swept = points(make_scenario(lppms=[lppm], sweep={"lppms.0.design": values}))
    column = "lppms.0.design" if expected is None else f"lppms.0.design.{expected}"
    assert [list(row) for row in columns(swept)] == [[column]] * len(values)
    own = values if expected is None else [value[expected] for value in values]
    assert [row[column] for row in columns(swept)] == own


def test_a_key_that_is_also_swept_by_its_own_path_is_not_split(make_scenario: MakeScenario) -> None:
    lppm = {"name": "a", "belief": "fixed_profile", "design": "coin"}
    designs = [{"kind": "coin", "reveal_probability": share} for share in (0.1, 0.2)]
    sweep = {"lppms.0.design": designs, "lppms.0.design.reveal_probability": [0.3, 0.4]}
    swept = points(make_scenario(lppms=[lppm], sweep=sweep))
    assert columns(swept) == [point.values for point in swept]
