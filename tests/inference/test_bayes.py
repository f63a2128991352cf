"""Bayesian inference over cells compared with brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.inference.bayes import condition, decide, decide_many, distribution, entropy, normalise, predict
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import FloatArray

pytestmark = pytest.mark.usefixtures("numpy_and_numba")


def manhattan(rows_km: FloatArray, cols_km: FloatArray) -> FloatArray:
    rows, cols = np.divmod(np.arange(len(rows_km) * len(cols_km)), len(cols_km))
    north, east = rows_km[rows], cols_km[cols]
    return np.abs(north[:, None] - north) + np.abs(east[:, None] - east)


@st.composite
def weighted_grids(draw: st.DrawFn) -> tuple[FloatArray, FloatArray, tuple[int, int]]:
    """Draw small integer weights, which make exact ties and empty rows likely, on unevenly spaced lines."""
    shape = (draw(st.integers(1, 6)), draw(st.integers(1, 6)))
    count = draw(st.integers(1, 4))
    n = shape[0] * shape[1]
    values = draw(st.lists(st.integers(0, 3), min_size=count * n, max_size=count * n))
    scale = draw(st.sampled_from([1.0, 1 / 3, 1e-9, 0.1]))
    lines = [np.cumsum(draw(st.lists(st.floats(0.1, 3), min_size=k, max_size=k))) for k in shape]
    return np.array(values).reshape(count, n) * scale, manhattan(*lines), shape


@settings(max_examples=300, deadline=None)
@given(weighted_grids())
def test_all_four_decision_functions_agree_and_are_optimal(
    case: tuple[FloatArray, FloatArray, tuple[int, int]],
) -> None:
    weights, distance_km, shape = case
    by_medians = decide_many(weights, distance_km, shape)
    assert by_medians.tolist() == decide_many(weights, distance_km, None).tolist()
    for row, estimate in zip(weights, by_medians, strict=True):
        assert decide(row, distance_km, shape) == estimate
        assert decide(row, distance_km, None) == estimate
        if row.sum() == 0:
            assert estimate == -1
            continue
        costs = [sum(row[x] * distance_km[x, y] for x in range(row.size)) for y in range(row.size)]
        lowest = next(y for y, cost in enumerate(costs) if cost <= min(costs) + 1e-12 * row.sum())
        assert estimate == lowest


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 12))
def test_decide_is_optimal_on_random_posteriors(seed: int, rows: int, cols: int) -> None:
    rng = np.random.default_rng(seed)
    posterior = normalise(rng.random(rows * cols) ** 6)
    distance_km = manhattan(np.linspace(0, 9, rows), np.linspace(0, 5, cols))
    costs = posterior @ distance_km
    assert costs[decide(posterior, distance_km, (rows, cols))] == pytest.approx(costs.min(), abs=1e-12)


def test_the_matrix_version_accepts_any_distance_and_any_set_of_estimates() -> None:
    distance_km = np.array([[5.0, 1.0], [0.0, 1.0], [9.0, 1.0]])
    assert decide(np.array([0.1, 0.9, 0.0]), distance_km, None) == 0
    assert decide(np.array([0.5, 0.0, 0.5]), distance_km, None) == 1


def test_rounding_does_not_break_a_tie() -> None:
    posterior = np.full(10, 0.1)  # the running sum at the fifth cell may be slightly below one half
    distance_km = manhattan(np.zeros(1), np.arange(10.0))
    assert decide(posterior, distance_km, (1, 10)) == 4
    assert decide(posterior, distance_km, None) == 4
    assert decide_many(posterior[None], distance_km, (1, 10)).tolist() == [4]


def test_condition_is_bayes_rule_and_does_not_change_its_inputs() -> None:
    prior, likelihood = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.0, 0.1])
    posterior, mass = condition(prior, likelihood)
    assert mass == pytest.approx(0.15)
    assert posterior == pytest.approx([2 / 3, 0, 1 / 3])
    assert prior.tolist() == [0.2, 0.3, 0.5]
    assert likelihood.tolist() == [0.5, 0.0, 0.1]


def test_condition_on_an_impossible_report_returns_zero_mass() -> None:
    posterior, mass = condition(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert mass == 0.0
    assert posterior.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (2, 2), None])
@pytest.mark.parametrize("total", [5e-324, 1e-323, 1e-320, 1e-300, MASS_FLOOR, 2 * MASS_FLOOR, 1e-280, 1.0])
def test_all_functions_treat_weights_up_to_the_floor_as_no_mass(total: float, shape: tuple[int, int] | None) -> None:
    # Half of the smallest positive number rounds to 0, and the first cell would be the median.
    weights, likelihood = np.array([0.0, 0.0, 0.0, total]), np.array([1.0, 1.0, 1.0, 1.0])
    distance_km = manhattan(np.arange(1.0), np.arange(4.0))
    posterior, mass = condition(weights, likelihood)
    if total > MASS_FLOOR:
        assert decide(weights, distance_km, shape) == 3
        assert decide_many(weights[None], distance_km, shape).tolist() == [3]
        assert (posterior.tolist(), mass) == ([0, 0, 0, 1], total)
    else:
        assert decide(weights, distance_km, shape) == -1
        assert decide_many(weights[None], distance_km, shape).tolist() == [-1]
        assert (posterior.tolist(), mass) == ([0, 0, 0, 0], 0.0)


@pytest.mark.parametrize("factors", [(1e-160, 1e-160), (1e-200, 1e-100), (1e-140, 1e-140), (0.5, 0.5)])
def test_deciding_on_the_joint_equals_deciding_on_the_posterior(factors: tuple[float, float]) -> None:
    prior, likelihood = np.array([0.0, factors[0], 1.0]), np.array([0.0, factors[1], 0.0])
    distance_km = manhattan(np.zeros(1), np.arange(3.0))
    (from_joint,) = decide_many((prior * likelihood)[None], distance_km, (1, 3))
    assert from_joint == decide(condition(prior, likelihood)[0], distance_km, (1, 3))
    assert from_joint == (1 if factors[0] * factors[1] > MASS_FLOOR else -1)


def test_predict_maps_rows_to_columns() -> None:
    transition = np.array([[0.1, 0.9], [0.4, 0.6]])
    assert predict(np.array([0.25, 0.75]), transition) == pytest.approx([0.325, 0.675])


def test_entropy_of_a_certain_and_of_a_uniform_distribution() -> None:
    assert entropy(np.array([0.0, 1.0])) == 0.0
    assert not np.signbit(entropy(np.array([0.0, 1.0])))
    assert entropy(np.full(8, 1 / 8)) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, 0.6], r"^p must sum to 1\b.* got 1\.1"),
        ([1.5, -0.5], r"^p\b.* \[0, 1\] .* -0\.5 at \[1\]"),
        ([1.5, 0.5], r"^p must sum to 1\b.* got 2\.0"),
        ([np.nan, 1.0], r"^p\b.* \[0, 1\] .* nan at \[0\]"),
        ([[0.5, 0.5], [0.5, np.inf]], r"^p\b.* \[0, 1\] .* inf at \[1, 1\]"),
        ([], r"^p\b.* \(0,\)"),
        ([[0.5, 0.5], [0.5, 0.4]], r"^p must sum to 1\b.* got 0\.9 in row 1"),
    ],
)
def test_invalid_distribution_is_rejected(values: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        distribution(values, "p")


def test_a_distribution_is_copied_unless_it_is_read_only() -> None:
    source = np.array([0.5, 0.5])
    copy = distribution(source, "p")
    source[0] = 0.0
    assert copy.tolist() == [0.5, 0.5]
    assert not copy.flags.writeable
    assert distribution(copy, "p") is copy


def test_normalise_rejects_weights_without_mass() -> None:
    with pytest.raises(ValueError, match=r"^total weight\b.* \(0, inf\), got 0\.0"):
        normalise(np.zeros(3))
