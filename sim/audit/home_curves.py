"""Days until homes are known, with users censored at their last day (Kaplan-Meier)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.analysis.answers.excess_risk import Rate
from sim.analysis.answers.home_exposure import (
    STABLE_NIGHTS,
    KnownHome,
    Rule,
    at_home,
    days_known,
    rules_within,
)
from sim.analysis.answers.radii import RADII_KM
from sim.analysis.answers.survival import EventCounts, SurvivalCurve, best_rule, kaplan_meier, ordered
from sim.audit.known_places import KnownPlaces, KnownUser


@dataclass(frozen=True)
class HomeCurve:
    """Share of users whose home an attack knows, by day since the first attacked report."""

    attack: str
    radius_km: float
    rule: Rule
    """Rule of the adversary that knows homes earliest on average."""
    curve: SurvivalCurve
    last_days: tuple[int, ...]
    """Last day of each user."""
    needs: str = ""
    """Missing data; empty if there are enough data."""

    def summary(self) -> tuple[Rate, float, Rate]:
        """Return the share known on a day, this day, and the days until half of the homes are known.

        The day is the last one on which at least half of the users are observed.
        """
        ordered = sorted(self.last_days, reverse=True)
        day = ordered[(len(ordered) + 1) // 2 - 1]
        if self.curve.survival[-1] > 0:
            day = min(day, int(self.curve.times[-1]))
        alive = self.curve.at(day)
        return Rate(1 - alive.value, 1 - alive.high, 1 - alive.low), float(day), self.curve.time_until(0.5)


def home_curves(known: KnownPlaces, *, timed: bool) -> list[HomeCurve]:
    """Return a curve for each attack and radius, or what is missing for it."""
    needs = _needs(known, timed=timed)
    last_days = tuple(_last_day(known, user) for user in known.users)
    curves = []
    for attack in known.attacks:
        days = [_days(known, attack, user) for user in known.users]
        fits = [
            {rule: _curve([own[radius, rule] for own in days]) for rule in rules_within(radius)} for radius in RADII_KM
        ]
        rules = [best_rule(own) for own in fits]
        in_order = ordered(own[rule] for own, rule in zip(fits, rules, strict=True))
        for radius, rule, curve in zip(RADII_KM, rules, in_order, strict=True):
            curves.append(HomeCurve(attack, radius, rule, curve, last_days, needs))
    return curves


def _needs(known: KnownPlaces, *, timed: bool) -> str:
    if not timed:
        return "not enough data: needs times"
    most = max(
        (np.unique(known.night.day_of(user.times_s[at_home(user.times_s, known.night)])).size for user in known.users),
        default=0,
    )
    if most >= STABLE_NIGHTS:
        return ""
    return f"not enough data: needs users with attacked reports on {STABLE_NIGHTS} days, found at most {most}"


def _days(known: KnownPlaces, attack: str, user: KnownUser) -> dict[tuple[float, Rule], KnownHome]:
    """Return the days on which an attack knows a home; a user without reports is censored."""
    if not len(user.rows):
        censored = KnownHome(user.days_observed, known=False)
        return {(radius, rule): censored for radius in RADII_KM for rule in rules_within(radius)}
    return days_known(known.estimates(attack, user), user.times_s, user.home, RADII_KM, known.night)


def _last_day(known: KnownPlaces, user: KnownUser) -> int:
    if not len(user.rows):
        return user.days_observed
    days = known.night.day_of(user.times_s)
    return int(days[-1] - days[0] + 1)


def _curve(days: list[KnownHome]) -> SurvivalCurve:
    return kaplan_meier(EventCounts.of([one.day for one in days], [one.known for one in days]))
