"""Counted transitions compared with their matrix: prediction, backward step and Viterbi."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.inference.transitions import CountedTransitions, DenseTransitions, SmoothedTransitions, Transitions
from sim.interfaces import FloatArray, IntArray
from tests.support import raises_code

pytestmark = pytest.mark.usefixtures("numpy_and_numba")


@st.composite
def tables(draw: st.DrawFn, n: int) -> tuple[IntArray, FloatArray]:
    """Draw counts with empty rows, full rows and none at all, and a distribution for the rows without data."""
    table = np.array(draw(st.lists(st.sampled_from((0, 0, 0, 1, 2, 7)), min_size=n * n, max_size=n * n)))
    weights = np.array(draw(st.lists(st.sampled_from((0, 1, 1, 5)), min_size=n, max_size=n)), dtype=np.float64)
    weights[draw(st.integers(0, n - 1))] += 1
    return table.reshape(n, n), weights / weights.sum()


def counted_of(table: IntArray, fallback: FloatArray) -> CountedTransitions:
    pairs = np.flatnonzero(table)
    return CountedTransitions(pairs=pairs, counts=table.ravel()[pairs], fallback=fallback)


@st.composite
def chains(draw: st.DrawFn) -> CountedTransitions:
    return counted_of(*draw(tables(draw(st.integers(1, 6)))))


def rows_of(table: IntArray, fallback: FloatArray) -> FloatArray:
    """Return the transitions by a loop over rows."""
    return np.array([row / row.sum() if row.any() else fallback for row in table.astype(np.float64)])


def require_agreement(sparse: Transitions, matrix: FloatArray, seed: int) -> None:
    """Compare all steps of an operator with those of a matrix."""
    dense = DenseTransitions(matrix)
    rng = np.random.default_rng(seed)
    values = rng.random(sparse.n_cells) * (rng.random(sparse.n_cells) < 0.7)
    weights = rng.random(sparse.n_cells)
    np.testing.assert_allclose(sparse.forward(values), dense.forward(values), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(sparse.backward(values), dense.backward(values), rtol=1e-12, atol=1e-300)
    assert weights @ sparse.backward(values) == pytest.approx(sparse.forward(weights) @ values, rel=1e-12)
    start, end = rng.integers(sparse.n_cells, size=(2, 4))
    assert np.array_equal(sparse.block(start, end), sparse.matrix()[np.ix_(start, end)])
    with np.errstate(divide="ignore"):
        scores = np.log(np.round(values, 1))  # with ties and impossible cells
    (sparse_scores, sparse_before), (scores, before) = sparse.extend(scores), dense.extend(scores)
    np.testing.assert_allclose(sparse_scores, scores, rtol=1e-12)
    possible = scores > -np.inf
    assert sparse_before[possible].tolist() == before[possible].tolist()


@settings(deadline=None, max_examples=150)
@given(chains(), st.integers(0, 10_000))
def test_counted_transitions_agree_with_their_matrix(counted: CountedTransitions, seed: int) -> None:
    require_agreement(counted, counted.matrix(), seed)
    every = np.arange(counted.n_cells**2)
    assert np.array_equal(counted.of_pairs(every), counted.matrix().ravel())


Tables = tuple[IntArray, FloatArray]


@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 5).flatmap(lambda n: st.tuples(tables(n), tables(n))),
    st.sampled_from((0.0, 0.5, 30.0)),
    st.sampled_from((0.0, 0.01, 1.0)),
    st.integers(0, 10_000),
)
def test_smoothed_transitions_agree_with_their_dense_formula(
    drawn: tuple[Tables, Tables], kappa: float, u: float, seed: int
) -> None:
    (table, fallback), (others, profile) = drawn
    smoothed = SmoothedTransitions(
        counted_of(table, fallback),
        table.sum(axis=1),
        counted_of(others, profile),
        pseudo_counts=kappa,
        independent_share=u,
    )
    of_others = (1 - u) * rows_of(others, profile) + u * profile
    left = table.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        expected = np.where(left > 0, (table + kappa * of_others) / (left + kappa), of_others)
    np.testing.assert_allclose(smoothed.matrix(), expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(smoothed.matrix().sum(axis=1), 1.0, rtol=1e-12)
    require_agreement(smoothed, expected, seed)


def test_pseudo_counts_lead_from_the_own_counts_to_the_other_people() -> None:
    own, profile = np.array([[3, 1, 0], [0, 0, 0], [0, 0, 2]]), np.array([0.5, 0.25, 0.25])
    others = np.array([[0, 0, 4], [1, 1, 0], [0, 0, 0]])
    m_others = 0.99 * rows_of(others, profile) + 0.01 * profile

    def smoothed(table: IntArray, kappa: float) -> FloatArray:
        return SmoothedTransitions(
            counted_of(table, np.full(3, 1 / 3)),
            table.sum(axis=1),
            counted_of(others, profile),
            pseudo_counts=kappa,
            independent_share=0.01,
        ).matrix()

    counted = counted_of(own, np.full(3, 1 / 3)).matrix()
    assert smoothed(own, 0.0)[[0, 2]].tolist() == counted[[0, 2]].tolist()
    np.testing.assert_allclose(smoothed(own, 0.0)[1], m_others[1], rtol=1e-15)
    np.testing.assert_allclose(smoothed(own, 1e15), m_others, atol=1e-14)
    for kappa in (0.0, 30.0):
        np.testing.assert_allclose(smoothed(np.zeros((3, 3), dtype=np.int64), kappa), m_others, rtol=1e-15)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pseudo_counts": -1.0}, r"pseudo_counts must be in \[0, inf\), got -1.0"),
        ({"independent_share": 1.5}, r"independent_share must be in \[0, 1\], got 1.5"),
        ({"own_counted": np.zeros(3)}, r"must have the same number of cells, got 2, 3 and 2"),
    ],
)
def test_invalid_smoothing_is_rejected(changes: dict[str, object], message: str) -> None:
    chain = counted_of(np.eye(2, dtype=np.int64), np.full(2, 0.5))
    valid: dict[str, object] = {"own": chain, "own_counted": np.ones(2), "others": chain}
    with pytest.raises(ValueError, match=message):
        SmoothedTransitions(**valid | {"pseudo_counts": 30.0, "independent_share": 0.01} | changes)  # type: ignore[arg-type]


def test_users_share_the_transitions_of_other_people() -> None:
    """A pickle of many users holds the transitions of the others once."""
    n = 2_000
    rng = np.random.default_rng(1)
    pairs = np.unique(rng.integers(n * n, size=100_000))
    others = CountedTransitions(pairs=pairs, counts=np.ones(pairs.size, dtype=np.int64), fallback=np.full(n, 1 / n))
    own = CountedTransitions(pairs=np.array([5]), counts=np.array([1]), fallback=np.full(n, 1 / n))
    counted = (np.arange(n) == 0).astype(np.float64)
    chains = [SmoothedTransitions(own, counted, others, pseudo_counts=30.0, independent_share=0.01) for _ in range(20)]
    assert len(pickle.dumps(chains)) < len(pickle.dumps(others)) + 20 * (n * 8 + 1000) + 100_000


def test_memory_grows_with_the_transitions_and_not_with_the_cells_squared() -> None:
    n = 33_600
    pairs = np.unique(np.random.default_rng(0).integers(n * n, size=100_000))
    counted = CountedTransitions(pairs=pairs, counts=np.ones(pairs.size, dtype=np.int64), fallback=np.full(n, 1 / n))
    assert counted.forward(np.full(n, 1 / n)).sum() == pytest.approx(1.0)
    with raises_code(InvalidValue, "matrix-too-large"):
        counted.matrix()
