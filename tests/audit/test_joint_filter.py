"""The filter of place and offset from reports alone, against the enumeration of all ways."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sim.audit.attack import ATTACKS, attack
from sim.audit.displacement import M_PER_DEGREE, Sample
from sim.audit.joint_filter import JOINT_ATTACK, Places, joint_posteriors
from sim.audit.moves import Moves
from sim.audit.offset import OffsetFit
from sim.audit.selection import Finding, identify
from sim.inference.bayes import normalise
from sim.interfaces import FloatArray
from tests.audit.mechanisms import constant_offset

PLACES = np.array([[0.0, 0.0], [300.0, 0.0], [0.0, 500.0]])
MATRIX = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
PROFILE = np.array([0.5, 0.3, 0.2])
VARIANCE = np.array([[400.0, 400.0], [900.0, 400.0], [100.0, 2500.0]])
TIME_S = np.array([0.0, 3600.0, 5400.0, 12600.0])


def _enumerated(fit: OffsetFit, reports: FloatArray) -> FloatArray:
    """Return the distribution of the last place from the joint density of the reports on all ways."""
    count = len(reports)
    hours = TIME_S[:count] / 3600
    covariance = fit.sd_m**2 * np.exp(-np.abs(hours[:, None] - hours) / fit.time_constant_h)
    weights = np.zeros(3)
    for way in itertools.product(range(3), repeat=count):
        cells = list(way)
        chance = PROFILE[cells[0]] * np.prod([MATRIX[a, b] for a, b in itertools.pairwise(cells)])
        for axis in (0, 1):
            noise = np.diag(VARIANCE[cells, axis] + fit.white_m**2)
            chance *= multivariate_normal(cov=covariance + noise).pdf((reports - PLACES[cells])[:, axis])
        weights[cells[-1]] += chance
    return normalise(weights)


@pytest.mark.parametrize("drift_m", [0.0, 60.0])
def test_filter_equals_enumeration(drift_m: float) -> None:
    fit = OffsetFit(sd_m=200.0, drift_m=drift_m, white_m=5.0, lattice=None)
    reports = PLACES[[0, 0, 1, 2]] + [140.0, -90.0] + np.random.default_rng(2).normal(0, 20, (4, 2))
    error = np.full((4, 2), fit.white_m**2)
    places = Places(PLACES, VARIANCE, PROFILE, lasting=False)
    posteriors = list(
        joint_posteriors(fit, reports, error, TIME_S, places, lambda _gap: lambda sources: MATRIX[sources])
    )
    for count in (1, 2):
        assert posteriors[count - 1] == pytest.approx(_enumerated(fit, reports[:count]), abs=1e-9)
    for count in (3, 4):  # offsets of different ways to a place are merged
        assert posteriors[count - 1] == pytest.approx(_enumerated(fit, reports[:count]), abs=0.02)


def test_impossible_report_restarts_the_filter() -> None:
    fit = OffsetFit(sd_m=1.0, drift_m=0.0, white_m=0.1, lattice=None)
    reports = np.array([[0.0, 0.0], [300.0, 0.0]])
    places = Places(PLACES, np.ones((3, 2)), PROFILE)
    stay = np.eye(3)
    posteriors = list(
        joint_posteriors(fit, reports, np.zeros((2, 2)), TIME_S[:2], places, lambda _gap: lambda s: stay[s])
    )
    assert posteriors[1] == pytest.approx([0, 1, 0], abs=1e-6)


def test_rows_of_the_transitions_equal_the_prediction() -> None:
    moves = Moves(np.array([0, 0, 1]), np.array([1, 1, 2]), np.array([2.0, 1.0, 0.0]), PROFILE)
    posterior = np.array([0.2, 0.7, 0.1])
    assert posterior @ moves.rows(np.arange(3)) == pytest.approx(moves.predict(posterior))
    assert moves.after(1e9)(np.array([1]))[0] == pytest.approx(PROFILE)


def _town(users: int = 6, rows: int = 60) -> Sample:
    """Return people who visit the same few places in town."""
    rng = np.random.default_rng(5)
    places = rng.uniform(-4000, 4000, (8, 2))
    at = rng.integers(0, 8, (users, rows))
    x, y = (places[at] + rng.normal(0, 5, (users, rows, 2))).reshape(-1, 2).T
    time_s = np.tile(np.arange(rows) * 1800.0, users)
    lat, lon = y / M_PER_DEGREE, x / M_PER_DEGREE
    sample = Sample(np.repeat(np.arange(users), rows), time_s, lat, lon, lat, lon)
    return constant_offset(1500)(sample, rng)


def _median_error_m(sample: Sample, finding: Finding) -> dict[str, float]:
    result = attack(sample, finding)
    assert result is not None
    return {
        name: float(np.median(np.hypot(*(estimate - result.true_xy_m).T)))
        for name, estimate in result.estimates_m.items()
    }


def test_places_of_other_people_reveal_an_offset_without_any_true_position_of_the_user() -> None:
    sample = _town()
    finding = identify(sample)
    assert finding.kind == "constant_offset"
    error = _median_error_m(sample, finding)
    assert error[JOINT_ATTACK] < 100 < error[ATTACKS[1]]
