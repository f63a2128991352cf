"""Survival curves against a published example, and on edge cases."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.analysis.answers.survival import EventCounts, SurvivalCurve, kaplan_meier, ordered

# Remission times in weeks under 6-mercaptopurine (Freireich et al. 1963); * in the literature: censored.
WEEKS = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
RELAPSED = [1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]


@pytest.fixture(scope="module")
def remission() -> SurvivalCurve:
    return kaplan_meier(EventCounts.of(WEEKS, RELAPSED))


def test_published_curve(remission: SurvivalCurve) -> None:
    """Survival and Greenwood's standard error as in Klein & Moeschberger (2003), Survival Analysis, table 4.1A."""
    at = np.isin(remission.times, [6, 7, 10, 13, 16, 22, 23])
    np.testing.assert_array_equal(remission.at_risk[at], [21, 17, 15, 12, 11, 7, 6])
    np.testing.assert_allclose(remission.survival[at], [0.857, 0.807, 0.753, 0.690, 0.628, 0.538, 0.448], atol=6e-4)
    expected = [0.0764, 0.0869, 0.0963, 0.1068, 0.1141, 0.1282, 0.1346]
    np.testing.assert_allclose(remission.standard_error[at], expected, atol=6e-5)


def test_published_median(remission: SurvivalCurve) -> None:
    """The median is 23 weeks, with the interval from 13 weeks to infinity on the scale log(-log S)."""
    assert remission.time_until(0.5) == (23, 13, np.inf)


def test_limits_by_hand(remission: SurvivalCurve) -> None:
    """At 6 weeks: S = 18/21, var(log S) = 3 / (21 * 18)."""
    survival, error = 18 / 21, np.sqrt(3 / (21 * 18))
    factor = np.exp(1.959964 * error / -np.log(survival))
    assert remission.at(6)[1:] == pytest.approx((survival**factor, survival ** (1 / factor)), rel=1e-6)
    assert remission.at(6.5) == remission.at(6)


def test_without_events_nothing_is_certain() -> None:
    curve = kaplan_meier(EventCounts.of([5.0] * 10, [False] * 10))
    for day in (3, 5):
        assert curve.at(day) == pytest.approx((1.0, 0.025**0.1, 1.0))
    assert curve.time_until(0.5) == (np.inf, np.inf, np.inf)
    assert np.isnan(curve.at(6).value), "beyond the observation"


def test_if_everybody_has_an_event() -> None:
    curve = kaplan_meier(EventCounts.of([1.0] * 10, [True] * 10))
    assert curve.at(1) == pytest.approx((0.0, 0.0, 1 - 0.025**0.1))
    assert curve.at(9) == curve.at(1)
    assert curve.at(0) == pytest.approx((1.0, 0.025**0.1, 1.0))
    assert curve.time_until(0.5) == (1, 1, 1)


def test_two_users_and_nobody() -> None:
    curve = kaplan_meier(EventCounts.of([2.0, 4.0], [True, False]))
    assert curve.survival.tolist() == [0.5, 0.5]
    assert curve.low[0] == pytest.approx(0.0060, abs=1e-4)
    assert curve.high[0] == pytest.approx(0.9104, abs=1e-4)
    nobody = kaplan_meier(EventCounts.of([], []))
    assert np.isnan(nobody.at(1).value)
    assert nobody.time_until(0.5).value == np.inf


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=1, max_size=30), st.integers(0, 30))
def test_merged_blocks_and_bounds(units: list[tuple[int, bool]], split: int) -> None:
    times, observed = np.array(units).T
    together = kaplan_meier(EventCounts.of(times, observed))
    parts = [EventCounts.of(times[own], observed[own]) for own in (slice(split), slice(split, None))]
    merged = kaplan_meier(parts[0].merged(parts[1]))
    for name in ("times", "survival", "low", "high", "at_risk"):
        np.testing.assert_allclose(getattr(merged, name), getattr(together, name), atol=1e-12)
    assert (together.low <= together.survival + 1e-12).all()
    assert (together.survival <= together.high + 1e-12).all()
    assert (np.diff(together.survival) <= 1e-12).all()


def test_replications_count_as_fractions_of_a_user() -> None:
    """Four identical replications of each user give the interval of one."""
    once = kaplan_meier(EventCounts.of(WEEKS, RELAPSED))
    repeated = kaplan_meier(EventCounts.of(np.repeat(WEEKS, 4), np.repeat(RELAPSED, 4), 0.25))
    np.testing.assert_allclose(repeated.survival, once.survival)
    np.testing.assert_allclose(repeated.low, once.low)


def test_a_curve_of_earlier_events_can_be_above() -> None:
    """The counterexample to order: A has the event on day 3, or on day 1; B is censored on day 2."""
    later, sooner = (kaplan_meier(EventCounts.of([day, 2], [True, False])) for day in (3, 1))
    assert (1 - later.at(3).value, 1 - sooner.survival[-1]) == (1.0, 0.5)
    first, second = ordered([later, sooner])
    assert first is later
    assert [1 - second.at(day).value for day in (1, 2, 3)] == [0.5, 0.5, 1.0]
    assert second.time_until(0.5).value == 1


@given(seed=st.integers(0, 10_000))
def test_ordered_curves_never_rise(seed: int) -> None:
    """Shares, limits and medians of units whose events come earlier from curve to curve, with censoring."""
    rng = np.random.default_rng(seed)
    last = rng.integers(1, 15, 6)
    days = np.minimum.accumulate(rng.integers(1, 25, (4, 6)), axis=0)
    curves = ordered(kaplan_meier(EventCounts.of(np.minimum(own, last), own <= last)) for own in days)
    assert curves[0].times[-1] <= curves[-1].times[-1]
    for smaller, larger in pairwise(curves):
        times = np.arange(smaller.times[-1] + 1)
        before, after = (np.array([curve.at(time) for time in times]) for curve in (smaller, larger))
        assert (after <= before + 1e-12).all()
        assert larger.time_until(0.5).value <= smaller.time_until(0.5).value
        assert ((larger.low <= larger.survival) & (larger.survival <= larger.high)).all()
        assert (np.diff(larger.survival) <= 0).all()
