"""The two estimators against closed forms, an independent optimiser and each other."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, minimize

import sim.inference.estimate
from sim.inference.estimate import (
    Estimate,
    Likelihoods,
    certified_gap,
    constrained_newton,
    em,
    equal_columns,
    posterior_mode,
)
from sim.interfaces import FloatArray

pytestmark = pytest.mark.usefixtures("either_way")

SOLVERS: list[Callable[..., Estimate]] = [em, constrained_newton]
both = pytest.mark.parametrize("solve", SOLVERS)


def exponential_rows(count: int, rows: int, cols: int, epsilon_per_km: float, seed: int = 0) -> FloatArray:
    """Likelihoods of `count` outputs of the exponential mechanism, for a user with a few favourite cells."""
    rng = np.random.default_rng(seed)
    row, col = np.divmod(np.arange(rows * cols), cols)
    distance_km = 1.1 * (np.abs(row[:, None] - row) + np.abs(col[:, None] - col))
    channel = np.exp(-epsilon_per_km * distance_km)
    channel /= channel.sum(axis=1, keepdims=True)
    favourites = rng.permutation(rows * cols)[:6]
    cells = rng.choice(favourites, size=count)
    outputs = [rng.choice(rows * cols, p=channel[cell]) for cell in cells]
    return np.asarray(channel[:, outputs].T)


def hiding_rows(count: int, n_cells: int, reveal_probability: float, seed: int = 0) -> FloatArray:
    """Likelihoods of location hiding: a constant, and a peak on the one cell reported."""
    rng = np.random.default_rng(seed)
    rows = np.full((count, n_cells), (1 - reveal_probability) / (n_cells - 1))
    rows[np.arange(count), rng.integers(0, n_cells // 4, count)] = reveal_probability
    return rows


PROBLEMS = {
    "exponential 0.3": exponential_rows(60, 6, 5, 0.3),
    "exponential 1": exponential_rows(60, 6, 5, 1.0),
    "exponential 2": exponential_rows(60, 6, 5, 2.0),
    "hiding 0.4": hiding_rows(60, 40, 0.4),
    "random": np.random.default_rng(3).random((30, 12)),
    "zeros": np.random.default_rng(4).random((20, 8)) * (np.arange(160).reshape(20, 8) % 3 > 0),
    "one row": np.array([[0.2, 0.5, 0.3]]),
    "one cell": np.array([[0.2], [0.7]]),
}
every_problem = pytest.mark.parametrize("rows", PROBLEMS.values(), ids=PROBLEMS.keys())


@both
@every_problem
def test_the_gap_asked_for_is_reached_and_reported(solve: Callable[..., Estimate], rows: FloatArray) -> None:
    estimate = solve(rows, gap=1e-6)
    assert estimate.gap <= 1e-6
    assert estimate.gap == pytest.approx(certified_gap(rows, estimate.profile), abs=1e-12)
    assert estimate.profile.sum() == pytest.approx(1, abs=1e-12)
    assert estimate.profile.min() >= 0
    assert estimate.log_likelihood == pytest.approx(np.log(rows @ estimate.profile).mean(), abs=1e-12)


@every_problem
def test_newton_and_em_fit_the_same(rows: FloatArray) -> None:
    fast, plain = constrained_newton(rows, gap=1e-9), em(rows, gap=1e-9)
    assert abs(fast.log_likelihood - plain.log_likelihood) <= 1e-9
    assert rows @ fast.profile == pytest.approx(rows @ plain.profile, rel=2e-3)


@both
def test_a_full_disclosure_gives_the_histogram(solve: Callable[..., Estimate]) -> None:
    cells = [0, 2, 2, 3, 3, 3, 2, 2]
    assert solve(np.eye(5)[cells]).profile == pytest.approx([1 / 8, 0, 4 / 8, 3 / 8, 0], abs=1e-6)


@both
def test_the_closed_form_of_two_cells(solve: Callable[..., Estimate]) -> None:
    """With p = P(report 0 | cell 0), q = P(report 0 | cell 1) and share h of zeros, pi_0 = (h - q) / (p - q)."""
    p, q, zeros, ones = 0.8, 0.3, 11, 9
    rows = np.array([[p, q]] * zeros + [[1 - p, 1 - q]] * ones)
    expected = (zeros / (zeros + ones) - q) / (p - q)
    assert solve(rows, gap=1e-10).profile[0] == pytest.approx(expected, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_an_independent_optimiser_finds_nothing_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.random((8, 4)) + 0.01

    def loss(pi: FloatArray) -> float:
        return float(-np.log(rows @ pi).mean())

    found = minimize(
        loss,
        [0.25] * 4,
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(np.ones((1, 4)), 1.0, 1.0),
        method="SLSQP",
        tol=1e-12,
    )
    for solve in SOLVERS:
        assert solve(rows).log_likelihood == pytest.approx(-found.fun, abs=2e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 30), st.sampled_from([0.0, 1.0, 20.0, 100.0]))
def test_newton_certifies_wild_problems_from_any_start(seed: int, count: int, n: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    rows = np.exp(-spread * rng.random((count, n))) * (rng.random((count, n)) < 0.7)
    rows[np.arange(count), rng.integers(0, n, count)] = 1.0
    for start in (None, np.eye(n)[rng.integers(n)], rng.dirichlet(np.ones(n))):
        estimate = constrained_newton(rows, start=start, weights=np.power(0.8, np.arange(float(count))))
        assert estimate.gap <= 1e-6
        assert np.isfinite(estimate.profile).all()


def test_the_gap_bounds_the_loss() -> None:
    rows = PROBLEMS["exponential 1"]
    best = constrained_newton(rows, gap=1e-11).log_likelihood
    rng = np.random.default_rng(0)
    for profile in rng.dirichlet(np.ones(rows.shape[1]), size=50):
        loss = best - np.log(rows @ profile).mean()
        assert 0 < loss <= certified_gap(rows, profile)


def test_em_takes_the_papers_step_and_never_lowers_the_likelihood() -> None:
    rows = PROBLEMS["exponential 1"]
    profile = np.full(rows.shape[1], 1 / rows.shape[1])
    before = -np.inf
    for steps in range(1, 30):
        posteriors = [profile * row / sum(profile * row) for row in rows]
        profile = sum(posteriors) / len(rows)
        estimate = em(rows, gap=1e-12, max_iterations=steps)
        assert estimate.iterations == steps
        assert estimate.profile == pytest.approx(profile, abs=1e-12)
        assert estimate.log_likelihood > before
        before = estimate.log_likelihood


@both
def test_stopping_early_tells_the_true_gap(solve: Callable[..., Estimate]) -> None:
    rows = PROBLEMS["exponential 0.3"]
    estimate = solve(rows, gap=1e-9, max_iterations=1)
    assert estimate.iterations == 1
    assert estimate.gap > 1e-9
    assert estimate.gap == pytest.approx(certified_gap(rows, estimate.profile), rel=1e-9)


@both
def test_a_place_the_start_rules_out_is_learned(solve: Callable[..., Estimate]) -> None:
    rows = exponential_rows(40, 4, 4, 1.0)
    start = np.zeros(16)
    start[0] = 1.0
    estimate = solve(rows, start=start)
    assert estimate.gap <= 1e-6
    assert estimate.profile[1:].sum() > 0.1


def test_a_warm_start_that_makes_a_new_report_impossible_is_mended() -> None:
    rows = np.eye(4)[[0, 0, 0, 3]]
    estimate = constrained_newton(rows, start=np.array([1.0, 0, 0, 0]))
    assert estimate.profile == pytest.approx([0.75, 0, 0, 0.25])


@both
def test_equal_columns_share_by_the_starts_proportions(solve: Callable[..., Estimate]) -> None:
    rows = np.array([[0.6, 0.2, 0.2, 0.2], [0.1, 0.5, 0.5, 0.1], [0.1, 0.5, 0.5, 0.1]])
    shared = solve(rows, start=np.array([0.3, 0.6, 0.1, 0.0])).profile
    assert shared[1] / shared[2] == pytest.approx(6)
    even = solve(rows, start=np.array([0.9, 0.0, 0.0, 0.1])).profile
    assert even[1] == pytest.approx(even[2])
    assert even[1] > 0.1


def test_proportions_count_before_the_start() -> None:
    rows = np.array([[0.1, 0.5, 0.5], [0.2, 0.1, 0.1]])
    split = constrained_newton(rows, start=np.array([0.0, 1.0, 0.0]), proportions=np.array([0.5, 0.1, 0.4])).profile
    assert split[2] / split[1] == pytest.approx(4)


@both
@pytest.mark.parametrize("name", ["exponential 1", "hiding 0.4"])
def test_weights_are_repeated_rows(solve: Callable[..., Estimate], name: str) -> None:
    rows = PROBLEMS[name][:10]
    counts = np.array([3, 1, 0, 2, 1, 5, 1, 1, 0, 4])
    weighted = solve(rows, weights=counts.astype(float), gap=1e-9)
    repeated = solve(np.repeat(rows, counts, axis=0), gap=1e-9)
    assert weighted.log_likelihood == pytest.approx(repeated.log_likelihood, abs=2e-9)
    kept = rows[counts > 0]
    assert kept @ weighted.profile == pytest.approx(kept @ repeated.profile, rel=1e-3)
    assert certified_gap(rows, weighted.profile, counts.astype(float)) <= 1e-9


def test_one_row_at_a_time_comes_to_the_same_as_all_at_once() -> None:
    rows = exponential_rows(40, 5, 5, 1.0)
    seen, warm = Likelihoods(25), None
    for count, row in enumerate(rows, start=1):
        seen.append(row)
        warm = constrained_newton(seen.rows, start=warm, groups=seen.groups, gap=1e-9).profile
        cold = constrained_newton(rows[:count], gap=1e-9).profile
        assert rows[:count] @ warm == pytest.approx(rows[:count] @ cold, rel=1e-3)


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
def test_what_is_forgotten_leaves_no_trace(seed: int, n: int, moves: list[int]) -> None:
    """Rows come (a positive move) and the oldest go (a negative one): rows and groups are those of what is left."""
    rng = np.random.default_rng(seed)
    seen, left = Likelihoods(n), np.empty((0, n))
    for move in moves:
        rows = rng.choice([0.0, 0.1, 0.2], p=[0.05, 0.9, 0.05], size=(max(0, move), n))
        rows[:, 0] = 0.1
        for row in rows:
            seen.append(row)
        gone = min(max(0, -move), len(left))
        seen.forget(gone)
        left = np.concatenate([left, rows])[gone:]
        assert len(seen) == len(left)
        assert np.array_equal(seen.rows, left)
        assert seen.groups.tolist() == equal_columns(left).tolist()


def test_a_window_of_rows_keeps_its_room() -> None:
    seen, sizes = Likelihoods(3), set()
    for value in np.linspace(0.1, 1, 1000):
        seen.append([value, 0.5, 0.5])
        seen.forget(max(0, len(seen) - 40))
        sizes.add(len(seen._buffer))
    assert max(sizes) <= 100
    assert seen.rows[:, 0] == pytest.approx(np.linspace(0.1, 1, 1000)[-40:])
    with pytest.raises(ValueError, match=r"count must be in \[0, 40\], got 41"):
        seen.forget(41)
    with pytest.raises(ValueError, match=r"count must be in \[0, 40\], got -1"):
        seen.forget(-1)


def test_a_negative_zero_is_a_zero() -> None:
    rows = np.array([[0.0, -0.0, 1.0]])
    seen = Likelihoods(3)
    seen.append(rows[0])
    assert seen.groups.tolist() == equal_columns(rows).tolist() == [0, 0, 2]


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, 1.0], [-0.1, 1.0], [np.inf, 1.0]])
def test_a_row_that_no_cell_explains_is_refused_and_not_kept(row: list[float]) -> None:
    seen = Likelihoods(2)
    with pytest.raises(ValueError, match=r"likelihood must be in \[0, inf\) and above 1e-200 somewhere, got"):
        seen.append(row)
    with pytest.raises(ValueError, match=r"shape \(2,\), got \(3,\)"):
        seen.append([0.1, 0.2, 0.3])
    assert len(seen) == 0


@both
def test_a_row_of_zeros_is_an_error_and_not_a_nan(solve: Callable[..., Estimate]) -> None:
    with pytest.raises(ValueError, match=r"got 0\.0"):
        solve(np.array([[0.5, 0.5], [0.0, 0.0]]))
    with pytest.raises(ValueError, match="at least one row"):
        solve(np.empty((0, 3)))


@both
def test_weights_must_be_weights(solve: Callable[..., Estimate]) -> None:
    with pytest.raises(ValueError, match=r"weights must be in \[0, inf\), got -1"):
        solve(np.eye(2), weights=np.array([2.0, -1.0]))


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


def test_the_least_squares_step_is_the_closed_form_where_that_is_no_less_than_nought() -> None:
    model = np.random.default_rng(0).normal(size=(500, 6)) - 1
    level = np.linalg.solve(model.T @ model, np.ones(6))
    assert level.min() > 0
    assert sim.inference.estimate._simplex_minimiser(model) == pytest.approx(level / level.sum(), abs=1e-12)


def test_a_stalled_newton_goes_on_by_em(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = PROBLEMS["exponential 1"]
    monkeypatch.setattr(sim.inference.estimate, "_step", lambda *_: None)
    estimate = constrained_newton(rows)
    assert estimate.gap <= 1e-6
    assert estimate.gap == pytest.approx(certified_gap(rows, estimate.profile), abs=1e-12)


def test_weighted_newton_converges_as_fast_as_newton_should() -> None:
    """Weights forgotten in the second-order model would still climb, but no longer quadratically."""
    weights = np.power(0.9, np.arange(60.0))
    for name in ("exponential 1", "exponential 2", "hiding 0.4"):
        estimate = constrained_newton(PROBLEMS[name], weights=weights, gap=1e-10)
        assert estimate.gap <= 1e-10
        assert estimate.iterations <= 15


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_has_likelihoods_of_its_own() -> None:
    seen = Likelihoods(500)
    for _ in range(20):
        seen.append(np.full(500, 0.5))
    child = os.fork()
    if child == 0:
        seen._buffer[:] = 0.25
        os._exit(0)
    os.waitpid(child, 0)
    assert (seen.rows == 0.5).all()


# ------------------------------------------------------------------------------------------------ with a prior

MODES: list[Callable[..., Estimate]] = [em, posterior_mode]
both_modes = pytest.mark.parametrize("solve", MODES)


@both_modes
def test_the_mode_of_a_full_disclosure_is_counts_and_pseudo_counts(solve: Callable[..., Estimate]) -> None:
    counts, pseudo = np.array([1.0, 0.0, 4.0, 3.0]), np.array([0.4, 0.3, 0.2, 2.1])
    expected = (counts + pseudo) / 11
    rows = np.eye(4)[[0, 2, 2, 3, 3, 3, 2, 2]]
    assert solve(rows, pseudo_counts=pseudo, gap=1e-9).profile == pytest.approx(expected, abs=1e-7)
    weighted = solve(np.eye(4), weights=counts, pseudo_counts=pseudo, gap=1e-9)
    assert weighted.profile == pytest.approx(expected, abs=1e-7)
    assert weighted.log_likelihood == pytest.approx(float(counts @ np.log(expected)) / 8, abs=1e-7)


@both_modes
@every_problem
@pytest.mark.parametrize("amount", [1e-3, 1.0, 50.0])
def test_the_mode_is_certified(solve: Callable[..., Estimate], rows: FloatArray, amount: float) -> None:
    n_cells = rows.shape[1]
    pseudo = amount * np.random.default_rng(n_cells).dirichlet(np.full(n_cells, 0.3)) + 1e-4 * amount
    estimate = solve(rows, pseudo_counts=pseudo, gap=1e-5)
    assert estimate.gap <= 1e-5
    assert estimate.gap == pytest.approx(certified_gap(rows, estimate.profile, pseudo_counts=pseudo), abs=1e-12)
    total = len(rows) + pseudo.sum()
    slopes = (rows / (rows @ estimate.profile)[:, None]).sum(axis=0) + pseudo / estimate.profile
    assert estimate.gap == pytest.approx(slopes.max() / total - 1, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 10.0]))
def test_an_independent_optimiser_finds_no_better_mode(seed: int, amount: float) -> None:
    rng = np.random.default_rng(seed)
    rows, weights = rng.random((8, 4)) + 0.01, rng.random(8) + 0.1
    pseudo = amount * (rng.dirichlet(np.ones(4)) + 0.01)
    total = weights.sum() + pseudo.sum()

    def value(pi: FloatArray) -> float:
        return float(weights @ np.log(rows @ pi) + pseudo @ np.log(pi)) / float(total)

    def loss(pi: FloatArray) -> float:
        return -value(pi)

    found = minimize(
        loss,
        [0.25] * 4,
        bounds=Bounds(1e-9, 1.0),
        constraints=LinearConstraint(np.ones((1, 4)), 1.0, 1.0),
        method="SLSQP",
        tol=1e-12,
    )
    for solve in MODES:
        estimate = solve(rows, weights=weights, pseudo_counts=pseudo)
        assert value(estimate.profile) >= -found.fun - 2e-6


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 30),
    st.integers(1, 30),
    st.sampled_from([0.0, 1.0, 20.0, 100.0]),
    st.sampled_from([1e-2, 1.0, 100.0]),
)
def test_no_profile_beats_a_mode_by_more_than_its_gap(
    seed: int, count: int, n: int, spread: float, amount: float
) -> None:
    rng = np.random.default_rng(seed)
    rows = np.exp(-spread * rng.random((count, n))) * (rng.random((count, n)) < 0.7)
    rows[np.arange(count), rng.integers(0, n, count)] = 1.0
    weights = np.power(0.8, np.arange(float(count)))
    pseudo = amount * (0.999 * rng.dirichlet(np.full(n, 0.2)) + 0.001 / n)

    def value(pi: FloatArray) -> float:
        return float(weights @ np.log(rows @ pi) + pseudo @ np.log(pi)) / float(weights.sum() + pseudo.sum())

    for limit, start in ((200, None), (200, np.eye(n)[rng.integers(n)]), (2, rng.dirichlet(np.ones(n)))):
        found = posterior_mode(rows, weights=weights, pseudo_counts=pseudo, start=start, max_iterations=limit)
        assert found.gap <= 1e-6 or limit == 2
        assert found.iterations <= limit
        others = [rng.dirichlet(np.ones(n)), posterior_mode(rows, weights=weights, pseudo_counts=pseudo).profile]
        for other in (np.maximum(other, 1e-300) for other in others):
            assert value(other) <= value(found.profile) + found.gap + 1e-9


@every_problem
def test_a_prior_that_is_worth_nothing_leaves_the_maximum_likelihood(rows: FloatArray) -> None:
    pseudo = np.full(rows.shape[1], 1e-7 / rows.shape[1])
    mode, likeliest = posterior_mode(rows, pseudo_counts=pseudo), constrained_newton(rows)
    assert mode.log_likelihood == pytest.approx(likeliest.log_likelihood, abs=5e-6)


@every_problem
def test_equal_columns_share_the_mode_as_their_pseudo_counts(rows: FloatArray) -> None:
    doubled = np.repeat(rows, 2, axis=1)
    pseudo = np.random.default_rng(5).random((1, doubled.shape[1]))[0] + 0.01
    for start in (None, np.full(len(pseudo), 1 / len(pseudo))):
        merged = posterior_mode(doubled, pseudo_counts=pseudo, groups=equal_columns(doubled), start=start, gap=1e-9)
        apart = posterior_mode(doubled, pseudo_counts=pseudo, gap=1e-9)
        assert merged.profile == pytest.approx(apart.profile, abs=1e-6)
        assert merged.gap == pytest.approx(certified_gap(doubled, merged.profile, pseudo_counts=pseudo), abs=1e-12)
        assert merged.profile[::2] * pseudo[1::2] == pytest.approx(merged.profile[1::2] * pseudo[::2])


@both_modes
def test_without_reports_the_mode_is_the_prior(solve: Callable[..., Estimate]) -> None:
    assert solve(np.empty((0, 3)), pseudo_counts=np.array([1.0, 2.0, 1.0])).profile == pytest.approx([0.25, 0.5, 0.25])


@pytest.mark.parametrize(
    ("pseudo", "message"),
    [
        ([0.0, 1.0, 1.0], "pseudo_counts must be above 0 in every cell, got 0.0"),
        ([-1.0, 1.0, 1.0], r"weights and pseudo_counts must be in \[0, inf\), got -1.0"),
        ([np.inf, 1.0, 1.0], r"total weight must be in \(0, inf\), got inf"),
    ],
)
def test_wrong_pseudo_counts_are_refused(pseudo: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        posterior_mode(np.eye(3), pseudo_counts=np.array(pseudo))


def test_a_profile_without_mass_where_the_prior_has_some_is_not_certified() -> None:
    with pytest.raises(ValueError, match="every cell with a pseudo-count must have mass"):
        certified_gap(np.ones((1, 2)), np.array([1.0, 0.0]), pseudo_counts=np.array([1.0, 1.0]))
