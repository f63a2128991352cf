"""Beliefs that do not say more than the reports do: a prior, neighbours, candidates, one step a report."""

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
    belief: EstimatedProfile = told(made(EstimatedProfile, **given), rows)
    return belief


def told(belief: Any, rows: FloatArray = ROWS) -> Any:
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


# ------------------------------------------------------------------------------------------------ a prior


def test_the_prior_is_the_mode_of_the_posterior() -> None:
    belief = taught()
    expected = posterior_mode(ROWS, pseudo_counts=2 * CENTRE, gap=1e-10)
    assert belief.prior(0) == pytest.approx(expected.profile, abs=1e-4)
    assert belief.worst_gap <= 1e-6
    assert certified_gap(ROWS, belief.prior(0), pseudo_counts=2 * CENTRE) <= 1e-6 + 1e-12


def test_seen_cells_are_counted_with_the_prior() -> None:
    belief = taught(np.eye(4)[[0, 3, 3]])
    assert belief.prior(0) == pytest.approx((np.array([1, 0, 0, 2]) + 2 * CENTRE) / 5, abs=1e-3)


def test_before_the_first_report_it_is_the_centre_and_no_place_is_impossible() -> None:
    belief = EstimatedProfile(EstimatedProfileParameters(regularise=MAP), initial_profile=INITIAL)
    assert belief.prior(0) == pytest.approx(INITIAL, abs=EVEN_SHARE)
    assert belief.prior(0)[3] == pytest.approx(EVEN_SHARE / 4)
    assert belief.estimate is None
    belief.observe(0, np.eye(4)[3])
    assert belief.fallbacks == 0


def test_both_solvers_find_the_same_mode() -> None:
    assert taught(gap=1e-9).prior(0) == pytest.approx(taught(gap=1e-9, solver="em").prior(0), abs=1e-4)


@pytest.mark.parametrize("solver", ["newton", "em"])
def test_a_prior_of_many_reports_stays_and_one_of_few_goes(solver: Any) -> None:
    rows = np.tile(np.eye(4)[3], (50, 1))
    stays = taught(rows, solver=solver, regularise=Regularisation(prior_reports=1e6))
    goes = taught(rows, solver=solver, regularise=Regularisation(prior_reports=1e-3))
    assert stays.prior(0) == pytest.approx(CENTRE, abs=1e-3)
    assert goes.prior(0)[3] > 0.999


def test_weights_of_forgetting_are_weights_beside_the_prior() -> None:
    belief = taught(forget=Forgetting(half_life_queries=2.0))
    weights = 2.0 ** -(np.arange(4, -1, -1) / 2)
    expected = posterior_mode(ROWS, weights=weights, pseudo_counts=2 * CENTRE, gap=1e-10)
    assert belief.prior(0) == pytest.approx(expected.profile, abs=1e-4)
    assert belief.prior(0) == pytest.approx(belief.estimate.profile if belief.estimate else None)


def test_with_days_the_prior_comes_back_in_a_pause() -> None:
    belief = taught(forget=Forgetting(half_life_days=1.0))
    soon, later = belief.prior(4), belief.prior(4 + 86_400)
    weights = 2.0 ** -((4 - np.arange(5)) / 86_400)
    for prior, aged in ((soon, weights), (later, weights / 2)):
        expected = posterior_mode(ROWS, weights=aged, pseudo_counts=2 * CENTRE, gap=1e-10)
        assert prior == pytest.approx(expected.profile, abs=1e-4)
    assert belief.prior(4 + 86_400) is later
    assert belief.prior(10**9) == pytest.approx(CENTRE, abs=1e-3)
    assert belief.prior(4) == pytest.approx(soon, abs=1e-4)


def test_a_change_that_several_candidates_find_is_one_change() -> None:
    looks = Forgetting(adaptive=True, recent=5, queries_per_false_alarm=50)
    candidates = [
        EstimatedProfile(EstimatedProfileParameters(regularise=MAP, forget=forget), initial_profile=CENTRE)
        for forget in (looks, looks, "none")
    ]
    belief = CrossValidated(candidates=candidates)
    for r, likelihood in enumerate(np.repeat(ROWS[:2], 40, axis=0)):
        belief.observe(r, likelihood)
    assert [candidate.alarms for candidate in candidates] == [1, 1, 0]
    assert belief.alarms == 1


