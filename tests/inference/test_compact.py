"""Compact likelihood rows and their solver, compared with the same rows in full."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.inference import compact_newton as solver
from sim.inference import compact_rows
from sim.inference.compact_newton import compact_newton
from sim.inference.compact_rows import CompactRow, CompactRows, given_row
from sim.inference.estimate import certified_gap
from sim.inference.groups import equal_columns
from sim.inference.newton import constrained_newton
from sim.interfaces import Channel, ChannelCapabilities, FloatArray
from sim.lppm.channels.hiding import LocationHidingChannel
from sim.lppm.channels.mix import MixChannel
from sim.lppm.channels.product import ExponentialChannel
from sim.lppm.channels.remapped import RemappedChannel
from sim.world.distances.manhattan import ManhattanDistance

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

ROWS, COLS = 6, 5
N = ROWS * COLS
DISTANCE = ManhattanDistance(row_y_km=np.cumsum([0.5, 0.9, 1.1, 0.4, 1.0, 0.7]), col_x_km=np.linspace(0.0, 3.2, 5))


def some_rows(seed: int, count: int, kinds: tuple[str, ...] = ("exponential", "hiding", "given")) -> list[CompactRow]:
    """Return rows of several kernels: exponential and hiding channels, remapped or mixed, and arbitrary rows."""
    rng = np.random.default_rng(seed)
    bases = [ExponentialChannel(distance=DISTANCE, epsilon_per_km=epsilon) for epsilon in (0.3, 2.0)]
    rows: list[CompactRow] = []
    while len(rows) < count:
        kind = kinds[rng.integers(len(kinds))]
        prior = rng.dirichlet(np.full(N, 0.05)) + 1e-9
        prior /= prior.sum()
        if kind == "given":
            rows.append(given_row(rng.random(N)))
            continue
        base = (
            bases[rng.integers(2)]
            if kind == "exponential"
            else LocationHidingChannel(n_cells=N, reveal_probability=float(rng.choice([0.02, 0.5, 1.0])))
        )
        output = int(rng.integers(N))
        if rng.random() < 0.3:
            rows.append(base.compact_likelihood(output))
            continue
        remapped = RemappedChannel(base, base.remap(prior, DISTANCE))
        channel: Channel = remapped
        if rng.random() < 0.5:  # sometimes an output to which no other leads
            channel = MixChannel(remapped, reveal_probability=float(rng.choice([0.02, 0.3, 1.0])))
        if channel is remapped or rng.random() < 0.7:
            output = int(remapped.table[output])
        compact = ChannelCapabilities.compact_likelihood.of(channel)
        assert compact is not None
        row: CompactRow | None = compact(output)
        assert row is not None
        np.testing.assert_allclose(row.dense(N), channel.likelihood(output), rtol=1e-11, atol=1e-16)
        if row.dense(N).max() > 1e-100:
            rows.append(row)
    return rows


def stored(rows: list[CompactRow]) -> tuple[CompactRows, FloatArray]:
    """Return the rows in a store, and in full."""
    store, full = CompactRows(N), np.array([row.dense(N) for row in rows])
    for row, values in zip(rows, full, strict=True):
        store.append(row, values)
    return store, full


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(0, 11))
def test_products_are_those_of_the_rows_in_full(seed: int, count: int, forgotten: int) -> None:
    store, full = stored(some_rows(seed, count))
    rng = np.random.default_rng(seed)
    store.columns(rng.permutation(N)[:4])
    forgotten = min(forgotten, count - 1)
    store.forget(forgotten)
    full = full[forgotten:]
    coefficients, profile, cells = rng.random(len(full)), rng.dirichlet(np.ones(N)), rng.permutation(N)[:7]
    assert len(store) == len(full)
    np.testing.assert_allclose(store.gradient(coefficients), coefficients @ full, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(store.fitted(profile), full @ profile, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(store.columns(cells), full[:, cells], rtol=1e-11, atol=1e-15)
    assert store.groups.tolist() == equal_columns(full).tolist()
    peaks, most = store.peaks(len(full))
    assert peaks.tolist() == full.argmax(axis=1).tolist()
    assert most.tolist() == full.max(axis=1).tolist()


@pytest.mark.parametrize("cached", [0, 5, 256])
def test_columns_of_recent_calls_stay_valid(cached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are requested in turns, while reports arrive and the oldest are forgotten."""
    monkeypatch.setattr(compact_rows, "_CACHED_COLUMNS", cached)
    rng = np.random.default_rng(cached)
    store, full = CompactRows(N), np.empty((0, N))
    for step, row in enumerate(some_rows(3, 30)):
        store.append(row, row.dense(N))
        full = np.vstack([full, row.dense(N)])
        if step % 7 == 6:
            store.forget(3)
            full = full[3:]
        for _ in range(2):
            cells = rng.permutation(N)[: rng.integers(1, 5)]
            np.testing.assert_allclose(store.columns(cells), full[:, cells], rtol=1e-11, atol=1e-15)
    assert len(store._columns) <= max(cached, cells.size)


@pytest.mark.parametrize("kinds", [("exponential",), ("hiding",), ("exponential", "hiding", "given")])
@pytest.mark.parametrize("seed", range(4))
def test_the_estimate_is_certified_and_fits_as_the_dense_solver_does(kinds: tuple[str, ...], seed: int) -> None:
    rows = some_rows(seed, 40, kinds)
    weights = None if seed % 2 else np.linspace(0.2, 1.0, 40)
    store = CompactRows(N)
    start: FloatArray | None = None
    uniform = np.full(N, 1 / N)
    for count, row in enumerate(rows, start=1):  # warm starts, as a belief uses them
        store.append(row, row.dense(N))
        own = None if weights is None else weights[:count]
        estimate = compact_newton(store, start=start, proportions=uniform, weights=own, unseen=1, gap=1e-7)
        start = estimate.profile
    full = np.array([row.dense(N) for row in rows])
    reference = constrained_newton(full, proportions=uniform, weights=weights, gap=1e-9)
    assert estimate.gap <= 1e-7
    assert certified_gap(full, estimate.profile, weights) <= 1.1e-7
    assert estimate.log_likelihood == pytest.approx(reference.log_likelihood, abs=2e-7)
    np.testing.assert_allclose(full @ estimate.profile, full @ reference.profile, rtol=2e-2)
    groups = equal_columns(full)
    for group in np.unique(groups):  # equal columns share their mass evenly, in proportion to the uniform start
        assert np.ptp(estimate.profile[groups == group]) <= 1e-15


def test_em_continues_after_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    store, full = stored(some_rows(3, 15, ("exponential",)))
    monkeypatch.setattr(solver, "newton_step", lambda *_: None)
    estimate = compact_newton(store, proportions=np.full(N, 1 / N), gap=1e-3)
    assert estimate.gap <= 1e-3
    assert certified_gap(full, estimate.profile) == pytest.approx(estimate.gap, abs=1e-9)


def test_invalid_likelihoods_are_rejected() -> None:
    for row in (np.zeros(N), np.full(N, np.nan), np.full(N, -1.0)):
        with pytest.raises(ValueError, match=r"^likelihood\b"):
            CompactRows(N).append(given_row(row), row)


def test_rows_of_location_hiding_stay_one_family_when_they_are_pickled() -> None:
    row = LocationHidingChannel(n_cells=N, reveal_probability=0.5).compact_likelihood(3)
    assert pickle.loads(pickle.dumps(row)).kernel is row.kernel
