"""Regularised beliefs: a Dirichlet prior, a smoothing kernel, cross-validation, the recursive profile."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sim.belief.cross_validated import CrossValidated
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.forgetting import Forgetting
from sim.belief.recursive_profile import RecursiveProfile, RecursiveProfileParameters
from sim.belief.regularisation import EVEN_SHARE, Regularisation, lifted
from sim.inference.estimate import certified_gap
from sim.inference.posterior_mode import posterior_mode
from sim.interfaces import Belief, FloatArray
from sim.world.distance import smoothing_kernel
from tests.support import made

INITIAL = np.array([0.4, 0.3, 0.3, 0.0])
CENTRE = lifted(INITIAL)
ROWS = np.array(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7], [0.1, 0.1, 0.1, 0.7], [0.1, 0.2, 0.6, 0.1], [0.1, 0.1, 0.1, 0.7]]
)
LINE_KM = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
KERNEL = smoothing_kernel(LINE_KM, 0.7)
MAP = Regularisation(prior_reports=2.0)
SMOOTH = Regularisation(prior_reports=2.0, smooth_km=0.7)


def taught(rows: FloatArray = ROWS, **params: Any) -> EstimatedProfile:
    given: dict[str, Any] = {"initial_profile": INITIAL, "regularise": MAP} | params
    if given["regularise"] is SMOOTH:
        given["kernel"] = KERNEL
    belief: EstimatedProfile = observed(made(EstimatedProfile, **given), rows)
    return belief


def observed(belief: Any, rows: FloatArray = ROWS) -> Any:
    for time_s, row in enumerate(rows):
        belief.observe(time_s, row)
    return belief


def candidates() -> list[EstimatedProfile]:
    return [
        EstimatedProfile(
            EstimatedProfileParameters(regularise=Regularisation(prior_reports=worth)), initial_profile=INITIAL
        )
        for worth in (1, 9)
    ]


# ------------------------------------------------------------------------------------------------ Dirichlet prior


def test_the_prior_is_the_mode_of_the_posterior() -> None:
    belief = taught()
    expected = posterior_mode(ROWS, pseudo_counts=2 * CENTRE, gap=1e-10)
    assert belief.prior(0) == pytest.approx(expected.profile, abs=1e-4)
    assert belief.worst_gap <= 1e-6
    assert certified_gap(ROWS, belief.prior(0), pseudo_counts=2 * CENTRE) <= 1e-6 + 1e-12


def test_disclosed_cells_are_added_to_the_pseudo_counts() -> None:
    belief = taught(np.eye(4)[[0, 3, 3]])
    assert belief.prior(0) == pytest.approx((np.array([1, 0, 0, 2]) + 2 * CENTRE) / 5, abs=1e-3)


def test_first_prior_is_the_centre_and_no_cell_is_impossible() -> None:
    belief = EstimatedProfile(EstimatedProfileParameters(regularise=MAP), initial_profile=INITIAL)
    assert belief.prior(0) == pytest.approx(INITIAL, abs=EVEN_SHARE)
    assert belief.prior(0)[3] == pytest.approx(EVEN_SHARE / 4)
    assert belief.estimate is None
    belief.observe(0, np.eye(4)[3])
    assert belief.fallbacks == 0


def test_both_solvers_find_the_same_mode() -> None:
    assert taught(gap=1e-9).prior(0) == pytest.approx(taught(gap=1e-9, solver="em").prior(0), abs=1e-4)


@pytest.mark.parametrize("solver", ["newton", "em"])
def test_strong_prior_dominates_and_weak_prior_vanishes(solver: Any) -> None:
    rows = np.tile(np.eye(4)[3], (50, 1))
    strong = taught(rows, solver=solver, regularise=Regularisation(prior_reports=1e6))
    weak = taught(rows, solver=solver, regularise=Regularisation(prior_reports=1e-3))
    assert strong.prior(0) == pytest.approx(CENTRE, abs=1e-3)
    assert weak.prior(0)[3] > 0.999


def test_report_weights_do_not_affect_the_pseudo_counts() -> None:
    belief = taught(forget=Forgetting(half_life_queries=2.0))
    weights = 2.0 ** -(np.arange(4, -1, -1) / 2)
    expected = posterior_mode(ROWS, weights=weights, pseudo_counts=2 * CENTRE, gap=1e-10)
    assert belief.prior(0) == pytest.approx(expected.profile, abs=1e-4)
    assert belief.prior(0) == pytest.approx(belief.estimate.profile if belief.estimate else None)


def test_half_life_in_days_restores_the_centre_after_a_pause() -> None:
    belief = taught(forget=Forgetting(half_life_days=1.0))
    soon, later = belief.prior(4), belief.prior(4 + 86_400)
    weights = 2.0 ** -((4 - np.arange(5)) / 86_400)
    for prior, aged in ((soon, weights), (later, weights / 2)):
        expected = posterior_mode(ROWS, weights=aged, pseudo_counts=2 * CENTRE, gap=1e-10)
        assert prior == pytest.approx(expected.profile, abs=1e-4)
    assert belief.prior(4 + 86_400) is later
    assert belief.prior(10**9) == pytest.approx(CENTRE, abs=1e-3)
    assert belief.prior(4) == pytest.approx(soon, abs=1e-4)


def test_change_detected_by_several_candidates_counts_once() -> None:
    adaptive = Forgetting(adaptive=True, recent=5, queries_per_false_alarm=50)
    candidates = [
        EstimatedProfile(EstimatedProfileParameters(regularise=MAP, forget=forget), initial_profile=CENTRE)
        for forget in (adaptive, adaptive, "none")
    ]
    belief = CrossValidated(candidates=candidates)
    for r, likelihood in enumerate(np.repeat(ROWS[:2], 40, axis=0)):
        belief.observe(r, likelihood)
    assert [candidate.alarms for candidate in candidates] == [1, 1, 0]
    assert belief.alarms == 1


@pytest.mark.parametrize("regularise", [MAP, SMOOTH], ids=["cells", "smoothed"])
def test_change_is_detected_and_earlier_reports_are_forgotten(regularise: Regularisation) -> None:
    before, after = np.tile(ROWS[0], (40, 1)), np.tile(ROWS[1], (40, 1))
    rows = np.concatenate([before, after])
    forget = Forgetting(adaptive=True, recent=5, queries_per_false_alarm=50)
    belief = taught(rows, regularise=regularise, forget=forget)
    assert belief.alarms == 1
    assert 38 <= belief.remembered <= 42
    assert belief.prior(0).argmax() == 3


# ------------------------------------------------------------------------------------------------ smoothing kernel


def test_kernel_columns_sum_to_one_and_zero_scale_has_no_kernel() -> None:
    assert KERNEL is not None
    assert KERNEL.sum(axis=0) == pytest.approx(np.ones(4))
    assert KERNEL[2, 1] / KERNEL[1, 1] == pytest.approx(np.exp(-1 / 0.7))
    assert smoothing_kernel(LINE_KM, 0.0) is None


def test_kernel_uses_asymmetric_distances_from_the_place() -> None:
    """Column y of the kernel depends on the distances from y."""
    one_way = np.array([[0.0, 1.0], [5.0, 0.0]])
    kernel = smoothing_kernel(one_way, 1.0)
    assert kernel is not None
    assert kernel[:, 0] == pytest.approx(np.exp([0, -1]) / np.exp([0, -1]).sum())


def test_smoothed_estimate_is_the_mode_under_smoothed_rows() -> None:
    assert KERNEL is not None
    belief = taught(regularise=SMOOTH)
    theta = posterior_mode(ROWS @ KERNEL, pseudo_counts=2 * CENTRE, gap=1e-10)
    assert belief.prior(0) == pytest.approx(KERNEL @ theta.profile, abs=1e-4)
    assert belief.prior(0).sum() == pytest.approx(1, abs=1e-12)
    estimate = belief.estimate
    assert estimate is not None
    assert estimate.profile == pytest.approx(belief.prior(0))
    assert estimate.log_likelihood == pytest.approx(np.log(ROWS @ estimate.profile).mean())
    assert belief.worst_gap <= 1e-6


# ------------------------------------------------------------------------------------------------ cross-validation


def test_weights_are_predictive_likelihoods_of_the_reports() -> None:
    belief, alone = CrossValidated(candidates=candidates()), candidates()
    assert belief.weights.tolist() == [0.5, 0.5]
    evidence = np.ones(2)
    for time_s, row in enumerate(ROWS[1:4]):
        priors = [candidate.prior(time_s) for candidate in alone]
        weights = evidence / evidence.sum()
        assert belief.weights == pytest.approx(weights)
        average = weights[0] * priors[0] + weights[1] * priors[1]
        assert belief.prior(time_s) == pytest.approx(average)
        assert belief.observe(time_s, row) == pytest.approx(average * row / (average @ row))
        evidence *= [row @ prior for prior in priors]
        for candidate in alone:
            candidate.observe(time_s, row)
    assert belief.weights == pytest.approx(evidence / evidence.sum())
    assert belief.worst_gap == max(candidate.worst_gap for candidate in alone)


def test_half_life_decays_old_scores() -> None:
    belief = CrossValidated(candidates=candidates(), half_life_queries=1.0)
    alone, score = candidates(), np.zeros(2)
    for time_s, row in enumerate(ROWS):
        score = score / 2 + np.log([row @ candidate.prior(time_s) for candidate in alone])
        for candidate in alone:
            candidate.observe(time_s, row)
        belief.observe(time_s, row)
    assert belief.weights == pytest.approx(np.exp(score) / np.exp(score).sum())


def test_single_candidate_is_unchanged_and_the_better_of_two_gains_weight() -> None:
    only = CrossValidated(candidates=candidates()[:1])
    twin = candidates()[0]
    rows = np.tile(np.eye(4)[3] + 0.01, (60, 1))
    assert observed(only, rows).prior(0) == pytest.approx(observed(twin, rows).prior(0))
    assert observed(CrossValidated(candidates=candidates()), rows).weights[0] > 0.9


def test_prior_is_the_same_object_until_a_report() -> None:
    belief = observed(CrossValidated(candidates=candidates()))
    prior = belief.prior(0)
    assert belief.prior(7) is prior
    belief.observe(0, ROWS[0])
    assert belief.prior(0) is not prior


# ------------------------------------------------------------------------------------------------ recursive profile


def test_each_report_moves_the_profile_towards_its_posterior() -> None:
    belief = RecursiveProfile(
        RecursiveProfileParameters(prior_reports=2.0, half_life_queries="none"), initial_profile=INITIAL
    )
    profile = CENTRE
    for index, row in enumerate(ROWS, 1):
        posterior = profile * row / (profile @ row)
        assert belief.observe(0, row) == pytest.approx(posterior)
        profile = profile + (posterior - profile) / (2 + index)
        assert belief.prior(0) == pytest.approx(profile)


def test_recursive_profile_of_disclosed_cells_is_the_mode() -> None:
    cells = np.eye(4)[[0, 3, 3, 1, 3]]
    belief = RecursiveProfile(
        RecursiveProfileParameters(prior_reports=2.0, half_life_queries="none"), initial_profile=INITIAL
    )
    assert observed(belief, cells).prior(0) == pytest.approx((cells.sum(axis=0) + 2 * CENTRE) / 7)


def test_counts_decay_and_the_initial_profile_does_not() -> None:
    belief = RecursiveProfile(
        RecursiveProfileParameters(prior_reports=2.0, half_life_queries=1.0), initial_profile=INITIAL
    )
    counts, profile = np.zeros(4), CENTRE
    for row in np.tile(ROWS, (20, 1)):
        posterior = profile * row / (profile @ row)
        counts = counts / 2 + posterior
        profile = (2 * CENTRE + counts) / (2 + counts.sum())
        belief.observe(0, row)
        assert belief.prior(0) == pytest.approx(profile)
    assert counts.sum() == pytest.approx(2)
    assert (belief.prior(0) >= 0.5 * CENTRE - 1e-12).all()


def test_recursive_profile_follows_a_move() -> None:
    """After 1000 reports from one place under location hiding, 30 reports from another are enough."""
    hiding = np.full((4, 4), 0.1) + 0.6 * np.eye(4)
    belief = observed(
        RecursiveProfile(RecursiveProfileParameters(), initial_profile=INITIAL), np.tile(hiding[0], (1000, 1))
    )
    assert belief.prior(0)[0] > 0.9
    assert observed(belief, np.tile(hiding[2], (30, 1))).prior(0)[2] > 0.5


def test_report_without_mass_yields_its_likelihood_and_is_counted() -> None:
    tiny = np.array([0.0, 0.0, 0.0, 1e-306])
    belief = RecursiveProfile(RecursiveProfileParameters(), initial_profile=INITIAL)
    assert belief.observe(0, tiny) == pytest.approx([0, 0, 0, 1])
    assert belief.fallbacks == 1


# ------------------------------------------------------------------------------------------------ common properties

MAKERS: dict[str, Any] = {
    "mode": lambda: EstimatedProfile(EstimatedProfileParameters(regularise=MAP), initial_profile=INITIAL),
    "smooth": lambda: EstimatedProfile(EstimatedProfileParameters(regularise=SMOOTH), initial_profile=INITIAL),
    "candidates": lambda: CrossValidated(candidates=candidates()),
    "recursive": lambda: RecursiveProfile(RecursiveProfileParameters(), initial_profile=INITIAL),
}
each_belief = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@each_belief
def test_prior_is_pure_and_inputs_are_not_changed(make: Any) -> None:
    untouched: Belief = make()
    queried: Belief = make()
    for time_s, row in enumerate(ROWS):
        likelihood = row.copy()
        assert queried.prior(time_s) is queried.prior(time_s)
        assert queried.observe(time_s, likelihood).tolist() == untouched.observe(time_s, row).tolist()
        assert likelihood.tolist() == row.tolist()
        likelihood[:] = 0
    assert queried.prior(9).tolist() == untouched.prior(9).tolist()
    with pytest.raises(ValueError, match="read-only"):
        queried.prior(9)[0] = 1.0


@each_belief
def test_beliefs_survive_pickling(make: Any) -> None:
    belief = observed(make())
    copy = pickle.loads(pickle.dumps(belief))
    assert copy.observe(9, ROWS[0]).tolist() == belief.observe(9, ROWS[0]).tolist()
    assert copy.prior(9).tolist() == belief.prior(9).tolist()


@each_belief
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12))
def test_priors_are_distributions_without_zeros(make: Any, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    belief = observed(make(), np.exp(-rng.choice([0.0, 1.0, 50.0]) * rng.random((count, 4))))
    assert belief.prior(count).sum() == pytest.approx(1, abs=1e-9)
    assert belief.prior(count).min() > 0


def test_invalid_parameters_are_rejected() -> None:
    for worth in (0.0, -1.0, np.inf):
        with pytest.raises(ValidationError, match="prior_reports"):
            Regularisation(prior_reports=worth)
        with pytest.raises(ValidationError, match="prior_reports"):
            RecursiveProfile(RecursiveProfileParameters(prior_reports=worth), initial_profile=INITIAL)
    with pytest.raises(ValueError, match=r"^half_life_queries .*got 0"):
        CrossValidated(candidates=candidates(), half_life_queries=0.0)
    with pytest.raises(ValidationError, match="half_life_queries"):
        RecursiveProfileParameters(half_life_queries=0.0)
    with pytest.raises(ValueError, match=r"^candidates\b"):
        CrossValidated(candidates=[])
