"""Sporadic beliefs: the fixed and the estimated profile."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.inference.estimate import certified_gap
from sim.interfaces import Belief, FloatArray
from tests.support import made

INITIAL = np.array([0.4, 0.3, 0.2, 0.1])
ROWS = np.array(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7], [0.1, 0.1, 0.1, 0.7], [0.1, 0.2, 0.6, 0.1], [0.1, 0.1, 0.1, 0.7]]
)


def taught(rows: FloatArray = ROWS, **params: Any) -> EstimatedProfile:
    belief = made(EstimatedProfile, initial_profile=INITIAL, **params)
    for time_s, row in enumerate(rows):
        belief.observe(time_s, row)
    return belief


def test_fixed_profile_never_changes_and_is_one_object() -> None:
    belief = FixedProfile(profile=INITIAL)
    as_protocol: Belief = belief
    prior = as_protocol.prior(0)
    posterior = belief.observe(0, ROWS[0])
    assert posterior == pytest.approx(INITIAL * ROWS[0] / (INITIAL @ ROWS[0]))
    assert belief.prior(99) is prior
    assert belief.fixed
    assert belief.fallbacks == 0
    with pytest.raises(ValueError, match="read-only"):
        prior[0] = 1.0


@pytest.mark.parametrize("kind", ["fixed", "estimated"])
def test_report_without_mass_yields_its_likelihood_and_is_counted(kind: str) -> None:
    certain = np.array([1.0, 0.0, 0.0, 0.0])
    belief = (
        FixedProfile(profile=certain)
        if kind == "fixed"
        else EstimatedProfile(EstimatedProfileParameters(), initial_profile=certain)
    )
    assert belief.observe(0, np.array([0.0, 0.1, 0.3, 0.0])) == pytest.approx([0, 0.25, 0.75, 0])
    assert belief.fallbacks == 1
    with pytest.raises(ValueError, match=r"got 0\.0"):
        belief.observe(0, np.zeros(4))
    assert belief.fallbacks == 1


def test_the_first_prior_is_exactly_the_initial_profile() -> None:
    belief = EstimatedProfile(EstimatedProfileParameters(), initial_profile=INITIAL)
    assert belief.index == 1
    assert belief.estimate is None
    assert belief.prior(0).tolist() == INITIAL.tolist()
    assert not belief.fixed


@pytest.mark.parametrize("solver", ["newton", "em"])
@pytest.mark.parametrize("fading", [0.1, 0.5, 2.0])
def test_the_prior_mixes_the_initial_profile_and_the_estimate(solver: Any, fading: float) -> None:
    belief = taught(solver=solver, fading=fading)
    assert belief.index == 6
    estimate = belief.estimate
    assert estimate is not None
    assert estimate.gap <= 1e-6
    assert certified_gap(ROWS, estimate.profile) <= 1.001e-6
    weight = 6**-fading
    assert belief.prior(0) == pytest.approx(weight * INITIAL + (1 - weight) * estimate.profile)
    assert belief.prior(0).sum() == pytest.approx(1)


def test_posterior_uses_the_prior_before_the_report() -> None:
    belief = taught()
    before = belief.prior(0).copy()
    assert belief.observe(0, ROWS[0]) == pytest.approx(before * ROWS[0] / (before @ ROWS[0]))
    assert np.abs(belief.prior(0) - before).max() > 0.01


def test_prior_and_estimate_do_not_change_the_belief() -> None:
    untouched, queried = (
        EstimatedProfile(EstimatedProfileParameters(), initial_profile=INITIAL),
        EstimatedProfile(EstimatedProfileParameters(), initial_profile=INITIAL),
    )
    for row in ROWS:
        assert queried.prior(0) is queried.prior(5)
        _ = queried.estimate
        assert queried.observe(0, row).tolist() == untouched.observe(0, row).tolist()
    assert queried.prior(0).tolist() == untouched.prior(0).tolist()


@pytest.mark.parametrize("solver", ["newton", "em"])
def test_cell_absent_from_training_is_learned(solver: Any) -> None:
    belief = EstimatedProfile(
        EstimatedProfileParameters(solver=solver, start="initial"), initial_profile=[1.0, 0.0, 0.0, 0.0]
    )
    for row in np.full((60, 4), 0.1) + 0.6 * np.eye(4)[3]:
        belief.observe(0, row)
    assert belief.prior(0)[3] > 0.8


def test_cell_without_mass_can_regain_it() -> None:
    """After many reports elsewhere the estimate has no mass on cell 0; new reports restore it."""
    belief = taught(np.tile(ROWS[1], (20, 1)))
    assert belief.estimate is not None
    assert belief.estimate.profile[0] == 0
    for _ in range(40):
        belief.observe(0, ROWS[0])
    assert belief.estimate.profile[0] > 0.5


@pytest.mark.parametrize("solver", ["newton", "em"])
def test_indistinguishable_cells_share_in_the_proportions_of_the_start(solver: Any) -> None:
    by_initial, evenly = taught(ROWS[:0], solver=solver, start="initial"), taught(ROWS[:0], solver=solver)
    for row in np.array([[0.1, 0.4, 0.4, 0.1], [0.3, 0.1, 0.1, 0.5], [0.1, 0.4, 0.4, 0.1]]):
        by_initial.observe(0, row)
        evenly.observe(0, row)
        assert by_initial.estimate is not None
        assert evenly.estimate is not None
        shared, even = by_initial.estimate.profile, evenly.estimate.profile
        assert shared[1] * INITIAL[2] == pytest.approx(shared[2] * INITIAL[1])
        assert even[1] == pytest.approx(even[2])


def test_both_solvers_reach_the_same_fit() -> None:
    newton, plain = taught(gap=1e-9).estimate, taught(gap=1e-9, solver="em").estimate
    assert newton is not None
    assert plain is not None
    assert ROWS @ newton.profile == pytest.approx(ROWS @ plain.profile, rel=1e-3)


def test_em_stopped_early_reports_its_gap() -> None:
    estimate = taught(solver="em", max_iterations=1).estimate
    assert estimate is not None
    assert estimate.iterations == 1
    assert estimate.gap > 1e-6


def test_zero_fading_keeps_the_initial_profile() -> None:
    assert taught(fading=0.0).prior(0).tolist() == INITIAL.tolist()


def test_inputs_are_neither_aliased_nor_changed() -> None:
    initial, row = INITIAL.copy(), ROWS[0].copy()
    belief, twin = EstimatedProfile(EstimatedProfileParameters(), initial_profile=initial), taught(ROWS[:1])
    posterior = belief.observe(0, row)
    assert row.tolist() == ROWS[0].tolist()
    initial[:], row[:], posterior[:] = 0, 0, 0
    assert belief.prior(0).tolist() == twin.prior(0).tolist()


def test_rejected_report_does_not_change_the_belief() -> None:
    belief, twin = taught(), taught()
    with pytest.raises(ValueError, match="likelihood"):
        belief.observe(0, np.zeros(4))
    assert belief.index == twin.index
    assert belief.prior(0).tolist() == twin.prior(0).tolist()


@pytest.mark.parametrize("belief", [FixedProfile(profile=INITIAL), taught()], ids=["fixed", "estimated"])
def test_beliefs_survive_pickling(belief: FixedProfile | EstimatedProfile) -> None:
    copy = pickle.loads(pickle.dumps(belief))
    assert copy.observe(0, ROWS[0]).tolist() == belief.observe(0, ROWS[0]).tolist()
    assert copy.prior(0).tolist() == belief.prior(0).tolist()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"fading": -1.0}, r"(?s)fading.*input_value=-1.0"),
        ({"gap": 0.0}, r"(?s)gap.*input_value=0.0"),
        ({"solver": "magic"}, r"(?s)solver.*input_value='magic'"),
        ({"start": "cold"}, r"(?s)start.*input_value='cold'"),
        ({"max_iterations": -1}, r"(?s)max_iterations.*input_value=-1"),
        ({"initial_profile": [0.5, 0.6]}, r"^initial_profile .*\b1\b"),
    ],
)
def test_invalid_parameters_are_rejected_with_their_value(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(EstimatedProfile, **{"initial_profile": INITIAL, **params})
