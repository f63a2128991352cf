"""The comparison with the published results of Oya et al. (CCS 2017), on their data where these are present."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from tests.support import ROOT
from tools import ccs17

PAGE = ROOT / "docs/validation.md"
SMALL = ccs17.Points(np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0]))


@pytest.fixture
def points(real_data: Path) -> ccs17.Points:
    """The points of interest, or skip."""
    if not (real_data / ccs17.POINTS).exists():
        pytest.skip(f"no {ccs17.POINTS} in the folder of real data sets")
    return ccs17.read_points(real_data)


def rows(real_data: Path, mechanism: str, *parameters: float) -> list[Any]:
    results = ccs17.read_results(real_data / ccs17.RESULTS)
    chosen = np.isclose(results["parameter"].to_numpy()[:, None], parameters, rtol=1e-4).any(axis=1)
    matches = [row for _, row in results[chosen & (results["mechanism"] == mechanism)].iterrows()]
    assert len(matches) == len(parameters)
    return matches


@pytest.mark.data
def test_coin_and_exponential_agree_with_the_authors(points: ccs17.Points, real_data: Path) -> None:
    for comparison in ccs17.compare(rows(real_data, "coin", 1.0)[0], points):
        assert comparison.agrees, comparison
    (published,) = rows(real_data, "exponential", 2.0)
    before, after, entropy = ccs17.exponential_theory(points, epsilon_per_km=2.0, median=ccs17.stopped_median)
    assert before == pytest.approx(published["loss_without_remap_km"], abs=1e-5)
    assert after == pytest.approx(published["error_km"], abs=1e-5)
    assert after == pytest.approx(published["loss_km"], abs=1e-4)
    assert entropy == pytest.approx(published["entropy_bits"], abs=1e-5)


@pytest.mark.data
def test_laplace_agrees_with_the_authors(points: ccs17.Points, real_data: Path) -> None:
    for row in rows(real_data, "laplace", 6.66667, 0.4):
        for comparison in ccs17.compare(row, points, draws=1000):
            assert comparison.agrees, comparison


def test_page_has_every_table_once() -> None:
    assert re.findall("(?m)^% table: (.+)$", PAGE.read_text()) == list(ccs17.MATLAB)
    assert "(!) |" not in PAGE.read_text(), "a number is outside the tolerance"


def published(mechanism: str, parameter: float, *values: float) -> pd.Series:
    return pd.Series({"mechanism": mechanism, "parameter": parameter, **dict(zip(ccs17.METRICS, values, strict=True))})


def test_differences_beyond_the_tolerance_are_marked() -> None:
    true = ccs17.compare(published("coin", 0.3, 0, 0, 0, 0), SMALL)
    values = [one.ours for one in true]
    assert all(one.agrees for one in ccs17.compare(published("coin", 0.3, *values), SMALL))
    values[3] *= 1 + 2e-3
    comparisons = ccs17.compare(published("coin", 0.3, *values), SMALL)
    assert [one.agrees for one in comparisons] == [True, True, True, False]
    lines = ccs17.table("coin", comparisons).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 0.3", "| ", "| ", "| "]
    assert [" (!) |" in line for line in lines[2:]] == [False, False, False, True]


def test_sampled_differences_are_in_standard_errors() -> None:
    ours = ccs17.compare(published("laplace", 1.0, 0, 0, 0, 0), SMALL, draws=1000)
    for errors, agrees in ((3.9, True), (4.1, False)):
        values = [one.ours - errors * (one.error or 0.0) for one in ours]
        assert {one.agrees for one in ccs17.compare(published("laplace", 1.0, *values), SMALL, draws=1000)} == {agrees}
    assert ours[0].error == pytest.approx(2**0.5 * (1 / 1000 + 1 / 5000) ** 0.5, rel=0.1), (
        "deviation of a gamma variable"
    )


def test_results_of_the_authors_folder(tmp_path: Path) -> None:
    names = ("QnoR_measures", "QminL2_measures", "PAEl2_measures", "PCE_measures")
    epsilons = np.array([[2.0, 1.0]])
    exact = {name: np.array([[k], [k + 10.0]]) for k, name in enumerate(names)}
    drawn = {name: np.full((5000, 2), [k, k + 10.0]) for k, name in enumerate(names)}
    savemat(tmp_path / "RES_SF_Exp_Gowalla.mat", {"param_list": epsilons, **exact})
    savemat(tmp_path / "RES_SF_Lap_Gowalla.mat", {"param_list": epsilons, **drawn})
    savemat(tmp_path / "RES_SF_coin_Gowalla.mat", {name: np.arange(5.0)[:, None] for name in names})
    results = ccs17.read_results(tmp_path)
    for mechanism in ("exponential", "laplace"):
        own = results[results["mechanism"] == mechanism]
        assert own["parameter"].tolist() == [2.0, 1.0]
        assert own[list(ccs17.METRICS)].to_numpy().tolist() == [[0, 1, 2, 3], [10, 11, 12, 13]]
    assert results[results["mechanism"] == "coin"]["parameter"].tolist() == [0, 0.5, 1, 1.5, 2]


def test_stopped_medians_end_with_a_short_step() -> None:
    """Locations 200 km apart need many steps; among locations 10 m apart the first step is the last."""
    rng = np.random.default_rng(2)
    x_km, y_km, weights = rng.normal(size=30), rng.normal(size=30), rng.dirichlet(np.ones(30))

    def step(x: float, y: float, scale: float) -> tuple[float, float]:
        pull = weights / np.hypot(scale * x_km - x, scale * y_km - y)
        return float(pull @ x_km * scale / pull.sum()), float(pull @ y_km * scale / pull.sum())

    for scale in (0.01, 200.0):
        at = float(weights @ x_km * scale), float(weights @ y_km * scale)
        steps = 0
        while True:
            last, at, steps = at, step(*at, scale), steps + 1
            if np.hypot(at[0] - last[0], at[1] - last[1]) <= 1e-3**0.5:
                break
        assert (steps == 1) == (scale < 1)
        assert ccs17.stopped_median(weights, scale * x_km, scale * y_km) == pytest.approx(at, rel=1e-9)
    middle = np.array([-1.0, 0.0, 1.0])
    assert ccs17.stopped_median(np.array([0.25, 0.5, 0.25]), middle, np.zeros(3)) == (0.0, 0.0)
