"""Counted transitions compared with their matrix: prediction, backward step and Viterbi."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.inference.transitions import CountedTransitions, DenseTransitions
from tests.support import raises_code

pytestmark = pytest.mark.usefixtures("numpy_and_numba")


@st.composite
def chains(draw: st.DrawFn) -> CountedTransitions:
    """Draw counts with empty rows, full rows and none at all."""
    n = draw(st.integers(1, 6))
    table = np.array(draw(st.lists(st.sampled_from((0, 0, 0, 1, 2, 7)), min_size=n * n, max_size=n * n)))
    weights = np.array(draw(st.lists(st.sampled_from((0, 1, 1, 5)), min_size=n, max_size=n)), dtype=np.float64)
    weights[draw(st.integers(0, n - 1))] += 1
    pairs = np.flatnonzero(table)
    return CountedTransitions(pairs=pairs, counts=table[pairs], fallback=weights / weights.sum())


@settings(deadline=None, max_examples=150)
@given(chains(), st.integers(0, 10_000))
def test_counted_transitions_agree_with_their_matrix(counted: CountedTransitions, seed: int) -> None:
    dense = DenseTransitions(counted.matrix())
    rng = np.random.default_rng(seed)
    values = rng.random(counted.n_cells) * (rng.random(counted.n_cells) < 0.7)
    np.testing.assert_allclose(counted.forward(values), dense.forward(values), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(counted.backward(values), dense.backward(values), rtol=1e-13, atol=1e-300)
    start, end = rng.integers(counted.n_cells, size=(2, 4))
    assert np.array_equal(counted.block(start, end), counted.matrix()[np.ix_(start, end)])
    with np.errstate(divide="ignore"):
        scores = np.log(np.round(values, 1))  # with ties and impossible cells
    (counted_scores, counted_before), (scores, before) = counted.extend(scores), dense.extend(scores)
    np.testing.assert_allclose(counted_scores, scores, rtol=1e-13)
    possible = scores > -np.inf
    assert counted_before[possible].tolist() == before[possible].tolist()


def test_memory_grows_with_the_transitions_and_not_with_the_cells_squared() -> None:
    n = 33_600
    pairs = np.unique(np.random.default_rng(0).integers(n * n, size=100_000))
    counted = CountedTransitions(pairs=pairs, counts=np.ones(pairs.size, dtype=np.int64), fallback=np.full(n, 1 / n))
    assert counted.forward(np.full(n, 1 / n)).sum() == pytest.approx(1.0)
    with raises_code(InvalidValue, "matrix-too-large"):
        counted.matrix()
