"""Rules of repeated reports and circles around zones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.audit.displacement import Sample
from sim.audit.memory import near_sources, repeated, time_sources
from sim.audit.zone import fit_presence, separating_circles
from tests.audit.mechanisms import zone
from tests.audit.movement import people


def _line(x_deg: list[float], time_s: list[float], user: list[int]) -> Sample:
    lat, lon = np.zeros(len(x_deg)), np.array(x_deg)
    return Sample(np.array(user), np.array(time_s), lat, lon, lat, np.zeros(len(x_deg)))


def test_reports_are_repeated_until_their_lifetime_has_passed() -> None:
    sample = _line([0] * 6, [0, 50, 99, 100, 150, 10], [0, 0, 0, 0, 0, 1])
    assert time_sources(sample, 100.0).tolist() == [0, 0, 0, 3, 3, 5]


def test_reports_are_repeated_near_an_earlier_draw() -> None:
    sample = _line([0, 0.01, 0.0001, 0.0101, 0.0001], [0, 1, 2, 3, 4], [0, 0, 0, 0, 1])
    assert near_sources(sample, 30.0).tolist() == [0, 1, 0, 1, 4]


def test_repeats_are_those_of_the_same_user() -> None:
    sample = replace(_line([0] * 4, [0, 1, 2, 3], [0, 0, 1, 1]), sent_lon=np.array([1.0, 1.0, 1.0, 2.0]))
    assert repeated(sample).tolist() == [False, True, False, False]


def test_feasible_circles_contain_the_true_one() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-3000, 3000, (400, 2))
    inside = np.hypot(*(points - [200.0, -300.0]).T) < 900
    centres, least, most, wrong = separating_circles(points, inside)
    feasible = least < most
    assert wrong == 0
    assert np.hypot(*(centres[feasible] - [200.0, -300.0]).T).min() < 30
    assert least[feasible].min() < 900 < most[feasible].max()


def test_rows_dropped_at_random_are_no_zone() -> None:
    rng = np.random.default_rng(1)
    sample = people(rng, users=10, pairs=1000)
    presence = fit_presence(sample, rng.uniform(size=1000) < 0.3)
    assert presence.kind == "dropping"
    assert presence.estimates[0].low < 0.3 < presence.estimates[0].high


def test_zones_have_a_common_radius_and_exceptions_are_tolerated() -> None:
    rng = np.random.default_rng(1)
    sample = zone(800)(people(rng, users=10, pairs=1000), rng)
    altered = ~sample.sent
    altered[np.flatnonzero(~altered)[:3]] = True
    presence = fit_presence(sample, altered)
    assert presence.kind == "zone"
    assert presence.estimates[0].low < 800 < presence.estimates[0].high
