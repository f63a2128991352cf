"""Equality of every kernel with its NumPy version, and of whole runs with either."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.errors import InputError
from sim.inference import kernels
from sim.inference.bayes import condition, decide, decide_each, predict, read_only
from sim.inference.estimate import certified_gap
from sim.inference.groups import refine
from sim.inference.likelihoods import Likelihoods
from sim.inference.newton import constrained_newton
from sim.interfaces import FloatArray
from sim.lppm import remap
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.hiding import location_hiding
from sim.lppm.channels.product import exponential_kernel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.estimates import (
    column_product,
    estimates_hiding,
    estimates_product,
    expected_distance_km,
    row_product,
)
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import MakeScenario, log_of, numpy_kernels, raises_code

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 5))
SIX_CELLS = Grid.rectangle(rows=2, cols=3, width_km=1, height_km=1)
EPSILONS = st.sampled_from([0.0, 1e-3, 0.3, 1.0, 8.0, 500.0])


def numba_kernels() -> kernels.Kernels:
    loaded = kernels.compiled()
    assert loaded is not None, "numba is not installed: make .venv/ready-to-develop"
    return loaded


@st.composite
def priors(draw: st.DrawFn, n_cells: int) -> FloatArray:
    """Draw a profile with many zeros and many ties."""
    counts = draw(st.lists(st.integers(0, 3), min_size=n_cells, max_size=n_cells).filter(any))
    return np.array(counts, dtype=np.float64) / sum(counts)


@st.composite
def tables(draw: st.DrawFn, n_cells: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(draw(st.lists(st.integers(0, n_cells - 1), min_size=n_cells, max_size=n_cells)), dtype=np.int64)


def kernels_of(shape: tuple[int, int], epsilon: float) -> tuple[FloatArray, FloatArray]:
    rows, cols = (np.abs(np.subtract.outer(np.arange(size), np.arange(size))).astype(np.float64) for size in shape)
    return exponential_kernel(1.1 * rows, epsilon), exponential_kernel(0.9 * cols, epsilon)


@given(st.data())
def test_exponential_remap_and_columns(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    n_cells = shape[0] * shape[1]
    row_kernel, col_kernel = kernels_of(shape, data.draw(EPSILONS))
    prior, table = data.draw(priors(n_cells)), data.draw(tables(n_cells))
    outputs = np.unique(data.draw(tables(n_cells)))
    with numpy_kernels():
        plain = remap.remap_product(row_kernel, col_kernel, prior)
        columns = remap.columns_product(row_kernel, col_kernel, table, outputs)
    assert np.array_equal(numba_kernels().remap_product(row_kernel, col_kernel, prior), plain)
    fast = numba_kernels().columns_product(row_kernel, col_kernel, table, outputs)
    np.testing.assert_allclose(fast, columns, rtol=1e-13, atol=1e-300)


@given(st.data())
def test_hiding_remap(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    n_cells = shape[0] * shape[1]
    reveal = data.draw(st.sampled_from([0.0, 1 / n_cells, 0.5, 0.6, 1 - 1e-12, 1.0])) if n_cells > 1 else 1.0
    other = (1 - reveal) / max(n_cells - 1, 1)
    prior, table = data.draw(priors(n_cells)), data.draw(tables(n_cells))
    outputs = np.unique(data.draw(tables(n_cells)))
    where = manhattan(Grid.rectangle(rows=shape[0], cols=shape[1], width_km=1.0, height_km=2.0))
    with numpy_kernels():
        plain = remap.remap_hiding(reveal, other, prior, where)
        columns = remap.columns_hiding(reveal, other, table, outputs)
    np.testing.assert_allclose(
        numba_kernels().columns_hiding(reveal, other, table, outputs), columns, rtol=1e-15, atol=0
    )
    assert np.array_equal(remap.remap_hiding(reveal, other, prior, where), plain)
    if reveal >= other:
        assert np.array_equal(numba_kernels().remap_hiding(reveal, other, prior, *shape), plain)


@given(st.data())
def test_deciding_for_each_likelihood(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    n_cells = shape[0] * shape[1]
    prior = data.draw(priors(n_cells))
    count = data.draw(st.integers(0, 4))
    likelihoods = np.array([data.draw(tables(n_cells)) for _ in range(count)], dtype=np.float64).reshape(count, n_cells)
    with numpy_kernels():
        plain = decide_each(prior, likelihoods, np.empty((0, 0)), shape)
        one = decide(prior, np.empty((0, 0)), shape)
    assert np.array_equal(numba_kernels().decide_each(prior, likelihoods, *shape), plain)
    assert numba_kernels().decide(prior, *shape) == one


def some_prior(data: st.DataObject, n_cells: int) -> FloatArray:
    """Draw a profile, or weights without mass."""
    return data.draw(st.one_of(priors(n_cells), st.just(np.zeros(n_cells)), st.just(np.full(n_cells, 1e-310))))


@given(st.data())
def test_estimates_and_rows_of_exponential_channels(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    n_cells = shape[0] * shape[1]
    factors = kernels_of(shape, data.draw(EPSILONS))
    prior, table = some_prior(data, n_cells), data.draw(tables(n_cells))
    cell, output = data.draw(st.integers(0, n_cells - 1)), data.draw(st.integers(-1, n_cells))
    reveal = data.draw(st.sampled_from([0.0, 1e-9, 0.3, 1.0]))
    where = manhattan(Grid.rectangle(rows=shape[0], cols=shape[1], width_km=1.0, height_km=2.0))

    def results() -> list[Any]:
        estimates, missing = estimates_product(*factors, table, prior, where, reveal)
        row = row_product(*factors, table, cell)
        error_km = expected_distance_km(row, estimates, where.matrix_km[cell])
        return [estimates, missing, row, column_product(*factors, table, output), error_km]

    fast = results()
    with numpy_kernels():
        plain = results()
    for actual, expected in zip(fast, plain, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-300)
    assert not fast[0].flags.writeable


@given(st.data())
def test_estimates_of_location_hiding(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    n_cells = shape[0] * shape[1]
    reveal = data.draw(st.sampled_from([0.0, 1 / n_cells, 0.5, 0.6, 1 - 1e-12, 1.0])) if n_cells > 1 else 1.0
    other = (1 - reveal) / max(n_cells - 1, 1)
    prior, table = some_prior(data, n_cells), data.draw(tables(n_cells))
    where = manhattan(Grid.rectangle(rows=shape[0], cols=shape[1], width_km=1.0, height_km=2.0))
    fast, missing = estimates_hiding(reveal, other, table, prior, where)
    with numpy_kernels():
        plain, plain_missing = estimates_hiding(reveal, other, table, prior, where)
    assert np.array_equal(fast, plain)
    assert missing == plain_missing


@pytest.mark.usefixtures("numpy_and_numba")
def test_an_estimate_outside_the_grid_is_rejected() -> None:
    with pytest.raises(IndexError):
        expected_distance_km(np.array([0.5, 0.5]), np.array([0, 2]), np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match=r"shape|size|mismatch"):
        expected_distance_km(np.array([0.5, 0.5]), np.array([0, 1, 0]), np.array([0.0, 1.0]))


@given(st.data())
def test_conditioning(data: st.DataObject) -> None:
    n_cells = data.draw(st.integers(1, 8))
    prior, likelihood = (
        data.draw(priors(n_cells)),
        np.float64(data.draw(st.sampled_from([1.0, 1e-300]))) * data.draw(tables(n_cells)),
    )
    with numpy_kernels():
        posterior, mass = condition(prior, likelihood)
    fast, fast_mass = condition(prior, likelihood)
    np.testing.assert_allclose(fast, posterior, rtol=1e-14, atol=0)
    assert fast_mass == pytest.approx(mass, rel=1e-14, abs=0)


@given(st.data())
def test_predicting(data: st.DataObject) -> None:
    n_cells = data.draw(st.integers(1, 8))
    posterior, rows = data.draw(priors(n_cells)), [data.draw(priors(n_cells)) for _ in range(n_cells)]
    with numpy_kernels():
        plain = predict(posterior, np.array(rows))
    np.testing.assert_allclose(numba_kernels().predict(posterior, np.array(rows)), plain, rtol=1e-14, atol=1e-17)


@given(st.data())
def test_storing_likelihoods(data: st.DataObject) -> None:
    n_cells = data.draw(st.integers(1, 12))
    rows = [data.draw(tables(n_cells)).astype(np.float64) % 4 + 0.5 for _ in range(3)]
    stored = []
    for plain in (False, True):
        with numpy_kernels() if plain else nullcontext():
            seen = Likelihoods(n_cells)
            for row in rows:
                seen.append(row)
            for wrong in (-1.0, 0.0, np.inf, np.nan):
                with pytest.raises(ValueError, match="likelihood"):
                    seen.append(np.full(n_cells, wrong))
        stored.append(seen)
    fast, slow = stored
    assert np.array_equal(fast.rows, slow.rows)
    assert np.array_equal(fast.rows, rows)
    assert np.array_equal(fast.groups, slow.groups)


@given(st.data())
def test_refining_groups(data: st.DataObject) -> None:
    n_cells = data.draw(st.integers(1, 12))
    rows = [data.draw(tables(n_cells)) % 4 for _ in range(3)]
    groups = np.zeros(rows[0].size, dtype=np.int64)
    for row in rows:
        values = row.astype(np.float64)
        with numpy_kernels():
            plain = refine(groups, values)
        assert np.array_equal(numba_kernels().refine(groups, values), plain)
        groups = plain


@st.composite
def problems(draw: st.DrawFn) -> tuple[FloatArray, FloatArray]:
    """Draw weights and likelihood rows, of which some are equal, some have zeros and some are tiny."""
    count, n_cells = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = rng.random((count, n_cells)) ** draw(st.sampled_from([1.0, 20.0]))
    rows[rng.random(rows.shape) < draw(st.sampled_from([0.0, 0.5]))] = 0.0
    rows[np.arange(count), rng.integers(0, n_cells, count)] = 1.0
    if draw(st.booleans()):
        rows = rows[rng.integers(0, count, count)][:, rng.integers(0, n_cells, n_cells)]
        rows[:, 0] = np.maximum(rows[:, 0], 0.1)
    weights = rng.random(count) ** draw(st.sampled_from([0.0, 1.0, 8.0])) + 1e-6
    return rows, weights


@settings(max_examples=200)
@given(problems(), st.booleans(), st.integers(0, 2**32 - 1))
def test_newton_reaches_the_same_fit_and_gap_from_any_start(
    problem: tuple[FloatArray, FloatArray], warm: bool, seed: int
) -> None:
    rows, weights = problem
    start = None
    if warm:
        start = np.zeros(rows.shape[1])
        start[np.random.default_rng(seed).integers(0, start.size)] = 1.0
    fast = constrained_newton(rows, weights=weights, start=start, gap=1e-7)
    with numpy_kernels():
        plain = constrained_newton(rows, weights=weights, start=start, gap=1e-7)
    for estimate in (fast, plain):
        assert estimate.gap <= 1e-7
        assert estimate.gap == pytest.approx(certified_gap(rows, estimate.profile, weights), abs=1e-11)
        expected = float(weights @ np.log(rows @ estimate.profile)) / weights.sum()
        assert estimate.log_likelihood == pytest.approx(expected)
    # Let r be the ratio of a fit to the best fit. The mean of w (r - 1 - log r) is at most the gap, and so is each
    # term: a row with a small weight may be far from its best fit.
    room = 1e-7 * weights.sum() / weights
    apart = np.abs(np.log(rows @ fast.profile) - np.log(rows @ plain.profile))
    assert (apart <= 2 * (np.sqrt(2 * room) + room) + 1e-9).all()
    assert fast.log_likelihood == pytest.approx(plain.log_likelihood, abs=2e-7)


@pytest.mark.parametrize("form", ["strided", "single", "fortran", "read-only"])
def test_arrays_of_any_layout_are_accepted(form: str) -> None:
    """Pass strided, single-precision and read-only arrays, which custom channels and beliefs may return."""
    forms: dict[str, Callable[[FloatArray], Any]] = {
        "strided": lambda values: np.repeat(values, 2, axis=-1)[..., ::2],
        "single": lambda values: values.astype(np.float32),
        "fortran": np.asfortranarray,
        "read-only": lambda values: read_only(values.copy()),
    }
    change = forms[form]
    prior, rows = change(np.array([0.5, 0.25, 0.0, 0.25])), change(np.array([[0.25, 0.5, 0.75, 1.0], [1.0, 0.5, 0, 0]]))
    square, where = np.full((4, 4), 0.25), manhattan(Grid.rectangle(rows=2, cols=2, width_km=1, height_km=1))

    def results() -> list[Any]:
        estimated = constrained_newton(rows, start=prior, weights=change(np.array([1.0, 1.0])))
        return [
            *condition(prior, rows[0]),
            decide(prior, where.matrix_km, where.shape),
            decide_each(prior, rows, where.matrix_km, where.shape),
            predict(prior, square),
            predict(prior, change(square)),
            *estimates_product(*kernels_of((2, 2), 1.0), np.arange(4), prior, where),
            *estimates_hiding(0.4, 0.2, np.arange(4), prior, where),
            expected_distance_km(prior, np.arange(4, dtype=np.int32), where.matrix_km[1]),
            remap.remap_product(*kernels_of((2, 2), 1.0), prior),
            remap.remap_hiding(0.4, 0.2, prior, where),
            refine(np.zeros(4, dtype=np.int64), rows[0]),
            rows @ estimated.profile,
        ]

    fast = results()
    with numpy_kernels():
        plain = results()
    for actual, expected in zip(fast, plain, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.usefixtures("numpy_and_numba")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda: condition(np.ones(4) / 4, np.ones(3)),
        lambda: decide(np.ones(4) / 4, np.empty((0, 0)), (2, 3)),
        lambda: decide_each(np.ones(6) / 6, np.ones((2, 4)), np.empty((0, 0)), (2, 3)),
        lambda: predict(np.ones(3) / 3, np.eye(4)),
        lambda: estimates_product(np.eye(2), np.eye(3), np.arange(6), np.ones(5) / 5, manhattan(SIX_CELLS)),
        lambda: estimates_hiding(0.5, 0.1, np.arange(6), np.ones(5) / 5, manhattan(SIX_CELLS)),
        lambda: remap.remap_product(np.eye(2), np.eye(3), np.ones(5) / 5),
        lambda: remap.remap_hiding(0.5, 0.1, np.ones(5) / 5, manhattan(SIX_CELLS)),
    ],
)
def test_mismatched_shapes_are_rejected(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"shape|size|broadcast|mismatch"):
        wrong()


@pytest.mark.usefixtures("numpy_and_numba")
def test_an_output_outside_the_space_has_likelihood_zero() -> None:
    where = manhattan(SIX_CELLS)
    for base in (exponential(where, 1.0), location_hiding(6, 0.5)):
        channel = RemappedChannel(base, np.arange(6, dtype=np.int32))
        assert not channel.likelihood(-1).any()
        assert not channel.likelihood(10**6).any()
        assert channel.likelihood(np.int32(2)) == pytest.approx(channel.matrix()[:, 2])  # type: ignore[arg-type]


@pytest.mark.usefixtures("numpy_and_numba")
def test_a_nan_likelihood_has_no_mass() -> None:
    posterior, mass = condition(np.array([0.5, 0.5]), np.array([np.nan, 1.0]))
    assert (posterior.tolist(), mass) == ([0.0, 0.0], 0.0)


def test_a_whole_run_gives_the_same_events(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(
        lppms=["SP-Exp", "MK-Exp", "PEB-Exp", "SP-LH", "MK-LH", "PEB-LH"],
        users={"count": 3, "queries": 60, "mobility": {"kind": "favourites", "places": 6}},
    )
    fast = log_of(scenario, tmp_path / "fast")
    with numpy_kernels():
        plain = log_of(scenario, tmp_path / "plain")
    pd.testing.assert_frame_equal(fast, plain, rtol=1e-9, atol=1e-9)
    used = [sim.Result.open(tmp_path / way).manifest.kernels for way in ("fast", "plain")]
    assert used == [kernels.describe(), "plain"]


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from sim.inference import kernels
print(kernels.compiled(), "|", kernels.describe())
"""