@pytest.mark.parametrize("regularise", [MAP, SMOOTH], ids=["cells", "blots"])
def test_a_change_is_found_and_the_rest_forgotten(regularise: Regularisation) -> None:
    before, after = np.tile(ROWS[0], (40, 1)), np.tile(ROWS[1], (40, 1))
    rows = np.concatenate([before, after])
    forget = Forgetting(adaptive=True, recent=5, queries_per_false_alarm=50)
    belief = taught(rows, regularise=regularise, forget=forget)
    assert belief.alarms == 1
    assert 38 <= belief.remembered <= 42
    assert belief.prior(0).argmax() == 3


# ------------------------------------------------------------------------------------------------ neighbours


def test_a_kernel_has_columns_that_sum_to_one_and_none_is_none() -> None:
    assert KERNEL is not None
    assert KERNEL.sum(axis=0) == pytest.approx(np.ones(4))
    assert KERNEL[2, 1] / KERNEL[1, 1] == pytest.approx(np.exp(-1 / 0.7))
    assert smoothing_kernel(LINE_KM, 0.0) is None


def test_one_way_distances_are_taken_from_the_place_itself() -> None:
    """Column y of the kernel is spread by the distances from y."""
    one_way = np.array([[0.0, 1.0], [5.0, 0.0]])
    kernel = smoothing_kernel(one_way, 1.0)
    assert kernel is not None
    assert kernel[:, 0] == pytest.approx(np.exp([0, -1]) / np.exp([0, -1]).sum())


def test_the_sieve_is_the_mode_under_smoothed_rows() -> None:
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


# ------------------------------------------------------------------------------------------------ candidates


def test_weights_are_earned_by_forecasts_of_three_reports() -> None:
    belief, alone = CrossValidated(candidates=candidates()), candidates()
    assert belief.weights.tolist() == [0.5, 0.5]
    chances = np.ones(2)
    for time_s, row in enumerate(ROWS[1:4]):
        priors = [own.prior(time_s) for own in alone]
        weights = chances / chances.sum()
        assert belief.weights == pytest.approx(weights)
        average = weights[0] * priors[0] + weights[1] * priors[1]
        assert belief.prior(time_s) == pytest.approx(average)
        assert belief.observe(time_s, row) == pytest.approx(average * row / (average @ row))
        chances *= [row @ prior for prior in priors]
        for own in alone:
            own.observe(time_s, row)
    assert belief.weights == pytest.approx(chances / chances.sum())
    assert belief.worst_gap == max(own.worst_gap for own in alone)


def test_old_forecasts_lose_their_weight() -> None:
    belief = CrossValidated(candidates=candidates(), half_life_queries=1.0)
    alone, score = candidates(), np.zeros(2)
    for time_s, row in enumerate(ROWS):
        score = score / 2 + np.log([row @ own.prior(time_s) for own in alone])
        told_now = [own.observe(time_s, row) for own in alone]
        assert len(told_now) == 2
        belief.observe(time_s, row)
    assert belief.weights == pytest.approx(np.exp(score) / np.exp(score).sum())


def test_one_candidate_is_itself_and_the_better_one_wins() -> None:
    only = CrossValidated(candidates=candidates()[:1])
    twin = candidates()[0]
    rows = np.tile(np.eye(4)[3] + 0.01, (60, 1))
    assert told(only, rows).prior(0) == pytest.approx(told(twin, rows).prior(0))
    assert told(CrossValidated(candidates=candidates()), rows).weights[0] > 0.9


def test_an_average_is_one_object_until_a_report() -> None:
    belief = told(CrossValidated(candidates=candidates()))
    prior = belief.prior(0)
    assert belief.prior(7) is prior
    belief.observe(0, ROWS[0])
    assert belief.prior(0) is not prior


# ------------------------------------------------------------------------------------------------ one step a report


def test_each_report_moves_the_profile_towards_its_posterior() -> None:
    belief = RecursiveProfile(
        RecursiveProfileParameters(prior_reports=2.0, half_life_queries="none"), initial_profile=INITIAL
    )
    believed = CENTRE
    for index, row in enumerate(ROWS, 1):
        posterior = believed * row / (believed @ row)
        assert belief.observe(0, row) == pytest.approx(posterior)
        believed = believed + (posterior - believed) / (2 + index)
        assert belief.prior(0) == pytest.approx(believed)


def test_with_full_disclosure_it_is_the_mode() -> None:
    cells = np.eye(4)[[0, 3, 3, 1, 3]]
    belief = RecursiveProfile(
        RecursiveProfileParameters(prior_reports=2.0, half_life_queries="none"), initial_profile=INITIAL
    )
    assert told(belief, cells).prior(0) == pytest.approx((cells.sum(axis=0) + 2 * CENTRE) / 7)


