"""Forged channels in the cache: only the design's own solution is used, even if the checksum matches."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sim.components import user_cache
from sim.interfaces import FloatArray
from sim.lppm import cache
from sim.lppm.cache import Solved
from sim.lppm.designs.optimal_privacy import OptimalPrivacy
from sim.lppm.designs.optimal_quality import OptimalQuality
from sim.lppm.optimal_design import CHANNELS
from sim.lppm.programs import stochastic
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import made

GRID = Grid.rectangle(rows=3, cols=3, width_km=3.9, height_km=3.3)
N = GRID.n_cells
CROW, TAXI = euclidean(GRID), manhattan(GRID)
BUDGET_KM = 0.6
EPSILON_PER_KM = 1.5

Design = OptimalPrivacy | OptimalQuality


def privacy(**changes: Any) -> Design:
    settings: dict[str, Any] = {
        "quality_distance": CROW,
        "privacy_distance": TAXI,
        "quality_budget_km": BUDGET_KM,
    }
    return made(OptimalPrivacy, **settings | changes)


def any_privacy(**changes: Any) -> Design:
    return privacy(**{"quality_distance": TAXI, "privacy_distance": CROW} | changes)


def quality(**changes: Any) -> Design:
    settings: dict[str, Any] = {"quality_distance": TAXI, "metric": CROW, "epsilon_per_km": EPSILON_PER_KM}
    return made(OptimalQuality, **settings | changes)


def calibrated(**changes: Any) -> Design:
    return quality(**{"epsilon_per_km": None, "quality_budget_km": BUDGET_KM} | changes)


DESIGNS: dict[str, Callable[..., Design]] = {
    "privacy, d_P Manhattan": privacy,
    "privacy, d_P Euclidean": any_privacy,
    "quality, epsilon": quality,
    "quality, budget": calibrated,
}


def a_prior(seed: int) -> FloatArray:
    """Return a prior with two cells without mass."""
    prior = np.random.default_rng(seed).dirichlet(np.full(N, 0.8))
    prior[[2, 6]] = 0.0
    return np.asarray(prior / prior.sum())


PRIOR = a_prior(1)


def within_the_budget(design: Design, honest: FloatArray) -> FloatArray:
    """Return a suboptimal channel within the budget or guarantee, by mixing in a constant channel.

    A constant channel loses more than the budget, so a design with a budget mixes in the identity too.
    """
    quality_km = design._quality.matrix_km
    constant = np.zeros((N, N))
    constant[:, (PRIOR @ quality_km).argmin()] = 1
    if isinstance(design, OptimalQuality):
        return 0.9 * honest + 0.1 * constant
    constant_km = PRIOR @ (constant * quality_km).sum(axis=1)
    noisy = np.eye(N) + (BUDGET_KM / constant_km) * (constant - np.eye(N))
    cells = np.flatnonzero(PRIOR)
    channel: FloatArray = (0.5 * honest[cells] + 0.5 * noisy[cells])[design._nearest(cells)]
    assert PRIOR @ (channel * quality_km).sum(axis=1) <= BUDGET_KM + 1e-12
    return channel


def changed(matrix: FloatArray, place: Any, value: Any) -> FloatArray:
    copy = matrix.copy()
    copy[place] = value
    return copy


FORGERIES = [
    "identity",
    "uniform",
    "constant",
    "transposed",
    "transposed, rows scaled",
    "permuted",
    "other prior",
    "other prior, own certificate",
    "within budget or guarantee, not optimal",
    "nan",
    "negative",
    "too small",
    "one row",
    "scaled",
    "cell without mass",
    "no certificate",
    "certificate of -1",
    "certificate of nan",
    "certificate of other shape",
]


def forged(what: str, design: Design, honest: Solved) -> Solved:
    """Return the solution that replaces the honest one."""
    channel, certificate = honest
    if what.startswith("other prior"):
        other = design.solved(a_prior(2))
        return other if what == "other prior" else Solved(other.channel, certificate)
    channels = {
        "identity": np.eye(N),
        "uniform": np.full((N, N), 1 / N),
        "constant": np.eye(N)[np.zeros(N, dtype=int)],
        "transposed": channel.T,
        "transposed, rows scaled": stochastic(channel.T),
        "permuted": channel[::-1],
        "within budget or guarantee, not optimal": within_the_budget(design, channel),
        "nan": changed(channel, (0, 0), np.nan),
        "negative": changed(channel, (0, slice(2)), [channel[0, :2].sum() + 0.1, -0.1]),
        "too small": channel[:-1, :-1],
        "one row": channel[0],
        "scaled": 0.99 * channel,
        "cell without mass": changed(channel, 2, np.eye(N)[2]),
    }
    certificates: dict[str, tuple[NDArray[Any], ...]] = {
        "no certificate": (),
        "certificate of -1": tuple(np.full_like(array, -1) for array in certificate),
        "certificate of nan": tuple(array * np.float64("nan") for array in certificate),
        "certificate of other shape": tuple(array[:-1] for array in certificate),
    }
    assert {*channels, *certificates, "other prior", "other prior, own certificate"} == set(FORGERIES)
    return Solved(channels.get(what, channel), certificates.get(what, certificate))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "cache"))
    CHANNELS.clear_memory()
    return tmp_path / "cache"


def the_file(folder: Path) -> Path:
    (path,) = folder.glob("*.npy")
    return path


@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_channel_is_recomputed_with_a_notice(
    folder: Path, kind: str, forgery: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checksum of every forged file matches, because the cache writes it."""
    design = DESIGNS[kind]()
    honest = design(PRIOR).matrix().copy()
    path = the_file(folder)
    cache._write(path, forged(forgery, design, cache._read(path)))
    false = path.read_bytes()
    CHANNELS.clear_memory()
    assert design(PRIOR).matrix().tobytes() == honest.tobytes()
    assert f"cached channel {path}: " in capsys.readouterr().err
    assert path.read_bytes() != false, "the correct solution must replace the file"


