"""Store of likelihood rows and groups of equal columns."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.inference.groups import equal_columns
from sim.inference.likelihoods import Likelihoods

pytestmark = pytest.mark.usefixtures("numpy_and_numba")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12))
def test_groups_refined_row_by_row_are_the_equal_columns(seed: int, count: int, n: int) -> None:
    rows = np.random.default_rng(seed).choice([0.0, 0.1, 0.1 + 2**-56], p=[0.05, 0.9, 0.05], size=(count, n))
    rows[:, 0] = 0.1
    seen = Likelihoods(n)
    for row in rows:
        seen.append(row)
    assert len(seen) == count
    assert np.array_equal(seen.rows, rows)
    equal = [min(j for j in range(n) if np.array_equal(rows[:, j], rows[:, i])) for i in range(n)]
    assert seen.groups.tolist() == equal == equal_columns(rows).tolist()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.lists(st.integers(-6, 8), min_size=1, max_size=40))
def test_forgotten_rows_do_not_affect_the_groups(seed: int, n: int, moves: list[int]) -> None:
    """Append rows (a positive move) and forget the oldest (a negative move); compare with the remaining rows."""
    rng = np.random.default_rng(seed)
    seen, left = Likelihoods(n), np.empty((0, n))
    for move in moves:
        rows = rng.choice([0.0, 0.1, 0.2], p=[0.05, 0.9, 0.05], size=(max(0, move), n))
        rows[:, 0] = 0.1
        for row in rows:
            seen.append(row)
        n_removed = min(max(0, -move), len(left))
        seen.forget(n_removed)
        left = np.concatenate([left, rows])[n_removed:]
        assert len(seen) == len(left)
        assert np.array_equal(seen.rows, left)
        assert seen.groups.tolist() == equal_columns(left).tolist()


def test_the_buffer_of_a_window_of_rows_does_not_grow() -> None:
    seen, sizes = Likelihoods(3), set()
    for value in np.linspace(0.1, 1, 1000):
        seen.append([value, 0.5, 0.5])
        seen.forget(max(0, len(seen) - 40))
        sizes.add(len(seen._buffer))
    assert max(sizes) <= 100
    assert seen.rows[:, 0] == pytest.approx(np.linspace(0.1, 1, 1000)[-40:])
    with pytest.raises(ValueError, match=r"^count\b.* \[0, 40\], got 41"):
        seen.forget(41)
    with pytest.raises(ValueError, match=r"^count\b.* \[0, 40\], got -1"):
        seen.forget(-1)


def test_a_negative_zero_equals_zero() -> None:
    rows = np.array([[0.0, -0.0, 1.0]])
    seen = Likelihoods(3)
    seen.append(rows[0])
    assert seen.groups.tolist() == equal_columns(rows).tolist() == [0, 0, 2]


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, 1.0], [-0.1, 1.0], [np.inf, 1.0]])
def test_an_invalid_row_is_rejected_and_not_stored(row: list[float]) -> None:
    seen = Likelihoods(2)
    with pytest.raises(ValueError, match=r"^likelihood\b.* \[0, inf\) and above 1e-200\b"):
        seen.append(row)
    with pytest.raises(ValueError, match=r"^likelihood\b.* \(2,\), got \(3,\)"):
        seen.append([0.1, 0.2, 0.3])
    assert len(seen) == 0


def test_rows_are_read_only_and_survive_pickling() -> None:
    seen = Likelihoods(2)
    for value in np.linspace(0.1, 1, 50):
        seen.append([value, 0.5])
    with pytest.raises(ValueError, match="read-only"):
        seen.rows[0, 0] = 1.0
    again = pickle.loads(pickle.dumps(seen))
    again.append([1.0, 1.0])
    assert (len(seen), len(again)) == (50, 51)
    assert np.array_equal(again.rows[:50], seen.rows)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_does_not_change_the_likelihoods_of_its_parent() -> None:
    seen = Likelihoods(500)
    for _ in range(20):
        seen.append(np.full(500, 0.5))
    child = os.fork()
    if child == 0:
        seen._buffer[:] = 0.25
        os._exit(0)
    os.waitpid(child, 0)
    assert (seen.rows == 0.5).all()
