"""Answers about users: homes over days, places, unicity and linkage, and what they need."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim.analysis.answers.home_exposure import Night
from sim.audit.attack import AttackResult
from sim.audit.attack_grid import AttackGrid
from sim.audit.displacement import M_PER_DEGREE, Sample
from sim.audit.figures import home_figure
from sim.audit.home_curves import HomeCurve
from sim.audit.known_places import KnownPlaces
from sim.audit.user_answers import HOME, LINKED, PLACES, SINGLED_OUT, UserAnswer, answer_record, user_answers
from sim.audit.user_page import home_sentence, users_section
from sim.interfaces import FloatArray

USERS, DAYS, KM = 6, 16, 1000 / M_PER_DEGREE
HOMES = 3.0 * np.arange(USERS)
"""Kilometres to the east; work is 40 km to the north of it."""


def _world(days: int = DAYS, users: int = USERS) -> Sample:
    """Return users who are at home at 2 h and at work at 12 h, on the equator; reports are the true positions."""
    hours = np.tile([2, 12], days) + 24 * np.repeat(np.arange(days), 2)
    user = np.repeat(np.arange(users), hours.size)
    lat: FloatArray = np.tile(np.array([0.0, 40.0]) * KM, days * users).astype(np.float64)
    lon: FloatArray = np.asarray(HOMES[user] * KM, dtype=np.float64)
    time_s: FloatArray = np.tile(hours * 3600, users).astype(np.float64)
    return Sample(user, time_s, lat, lon, lat.copy(), lon.copy())


def _attacked(sample: Sample, shift_km: FloatArray) -> AttackResult:
    """Return an attack of the second half whose estimates are `shift_km` to the east, by user and row."""
    count = np.bincount(sample.user)[0]
    target = sample.rows(np.arange(len(sample)) % count >= count / 2)
    grid = AttackGrid(
        sample.plane,
        *sample.plane.to_m(sample.lat, sample.lon),
        25.0,
        np.full((len(sample), 2), 25.0),
        len(sample),
        25.0,
    )
    true = np.column_stack(grid.plane.to_m(target.lat, target.lon))
    estimates = true + 1000 * np.column_stack([shift_km, np.zeros(len(target))])
    return AttackResult(grid, target, true, {"report taken literally": estimates, "markov, own past": true}, 0.0, ())


def _answers(shift_km: FloatArray, **options: Any) -> tuple[list[UserAnswer], list[HomeCurve]]:
    sample = _world(**options)
    return user_answers(_attacked(sample, shift_km), sample, timed=True, night=Night())


def _of(answers: list[UserAnswer], question: str, places: int = 0, radius_m: float = 500.0) -> UserAnswer:
    return next(
        one
        for one in answers
        if one.question == question
        and one.places == places
        and one.attack in ("", "report taken literally")
        and (math.isnan(one.radius_m) or one.radius_m == radius_m)
    )


def test_homes_are_known_from_the_day_on_which_estimates_are_near() -> None:
    shift = np.where(np.arange(USERS * DAYS) % DAYS < 4, 9.0, 0.0)  # two of the eight attacked days are far off
    shift[-DAYS:] = 9.0  # the last user is never found
    answers, curves = _answers(shift)
    home = _of(answers, HOME)
    assert home.share.value == pytest.approx(5 / 6)
    assert home.share.low < 5 / 6 < home.share.high < 1
    assert home.median_days.value == 3
    assert home.control == 0
    curve = next(one for one in curves if one.radius_km == 0.5 and one.attack == "report taken literally")
    assert curve.curve.at(2).value == 1
    assert curve.curve.at(3).value == pytest.approx(1 / 6)
    assert "83%" in home_sentence(answers)


def test_own_past_knows_the_home_without_a_report() -> None:
    answers, _ = _answers(np.zeros(USERS * DAYS))
    own = next(one for one in answers if one.question == HOME and one.attack == "markov, own past")
    assert (own.control_kind, own.control) == ("habits", 1)


def test_places_are_found_as_often_as_estimates_are_near() -> None:
    shift = np.where(np.arange(USERS * DAYS) // DAYS < 3, 9.0, 0.0)
    answers, _ = _answers(shift)
    top_two = _of(answers, PLACES, 2)
    assert top_two.share.value == pytest.approx(0.5)
    assert top_two.users == USERS
    assert "different places" in _of(answers, PLACES, 3).needs


def test_users_are_singled_out_unless_they_share_places() -> None:
    sample = _world()
    answers, _ = user_answers(_attacked(sample, np.zeros(USERS * DAYS)), sample, timed=True, night=Night())
    assert _of(answers, SINGLED_OUT, 2).share.value == 1
    same = replace(sample, sent_lon=np.where(sample.user < 2, 0.0, sample.sent_lon))
    answers, _ = user_answers(_attacked(same, np.zeros(USERS * DAYS)), same, timed=True, night=Night())
    one = _of(answers, SINGLED_OUT, 2)
    assert one.share.value == pytest.approx(4 / 6)
    assert one.without_protection == 1
    assert _of(answers, LINKED).share.value == pytest.approx(5 / 6)  # two users are indistinguishable


def test_few_days_or_users_say_what_is_missing() -> None:
    answers, curves = _answers(np.zeros(USERS * 4), days=4)
    assert "on 3 days, found at most 2" in _of(answers, HOME).needs
    assert "second week" in _of(answers, LINKED).needs
    assert math.isnan(_of(answers, HOME).share.value)
    assert "not enough data" in users_section(answers, curves, Night())
    alone, _ = _answers(np.zeros(DAYS), users=1)
    assert "needs 2 users" in _of(alone, SINGLED_OUT, 1).needs
    assert math.isnan(_of(alone, HOME).control)
    assert _of(alone, HOME).share.low < 0.1
    assert "needs other users" in home_sentence(alone)


def test_users_without_attacked_reports_are_censored() -> None:
    sample = _world()
    result = _attacked(sample, np.zeros(USERS * DAYS))
    kept = result.sample.user > 0
    fewer = replace(
        result,
        sample=result.sample.rows(kept),
        true_xy_m=result.true_xy_m[kept],
        estimates_m={name: own[kept] for name, own in result.estimates_m.items()},
    )
    answers, _ = user_answers(fewer, sample, timed=True, night=Night())
    home = _of(answers, HOME)
    assert home.users == USERS
    assert home.share.value == pytest.approx(5 / 6)


def test_untimed_rows_have_no_answers_about_days() -> None:
    sample = _world()
    answers, curves = user_answers(_attacked(sample, np.zeros(USERS * DAYS)), sample, timed=False, night=Night())
    assert _of(answers, HOME).needs == _of(answers, LINKED).needs == "not enough data: needs times"
    assert _of(answers, PLACES, 1).share.value == 1
    assert "<polyline" not in users_section(answers, curves, Night())


def test_records_are_json_and_the_figure_has_the_control() -> None:
    answers, curves = _answers(np.full(USERS * DAYS, 9.0))
    record = answer_record(_of(answers, HOME))
    assert record["median_days"]["value"] == "not reached"
    assert json.loads(json.dumps(record))["share"]["value"] == 0
    figure = home_figure(curves[:1], 0.25)
    assert "no report (control)" in figure
    assert "no report" not in home_figure(curves[:1], math.nan)


def test_control_does_not_know_the_attacked_half() -> None:
    sample = _world()
    later = np.arange(len(sample)) % (2 * DAYS) >= DAYS
    more = np.flatnonzero(later & (sample.lat == 0))  # a second position of each night at a new home
    rows = np.sort(np.concatenate([np.arange(len(sample)), more, more]))
    moved = replace(sample, lon=np.where(later & (sample.lat == 0), sample.lon + KM, sample.lon)).rows(rows)
    known = KnownPlaces.of(_attacked(sample, np.zeros(USERS * DAYS)), moved, Night())
    homes = np.array([user.home[0] - user.past_home[0] for user in known.users])
    assert homes == pytest.approx(np.ones(USERS), abs=0.02)
