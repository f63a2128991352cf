"""Days until a home is known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.analysis.answers.home_exposure import (
    DAY_S,
    HOUR_S,
    HomeEstimates,
    Kind,
    Night,
    Rule,
    day_known,
    days_known,
    home_estimates,
    rules_within,
    true_home,
)
from sim.belief.home import HomeProfile, HomeProfileParameters
from sim.errors import InvalidValue
from sim.interfaces import FloatArray

HOME = np.array([1.0, 2.0])


def nights(estimates: FloatArray) -> HomeEstimates:
    """Return estimates of consecutive nights."""
    return HomeEstimates(np.arange(1, len(estimates) + 1), estimates, len(estimates))


@pytest.mark.parametrize("hours", [(22.0, 6.0, 0.0), (1.0, 5.0, -8.0), (20.5, 4.25, 5.5)])
def test_night_is_that_of_the_belief_home(hours: tuple[float, float, float]) -> None:
    night = Night(*hours)
    keys = HomeProfileParameters(from_h=hours[0], until_h=hours[1], utc_offset_h=hours[2])
    belief = HomeProfile(keys, profile=[1.0])
    times = np.arange(0, 3 * DAY_S, 900)
    assert night.contains(times).tolist() == [belief.at_home(int(time)) for time in times]


def test_a_night_is_not_cut() -> None:
    """All times of a night have the same day, and the next night has the next one."""
    times = np.arange(22 * HOUR_S, 30 * HOUR_S, 600)
    assert set(Night().day_of(times).tolist()) == {0}
    assert set(Night().day_of(times + DAY_S).tolist()) == {1}


def test_home_is_where_the_nights_are() -> None:
    times = np.array([23, 12, 13, 14, 47]) * HOUR_S
    places = np.array([[5.0, 5], [0, 0], [0, 0], [0, 0], [5, 5]])
    assert true_home(places, times).place.tolist() == [5, 5]
    by_day = true_home(places[1:4], times[1:4])
    assert by_day.place.tolist() == [0, 0]
    assert not by_day.at_night


def test_estimates_use_nights_so_far_only() -> None:
    times = np.array([12, 23, 36, 47, 71, 80]) * HOUR_S
    places = np.array([[9.0, 9], [0, 0], [9, 9], [4, 0], [5, 3], [9, 9]])
    median = home_estimates(places, times, rule="median")
    assert median.days.tolist() == [2, 3, 4], "day 1 ends with the first night"
    assert median.places.tolist() == [[0, 0], [0, 0], [4, 0]]
    assert median.last_day == 4
    assert home_estimates(places, times, rule="latest").places.tolist() == [[0, 0], [4, 0], [5, 3]]


def test_known_from_the_night_after_the_last_miss() -> None:
    off, near = HOME + np.array([3.0, 0.0]), HOME + np.array([0.4, 0.3])
    known = day_known(nights(np.array([near, off, near, near, HOME])), HOME, 0.5)
    assert known == (3, True)
    assert day_known(nights(np.array([near, off, near, near, HOME])), HOME, 0.4) == (5, False)
    assert day_known(nights(np.array([near, near, near])), HOME, 0.5) == (1, True)


def test_too_few_nights_establish_nothing() -> None:
    assert day_known(nights(np.array([HOME, HOME])), HOME, 0.5) == (2, False)
    assert day_known(nights(np.array([HOME, HOME])), HOME, 0.5, stable_nights=2) == (1, True)


def test_a_random_estimate_does_not_become_known() -> None:
    """Estimates within the radius one time in five are seldom within it in the last three nights."""
    rng = np.random.default_rng(5)
    known = [
        day_known(nights(np.where(rng.random((30, 1)) < 0.2, HOME, HOME + 9)), HOME, 0.5).known for _ in range(2_000)
    ]
    assert np.mean(known) == pytest.approx(0.2**3, abs=0.006)


def test_most_frequent_place_by_enumeration() -> None:
    """Of the estimates so far, the one with the most others within the radius; the first one if tied."""
    rng = np.random.default_rng(7)
    places, times = rng.integers(0, 5, (30, 2)).astype(float), np.arange(30) * DAY_S
    estimates = home_estimates(places, times, rule="frequent", scale_km=1.0).places
    for night in range(1, 31):
        so_far = places[:night]
        near = [(np.hypot(*(so_far - place).T) <= 1.0).sum() for place in so_far]
        assert estimates[night - 1].tolist() == so_far[int(np.argmax(near))].tolist()


def test_home_of_a_user_who_is_often_elsewhere() -> None:
    """Of true places, the most frequent one is the home, and the median of different places need not be."""
    places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 0.0], [5.0, 5.0], [9.0, 9.0], [0.0, 0.0], [8.0, 1.0]])
    times = np.arange(7) * DAY_S
    home = true_home(places, times).place
    assert day_known(home_estimates(places, times, rule="frequent"), home, 0.1) == (1, True)
    assert not day_known(home_estimates(places, times, rule="median"), home, 0.1).known


@pytest.mark.parametrize("rule", ["median", "latest"])
def test_averaging_reveals_a_home_behind_independent_noise(rule: Kind) -> None:
    rng = np.random.default_rng(6)
    times = np.arange(60) * DAY_S
    reports = HOME + rng.laplace(0, 0.5, (60, 2))
    known = day_known(home_estimates(reports, times, rule=rule), HOME, 0.3)
    assert known.known == (rule == "median")


def test_night_of_no_length() -> None:
    with pytest.raises(InvalidValue):
        Night(from_h=6, until_h=6)


@given(seed=st.integers(0, 10_000))
def test_a_larger_radius_never_knows_a_home_later(seed: int) -> None:
    """By each rule of the smaller radius, which is also one of the larger radius."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 12 * DAY_S, 40))
    places = np.where(rng.random((40, 1)) < 0.5, HOME, HOME + rng.laplace(0, 1.0, (40, 2)).round(1))
    radii = [0.05, 0.1, 0.3, 0.564, 1.0, 3.0]
    known = days_known(places, times, HOME, radii)
    for smaller, larger in pairwise(radii):
        for rule in rules_within(smaller):
            before, after = known[smaller, rule], known[larger, rule]
            assert after.known >= before.known
            assert after.day <= before.day


def test_scales_of_the_place_with_most_estimates_by_hand() -> None:
    """A scale of 2 km blurs the home, which the exact place names: both are rules for a radius of 2 km.

    The rule that looks within the radius alone knew this home within 100 m and not within 2 km.
    """
    other = np.array([[6.0, 0.0], [7.0, 0.0], [8.0, 0.0]])
    places = np.concatenate([np.zeros((2, 2)), other])
    times = np.arange(5) * DAY_S
    known = days_known(places, times, np.zeros(2), [0.1, 2.0])
    assert known[0.1, Rule("frequent", 0.1)] == (1, True)
    assert known[2.0, Rule("frequent", 2.0)] == (5, False)
    assert known[2.0, Rule("frequent", 0.1)] == (1, True)
