"""Answers about users: homes known over days, places found, users singled out, and weeks linked.

Each answer has the success of an attack beside that of a control attack that uses no report, or says which data it
needs. Homes and places are attacked in the second half of each user's pairs. Unicity and linkage depend on the reports
alone and use all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sim.analysis.answers.excess_risk import UNKNOWN, Rate, excess_risk, paired_excess_risk, wilson
from sim.analysis.answers.home_exposure import Night
from sim.analysis.answers.radii import RADII_KM
from sim.analysis.answers.reidentified_places import COUNTS, found_share, random_found_share, top_places
from sim.analysis.answers.unicity import singled_out, top_key
from sim.analysis.answers.weeks import Group, Weeks
from sim.analysis.statistics import FEWEST_USERS
from sim.audit.answers import share
from sim.audit.attack import AttackResult
from sim.audit.displacement import Sample
from sim.audit.home_curves import HomeCurve, home_curves
from sim.audit.known_places import OTHERS, KnownPlaces, control_of
from sim.interfaces import FloatArray, IntArray

HOME, PLACES, SINGLED_OUT, LINKED = "home", "places", "singled_out", "linked"
RANDOM = "random"
CELL_M = 500.0
"""Side of the squares in which reports count as the same place for unicity."""


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """A share of users or of their places, with its 95 % confidence interval; NaN without enough data."""

    question: str
    attack: str
    """Empty for unicity and linkage, which have no estimates of places."""
    radius_m: float
    places: int
    share: Rate
    control_kind: str
    """Knowledge of the control attack: `others`, `habits` or, by chance alone, `random`."""
    control: float
    random: float
    excess: Rate
    """(share - control) / (1 - control)."""
    users: int
    day: float = math.nan
    """Day of the share of known homes, from the first attacked report."""
    median_days: Rate = UNKNOWN
    """Days until half of the homes are known; infinite: not reached."""
    without_protection: float = math.nan
    needs: str = ""
    """Missing data; empty if there are enough data."""


def user_answers(
    result: AttackResult, sample: Sample, *, timed: bool, night: Night
) -> tuple[list[UserAnswer], list[HomeCurve]]:
    """Return all answers about users, and the curves of known homes; `sample` has all pairs."""
    known = KnownPlaces.of(result, sample, night)
    curves = home_curves(known, timed=timed)
    rows = [*_homes(known, curves), *_places(known), *_singled_out(sample), _linked(sample, timed=timed)]
    return rows, curves


def answer_record(answer: UserAnswer) -> dict[str, Any]:
    """Return an answer for the JSON file; an infinite number of days is `not reached`."""
    record: dict[str, Any] = {}
    for field in fields(answer):
        value = getattr(answer, field.name)
        record[field.name] = value._asdict() if isinstance(value, Rate) else value
    days = record["median_days"]
    record["median_days"] = {name: "not reached" if math.isinf(day) else day for name, day in days.items()}
    return record


def curve_record(curve: HomeCurve) -> dict[str, Any]:
    """Return a curve of known homes for the JSON file."""
    own = curve.curve
    return {
        "attack": curve.attack,
        "radius_m": 1000 * curve.radius_km,
        "rule": str(curve.rule),
        "day": own.times.tolist(),
        "known": (1 - own.survival).tolist(),
        "low": (1 - own.high).tolist(),
        "high": (1 - own.low).tolist(),
        "at_risk": own.at_risk.tolist(),
    }


def _homes(known: KnownPlaces, curves: list[HomeCurve]) -> Iterator[UserAnswer]:
    for one in curves:
        control = known.home_control(one.radius_km, control_of(one.attack))
        rate = wilson(float(np.nansum(control)), int(np.isfinite(control).sum()))
        random = float(np.mean([known.random(user.home[None], one.radius_km)[0] for user in known.users]))
        empty = UserAnswer(
            HOME, one.attack, 1000 * one.radius_km, 0, UNKNOWN, control_of(one.attack), rate.value, random, UNKNOWN,
            len(known.users), needs=one.needs,
        )  # fmt: skip
        if one.needs:
            yield empty
            continue
        known_share, day, median = one.summary()
        excess = UNKNOWN if math.isnan(rate.value) else excess_risk(known_share, rate)
        yield replace(empty, share=known_share, excess=excess, day=day, median_days=median)


def _places(known: KnownPlaces) -> Iterator[UserAnswer]:
    for attack in known.attacks:
        for radius in RADII_KM:
            ranked = {user.number: _ranked(known.estimates(attack, user), radius) for user in known.users}
            for count in COUNTS:
                yield _found(known, attack, radius, count, ranked)


def _found(known: KnownPlaces, attack: str, radius_km: float, count: int, ranked: dict[int, FloatArray]) -> UserAnswer:
    """Return the share of the most visited places that an attack finds, over users with as many places."""
    kind = control_of(attack)
    own = [user for user in known.users if len(user.top) >= count]
    if not own:
        needs = f"not enough data: needs users with {count} different places"
        return UserAnswer(
            PLACES, attack, 1000 * radius_km, count, UNKNOWN, kind, math.nan, math.nan, UNKNOWN, 0, needs=needs
        )
    values = np.array([found_share(user.top[:count], ranked[user.number][:count], radius_km) for user in own])
    guesses = [known.control_places(user, radius_km, kind)[:count] for user in own]
    pairs = zip(own, guesses, strict=True)
    control = np.array([found_share(user.top[:count], guess, radius_km) for user, guess in pairs])
    random = np.mean([random_found_share(known.random(user.top[:count], radius_km), count) for user in own])
    excess = paired_excess_risk(values, control) if len(own) >= FEWEST_USERS else UNKNOWN
    level = float(control.mean())
    if len(known.users) == 1 and kind == OTHERS:
        level, excess = math.nan, UNKNOWN
    found_places = share(values, np.arange(values.size))
    return UserAnswer(
        PLACES, attack, 1000 * radius_km, count, found_places, kind, level, float(random), excess, len(own)
    )


def _ranked(estimates: FloatArray, radius_km: float) -> FloatArray:
    return top_places(estimates, np.ones(len(estimates)), max(COUNTS), merge_km=radius_km)


def _singled_out(sample: Sample) -> Iterator[UserAnswer]:
    """Yield the unicity of reported places: squares of `CELL_M` on a side."""
    sent = sample.rows(sample.sent)
    for count in COUNTS:
        (alone, users), (alone_true, users_true) = (
            _alone(sent.user, column, count) for column in (sent.sent_xy_m, sent.true_xy_m)
        )
        squares = f"{count} different squares of {CELL_M:,.0f} m"
        needs = "" if users > 1 else f"not enough data: needs 2 users with reports in {squares}, found {users}"
        answer = _compared(SINGLED_OUT, alone, users, needs)
        yield replace(answer, places=count, without_protection=alone_true / users_true if users_true > 1 else math.nan)


def _alone(user: IntArray, xy_m: tuple[FloatArray, FloatArray], count: int) -> tuple[int, int]:
    squares = np.floor(np.column_stack(xy_m) / CELL_M).astype(np.int64)
    _, place = np.unique(squares, axis=0, return_inverse=True)
    keys = (top_key(place.reshape(-1)[user == one], count) for one in np.unique(user))
    return singled_out(Counter(key for key in keys if key is not None))


def _linked(sample: Sample, *, timed: bool) -> UserAnswer:
    """Return how many second weeks of reports are attributed to the right first week."""
    weeks, groups = Weeks(), [Group(0, name, 0) for name in ("sent", "true")]
    sent = sample.rows(sample.sent)
    if timed:
        for group, columns in zip(groups, (sent.sent_xy_m, sent.true_xy_m), strict=True):
            xy, times = np.column_stack(columns) / 1000, np.floor(sent.time_s).astype(np.int64)
            for user in np.unique(sent.user).tolist():
                weeks.add(group, str(user), xy[sent.user == user], times[sent.user == user])
    linked = weeks.linkages()
    if groups[0] not in linked:
        reason = "needs 2 users with reports in a first and in a second week" if timed else "needs times"
        return _compared(LINKED, 0, 0, f"not enough data: {reason}")
    top = linked[groups[0]].top
    return replace(
        _compared(LINKED, float(top.sum()), len(top), ""), without_protection=float(linked[groups[1]].top.mean())
    )


def _compared(question: str, successes: float, users: int, needs: str) -> UserAnswer:
    """Return a share of users beside a random guess among them."""
    random = 1 / users if users else math.nan
    share = UNKNOWN if needs else wilson(successes, users)
    excess = UNKNOWN if needs else excess_risk(share, Rate(random, random, random))
    return UserAnswer(question, "", math.nan, 0, share, RANDOM, random, random, excess, users, needs=needs)