TINY = """
import numba
from numba import types

@numba.njit([(types.float64,)], cache=True)
def one_more(x):
    return x + 1

@numba.njit([(types.float64,)], cache=True)
def one_less(x):
    return x - 1
"""

LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
from sim.cli.kernels import load_kernels
from sim.inference import kernels

def compiled():
    import tiny_kernels
    return tiny_kernels

kernels.compiled = compiled
load_kernels()
"""


def test_a_notice_is_shown_only_when_kernels_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "tiny_kernels.py").write_text(TINY)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def notices(**changes: str) -> str:
        command = [sys.executable, "-c", LOADED, str(tmp_path)]
        result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment | changes)
        return result.stderr

    assert notices().count("\n") == 1  # one notice, although two functions are compiled
    assert notices() == ""  # loaded from the cache
    assert notices(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="").count("\n") == 1  # another processor


WITHOUT_CACHE_FOLDER = """
from numba.core import caching
caching.CacheImpl._locator_classes = []
from sim.inference import kernels
try:
    kernels.compiled()
except Exception as error:
    print(type(error).__name__, error.code, error)
"""


def test_missing_folder_for_compiled_code_is_reported_with_a_remedy() -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_CACHE_FOLDER], capture_output=True, text=True, check=True, timeout=240
    )
    assert result.stdout.startswith("InputError no-kernel-cache ")
    assert "NUMBA_CACHE_DIR" in result.stdout


def test_without_numba_the_numpy_functions_are_used() -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=True, timeout=240
    )
    assert result.stdout.strip() == "None | plain"


@pytest.mark.parametrize(("choice", "used"), [("plain", "plain"), ("numba", "numba "), ("", "numba ")])
def test_the_environment_variable_chooses_the_kernels(choice: str, used: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.VARIABLE, choice)
    kernels.compiled.cache_clear()
    try:
        assert kernels.describe().startswith(used)
    finally:
        kernels.compiled.cache_clear()


def test_unknown_kernels_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.VARIABLE, "fortran")
    kernels.compiled.cache_clear()
    try:
        with raises_code(InputError, "unknown-kernels") as error:
            kernels.compiled()
        for part in (kernels.VARIABLE, "plain", "numba", "'fortran'"):
            assert part in str(error.value)
    finally:
        kernels.compiled.cache_clear()