def test_counts_fade_and_the_initial_profile_does_not() -> None:
    belief = RecursiveProfile(
        RecursiveProfileParameters(prior_reports=2.0, half_life_queries=1.0), initial_profile=INITIAL
    )
    counts, believed = np.zeros(4), CENTRE
    for row in np.tile(ROWS, (20, 1)):
        posterior = believed * row / (believed @ row)
        counts = counts / 2 + posterior
        believed = (2 * CENTRE + counts) / (2 + counts.sum())
        belief.observe(0, row)
        assert belief.prior(0) == pytest.approx(believed)
    assert counts.sum() == pytest.approx(2)
    assert (belief.prior(0) >= 0.5 * CENTRE - 1e-12).all()


def test_who_moves_is_found_again() -> None:
    """After a thousand reports from one place under location hiding, thirty from another are enough."""
    hiding = np.full((4, 4), 0.1) + 0.6 * np.eye(4)
    belief = told(
        RecursiveProfile(RecursiveProfileParameters(), initial_profile=INITIAL), np.tile(hiding[0], (1000, 1))
    )
    assert belief.prior(0)[0] > 0.9
    assert told(belief, np.tile(hiding[2], (30, 1))).prior(0)[2] > 0.5


def test_an_impossible_report_is_believed_alone_and_counted() -> None:
    tiny = np.array([0.0, 0.0, 0.0, 1e-306])
    belief = RecursiveProfile(RecursiveProfileParameters(), initial_profile=INITIAL)
    assert belief.observe(0, tiny) == pytest.approx([0, 0, 0, 1])
    assert belief.fallbacks == 1


# ------------------------------------------------------------------------------------------------ all of them

MAKERS: dict[str, Any] = {
    "mode": lambda: EstimatedProfile(EstimatedProfileParameters(regularise=MAP), initial_profile=INITIAL),
    "smooth": lambda: EstimatedProfile(EstimatedProfileParameters(regularise=SMOOTH), initial_profile=INITIAL),
    "candidates": lambda: CrossValidated(candidates=candidates()),
    "recursive": lambda: RecursiveProfile(RecursiveProfileParameters(), initial_profile=INITIAL),
}
all_of_them = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@all_of_them
def test_asking_changes_nothing_and_inputs_stay(make: Any) -> None:
    quiet: Belief = make()
    asked: Belief = make()
    for time_s, row in enumerate(ROWS):
        given = row.copy()
        assert asked.prior(time_s) is asked.prior(time_s)
        assert asked.observe(time_s, given).tolist() == quiet.observe(time_s, row).tolist()
        assert given.tolist() == row.tolist()
        given[:] = 0
    assert asked.prior(9).tolist() == quiet.prior(9).tolist()
    with pytest.raises(ValueError, match="read-only"):
        asked.prior(9)[0] = 1.0


@all_of_them
def test_beliefs_survive_pickling(make: Any) -> None:
    belief = told(make())
    again = pickle.loads(pickle.dumps(belief))
    assert again.observe(9, ROWS[0]).tolist() == belief.observe(9, ROWS[0]).tolist()
    assert again.prior(9).tolist() == belief.prior(9).tolist()


@all_of_them
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12))
def test_priors_are_distributions_without_zeros(make: Any, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    belief = told(make(), np.exp(-rng.choice([0.0, 1.0, 50.0]) * rng.random((count, 4))))
    assert belief.prior(count).sum() == pytest.approx(1, abs=1e-9)
    assert belief.prior(count).min() > 0


def test_wrong_parameters_are_refused() -> None:
    for worth in (0.0, -1.0, np.inf):
        with pytest.raises(ValidationError, match="prior_reports"):
            Regularisation(prior_reports=worth)
        with pytest.raises(ValidationError, match="prior_reports"):
            RecursiveProfile(RecursiveProfileParameters(prior_reports=worth), initial_profile=INITIAL)
    with pytest.raises(ValueError, match="half_life_queries must be above 0, got 0"):
        CrossValidated(candidates=candidates(), half_life_queries=0.0)
    with pytest.raises(ValidationError, match="half_life_queries"):
        RecursiveProfileParameters(half_life_queries=0.0)
    with pytest.raises(ValueError, match="candidates must not be empty"):
        CrossValidated(candidates=[])