@pytest.mark.parametrize("kind", DESIGNS)
def test_file_of_another_problem_is_not_used(folder: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Copy a whole file, including its certificate, to the name of another problem."""
    change = {"epsilon_per_km": 2.5} if kind == "quality, epsilon" else {"quality_budget_km": 0.5}
    DESIGNS[kind](**change)(PRIOR)
    other = the_file(folder).rename(folder / "other")
    honest = DESIGNS[kind]()(PRIOR).matrix().copy()
    shutil.copy(other, the_file(folder))
    CHANNELS.clear_memory()
    assert DESIGNS[kind]()(PRIOR).matrix().tobytes() == honest.tobytes()
    assert f"cached channel {the_file(folder)}: " in capsys.readouterr().err


@pytest.mark.parametrize(("budget_km", "closed"), [(0.0, "identity"), (50.0, "constant")])
@pytest.mark.parametrize("make", [privacy, calibrated])
def test_closed_forms_are_verified_too(
    folder: Path, make: Callable[..., Design], budget_km: float, closed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    design = make(quality_budget_km=budget_km)
    honest = design(PRIOR).matrix().copy()
    assert (honest.tolist() == np.eye(N).tolist()) == (closed == "identity")
    cache._write(the_file(folder), Solved(np.eye(N)[:, ::-1].copy()))
    CHANNELS.clear_memory()
    assert design(PRIOR).matrix().tobytes() == honest.tobytes()
    assert f"cached channel {the_file(folder)}: " in capsys.readouterr().err


@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_cached_solution_is_verified_and_reused(
    folder: Path, kind: str, seed: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    design, prior = DESIGNS[kind](), a_prior(seed)
    solution = design(prior).matrix().copy()
    CHANNELS.clear_memory()
    monkeypatch.setattr(type(design), "solved", None)  # solving again fails
    assert design(prior).matrix().tobytes() == solution.tobytes()
    assert capsys.readouterr().err == ""
