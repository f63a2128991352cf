"""The candidates in scenarios/beyond/search run, and their computations equal references."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sim.inference.bayes import normalise
from sim.mobility.recorded.replay import split_of
from sim.mobility.statistics import statistics
from sim.world import Grid, World, manhattan
from tests.support import ROOT, done

FOLDER = ROOT / "scenarios" / "beyond" / "search"
GRID = Grid.san_francisco()
DISTANCE = manhattan(GRID)


@pytest.fixture(autouse=True)
def _search_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if (FOLDER / f"{name}.py").is_file():
            del sys.modules[name]


@pytest.mark.parametrize("name", ["sp-gowalla", "mk-gowalla"])
def test_the_candidates_run_on_invented_check_ins(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LPPM_SIM_DATA", str(tmp_path))
    rng = np.random.default_rng(1)
    tuning = [str(user) for user in range(30) if split_of(str(user)) == "tuning"][:2]
    visits = dict.fromkeys(tuning, 20) | dict.fromkeys(map(str, range(40, 50)), 12)
    frames = [
        pd.DataFrame(
            {
                "user": user,
                "order": np.arange(count),
                "lat": rng.uniform(37.6, 37.8, count),
                "lon": rng.uniform(-122.5, -122.4, count),
            }
        )
        for user, count in visits.items()
    ]
    pd.concat(frames).to_parquet(tmp_path / "gowalla.parquet")
    settings = {
        "users.mobility.select.min_visits": 20,
        "users.mobility.visits": 8,
        "training.others.mobility.select.exclude.min_visits": 20,
    }
    assigned = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    done("run", FOLDER / f"{name}.yaml", "--allow-code", FOLDER, "--no-figures", "-o", tmp_path / "run", *assigned)
    events = pd.concat([pd.read_parquet(path) for path in (tmp_path / "run" / "events").rglob("*.parquet")])
    assert set(events["user"]) == set(tuning)
    assert events["adversary_error_km"].notna().all()


def beliefs() -> dict[str, Any]:
    """Return the candidates that are gravity filters with another attraction, without what they add."""
    given: dict[str, Any] = {"statistics": statistics([], n_cells=GRID.n_cells), "restart_s": None}
    smoothed = importlib.import_module("smoothed_filter").SmoothedFilter(**given, lag=1, independent_share=0.5)
    hourly = importlib.import_module("hourly_filter").HourlyFilter(**given, weight=1e-12, independent_share=0.5)
    plain = importlib.import_module("sim.belief.gravity_filter").GravityFilterParameters(independent_share=0.5)
    world = World(locations=GRID, roads=None, privacy_distance=DISTANCE, quality_distance=DISTANCE)
    return {"plain": plain.build(given["statistics"], None, world), "smoothed": smoothed, "hourly": hourly}


def test_without_lag_and_without_hours_the_candidates_are_the_gravity_filter() -> None:
    own = beliefs()
    for r, likelihood in enumerate(np.random.default_rng(2).random((6, GRID.n_cells))):
        expected = own["plain"].prior(300 * r)
        for name in ("smoothed", "hourly"):
            assert own[name].prior(300 * r) == pytest.approx(expected, abs=1e-9)
            own[name].observe(300 * r, likelihood)
        own["plain"].observe(300 * r, likelihood)


def test_the_last_smoothed_posteriors_equal_forward_backward_by_matrices() -> None:
    module = importlib.import_module("smoothed_filter")
    belief = module.SmoothedFilter(
        statistics=statistics([], n_cells=GRID.n_cells), restart_s=None, lag=3, independent_share=0.5
    )
    rows = np.random.default_rng(3).random((3, GRID.n_cells)) ** 8
    filtered = []
    for r, likelihood in enumerate(rows):
        attraction = belief._filter.attraction
        filtered.append(belief.observe(300 * r, likelihood))
    weights = belief._filter.weights
    transition = weights[-1] * np.tile(attraction, (GRID.n_cells, 1))
    for law, weight in enumerate(weights[:-1]):
        reach_km, stay = module.REACHES_KM[law // 2], module.STAYS[law % 2]
        pull = attraction * np.exp(-DISTANCE.matrix_km / reach_km)
        move = pull / pull.sum(axis=1, keepdims=True)
        transition += weight * (stay * np.eye(GRID.n_cells) + (1 - stay) * move)
    last = transition @ rows[2]
    assert belief._last[2] == pytest.approx(filtered[2])
    assert belief._last[1] == pytest.approx(normalise(filtered[1] * last), abs=1e-12)
    assert belief._last[0] == pytest.approx(normalise(filtered[0] * (transition @ (rows[1] * last))), abs=1e-12)


@pytest.mark.parametrize(("ball", "radius"), [("chi-square", 0.1), ("kl", 0.2)])
def test_the_largest_expected_distance_equals_that_by_matrices(ball: str, radius: float) -> None:
    world = World(locations=GRID, roads=None, privacy_distance=DISTANCE, quality_distance=DISTANCE)
    design = importlib.import_module("robust_remap").RobustMix(world=world, ball=ball, radius=radius)
    posterior = np.random.default_rng(4).dirichlet(np.full(GRID.n_cells, 0.1), 3)
    mean, square = posterior @ DISTANCE.matrix_km, posterior @ DISTANCE.matrix_km**2
    by_ball = {
        "chi-square": mean + np.sqrt(radius * (square - mean**2)),
        "kl": np.log(posterior @ np.exp(radius * DISTANCE.matrix_km)) / radius,
    }
    assert design._worst(posterior) == pytest.approx(by_ball[ball])
