"""Tables of the answers: one row per question, mechanism and attack, and homes known over days.

Intervals are at 95 %: Student's t over users and replications (`sim.analysis.replication_effect`) for shares that each
user has; the delta method over users for the share of all reports and for the excess risk of shares; Kaplan-Meier on
the scale log(-log S) for homes; Wilson's score interval over users for unicity and linkage, and for excess risks of
homes, unicity and linkage the propagation of errors of Giomi et al. (2023).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.answers.collect import ATTACK, TRUE_PLACES, Collected, Series
from sim.analysis.answers.excess_risk import UNKNOWN, Rate, excess_risk, wilson
from sim.analysis.answers.home_exposure import Rule, rules_within
from sim.analysis.answers.linkage import Linkage
from sim.analysis.answers.of_user import BY_HOUR, RANDOM
from sim.analysis.answers.places import resolution_km
from sim.analysis.answers.questions import (
    HOME,
    LINKED,
    REPORTS,
    SINGLED_OUT,
    key,
    paired,
)
from sim.analysis.answers.survival import SurvivalCurve, best_rule, kaplan_meier, ordered
from sim.analysis.answers.unicity import singled_out
from sim.analysis.answers.weeks import Group
from sim.analysis.event_log import SERIES
from sim.interfaces import FloatArray

COLUMNS = [
    *(*SERIES, "question", "radius_km", "places", "share", "share_low", "share_high", "interval", "control_kind"),
    *("control", "control_by_hour", "random", "excess", "excess_low", "excess_high", "without_protection", "users"),
    *("smallest", "largest", "resolution_km", "day", "median_days", "median_days_low", "median_days_high", "censored"),
    *("rule", "rank", "random_rank"),
]
STUDENT, DELTA, SURVIVAL, WILSON = "Student", "delta method", "Kaplan-Meier", "Wilson"

Row = dict[str, Any]
ControlKinds = Mapping[Series, str]
"""Knowledge of the control attack of each series: that of the attack, without any report."""


def answers_table(collected: Collected, kinds: ControlKinds) -> pd.DataFrame:
    """Return one row per question, point, LPPM and attack, without an attack for unicity and linkage.

    `share` is the success of the attack and `control` that of a guess without any report: by an adversary who knows
    where the other users go (`control_kind` others) or also the habits of this user (habits), if the attack does.
    `random` is the success of a random guess, `excess` = (share - control) / (1 - control). `smallest` and `largest`
    are extremes over users. Without a value: NaN; a `median_days` that is not reached: infinite.
    """
    rows = [*_shares(collected, kinds), *_reports(collected), *_homes(collected, kinds), *_of_reports(collected)]
    table = pd.DataFrame(rows, columns=COLUMNS)
    resolution = {point: resolution_km(grid) for point, grid in collected.grids.items()}
    return table.assign(resolution_km=table["point"].map(resolution), excess_high=table["excess_high"].clip(upper=1))


def _row(series: Series, question: str, share: Rate, **values: Any) -> Row:
    labels = dict(zip(SERIES, series, strict=True))
    return labels | {"question": question} | _rate("share", share) | values


def _rate(name: str, rate: Rate) -> Row:
    return dict(zip((name, f"{name}_low", f"{name}_high"), rate, strict=True))


def _shares(collected: Collected, kinds: ControlKinds) -> Iterator[Row]:
    """Yield the rows of shares that each user has: located, posterior mass at the true cell, places found."""
    moments, extremes, questions = collected.moments, collected.extremes, collected.questions
    if moments is None or extremes is None:
        return
    table = moments.intervals(replications=collected.effects).set_index(SERIES)
    keys = [key(*own) for own in paired(questions, posterior=collected.posterior)]
    for index in table.index:
        series: Series = (int(index[0]), str(index[1]), str(index[2]))
        kind = kinds[series]
        excess = dict(zip(keys, zip(*collected.excess[series, kind].intervals(), strict=True), strict=True))
        own, ends, counts = table.loc[index], extremes.loc[index], moments.frame.loc[index]

        def row(name: str, question: str, **values: Any) -> Row:
            column = f"{ATTACK}:{name}"
            share = Rate(*(float(own[column + end]) for end in ("", "_low", "_high")))  # noqa: B023
            around = {"smallest": ends[f"{column}_low"], "largest": ends[f"{column}_high"]}  # noqa: B023
            users = int(counts[f"{column}_count"])  # noqa: B023
            return _row(series, question, share, interval=STUDENT, users=users, **around, **values)  # noqa: B023

        for question, radius, count in paired(questions, posterior=collected.posterior):
            name = key(question, radius, count)
            if not counts[f"{ATTACK}:{name}_count"]:
                continue
            controls = {"control": own[f"{kind}:{name}"], "random": own[f"{RANDOM}:{name}"], "control_kind": kind}
            controls["control_by_hour"] = own.get(f"{kind}{BY_HOUR}:{name}", np.nan)
            risk = _rate("excess", Rate(*map(float, excess[name])))
            yield row(name, question, radius_km=radius, places=count, **controls, **risk)


def _reports(collected: Collected) -> Iterator[Row]:
    """Yield the share of all reports that are located."""
    for series, moments in collected.reports.items():
        for radius, users, *rate in zip(collected.questions.radii_km, moments.count, *moments.intervals(), strict=True):
            yield _row(series, REPORTS, Rate(*map(float, rate)), radius_km=radius, interval=DELTA, users=int(users))


def _homes(collected: Collected, kinds: ControlKinds) -> Iterator[Row]:
    """Yield the share of users whose home is known at the end, and the days until it is."""
    for series, radius, rule, curve in _curves(collected):
        day = _horizon(collected, series, curve)
        alive = curve.at(day)
        known = Rate(1 - alive.value, 1 - alive.high, 1 - alive.low)
        control, by_hour, random, users = _home_controls(collected, series, radius, kinds[series])
        yield _row(
            series,
            HOME,
            known,
            radius_km=radius,
            interval=SURVIVAL,
            control_kind=kinds[series],
            control=control.value,
            control_by_hour=by_hour,
            random=random,
            day=day,
            rule=str(rule),
            users=users,
            censored=round(users - float(curve.events.sum()), 6),
            **_rate("excess", excess_risk(known, control)),
            **_rate("median_days", _days_until(curve)),
        )


def _days_until(curve: SurvivalCurve) -> Rate:
    value, low, high = curve.time_until(0.5)
    return Rate(value, low, high)


def _home_controls(collected: Collected, series: Series, radius: float, kind: str) -> tuple[Rate, float, float, int]:
    """Return the success of the guess without any report, by hour and at random, and the number of users."""
    assert collected.moments is not None
    own: Any = collected.moments.frame.loc[[series]].iloc[0]
    name = key(HOME, radius)
    control, users = float(own[f"{kind}:{name}"]), int(own[f"{kind}:{name}_count"])
    known = UNKNOWN if np.isnan(control) else wilson(control * users, users)
    by_hour = float(own.get(f"{kind}{BY_HOUR}:{name}", np.nan))
    return known, by_hour, float(own[f"{RANDOM}:{name}"]), int(own[f"{RANDOM}:{name}_count"])


def _horizon(collected: Collected, series: Series, curve: SurvivalCurve) -> int:
    """Return the last day on which at least half of the users are observed, or on which the curve has a value."""
    days = sorted(collected.last_days[series].items(), reverse=True)
    observed = np.cumsum([count for _, count in days])
    last = days[int(np.searchsorted(observed, observed[-1] / 2))][0]
    return last if curve.survival[-1] <= 0 else min(last, int(curve.times[-1]))


def _curves(collected: Collected) -> Iterator[tuple[Series, float, Rule, SurvivalCurve]]:
    """Yield the survival curve of each series and radius by the rule of the adversary that is best on average.

    A home that is known within a radius is known within larger ones, so no curve is above that of a smaller radius.
    """
    radii = collected.questions.radii_km
    for series in dict.fromkeys(series for series, _, _ in collected.events):
        fits = [
            {rule: kaplan_meier(collected.events[series, radius, rule]) for rule in rules_within(radius)}
            for radius in radii
        ]
        rules = [best_rule(curves) for curves in fits]
        curves = ordered(own[rule] for own, rule in zip(fits, rules, strict=True))
        for radius, rule, curve in zip(radii, rules, curves, strict=True):
            yield series, radius, rule, curve


def _of_reports(collected: Collected) -> Iterator[Row]:
    """Yield the rows of unicity and linkage, which depend on the reports alone."""
    for (point, lppm), groups in _by_lppm(collected).items():
        for count in collected.questions.counts:
            own = _unicity(collected, groups, count)
            true = _unicity(collected, [group._replace(lppm=TRUE_PLACES) for group in groups], count)
            yield _compared((point, lppm, ""), SINGLED_OUT, *own, without_protection=true[0], places=count)
    linkages = collected.weeks.linkages()
    for (point, lppm), groups in _by_lppm(collected).items():
        linked = [linkages[group] for group in groups if group in linkages]
        if linked:
            true_groups = [group._replace(lppm=TRUE_PLACES) for group in groups]
            true_ones = [linkages[group] for group in true_groups if group in linkages]
            top, rank = (float(np.mean([own.mean() for own in ranked])) for ranked in _tops_and_ranks(linked))
            users = float(np.mean([len(one.top) for one in linked]))
            without = float(np.mean([one.top.mean() for one in true_ones])) if true_ones else np.nan
            ranks = {"rank": rank, "random_rank": (users + 1) / 2}
            yield _compared((point, lppm, ""), LINKED, top, users, without_protection=without, **ranks)


def _tops_and_ranks(linked: list[Linkage]) -> tuple[list[FloatArray], list[FloatArray]]:
    return [own.top for own in linked], [own.rank for own in linked]


def _by_lppm(collected: Collected) -> dict[tuple[int, str], list[Group]]:
    groups: dict[tuple[int, str], list[Group]] = {}
    for group in dict.fromkeys(group for group, _ in collected.keys):
        if group.lppm != TRUE_PLACES:
            groups.setdefault((group.point, group.lppm), []).append(group)
    return groups


def _unicity(collected: Collected, groups: list[Group], count: int) -> tuple[float, float]:
    """Return the share of singled out users with enough places and their number, means over replications."""
    sizes = [singled_out(Counter(own)) for group in groups if (own := collected.keys.get((group, count)))]
    if not sizes:
        return np.nan, 0.0
    return float(np.mean([alone / users for alone, users in sizes])), float(np.mean([users for _, users in sizes]))


def _compared(series: Series, question: str, share: float, users: float, **values: Any) -> Row:
    """Return the row of a share of users, next to a random guess among them."""
    rate = wilson(share * users, users)
    random = 1 / users if users else np.nan
    risk = _rate("excess", excess_risk(rate, Rate(random, random, random)))
    columns = {"interval": WILSON, "control": random, "random": random, "control_kind": RANDOM, "users": round(users)}
    return _row(series, question, rate, **columns, **risk, **values)


def home_table(collected: Collected, kinds: ControlKinds) -> pd.DataFrame:
    """Return the share of users whose home is known, by day: one row per series, radius and day of a change, from 0.

    `known` has the interval `known_low`, `known_high`; `at_risk` is the number of users whose home is not known before
    this day and who are still observed.
    """
    frames = []
    last_day = max((day for days in collected.last_days.values() for day in days), default=0)
    for series, radius, rule, curve in _curves(collected):
        control, _, random, users = _home_controls(collected, series, radius, kinds[series])
        start = curve.at(0)
        own = pd.DataFrame(
            {
                "day": np.append(0.0, curve.times),
                "known": np.append(0.0, 1 - curve.survival),
                "known_low": np.append(0.0, 1 - curve.high),
                "known_high": np.append(1 - start.low, 1 - curve.low),
                "at_risk": np.append(users, curve.at_risk),
            }
        )
        if curve.survival[-1] <= 0 and curve.times[-1] < last_day:
            # A curve on which everybody has had the event does not end with the last one.
            own = pd.concat([own, own.iloc[[-1]].assign(day=float(last_day), at_risk=0.0)], ignore_index=True)
        labels: dict[str, Any] = dict(zip(SERIES, series, strict=True)) | {"radius_km": radius, "rule": str(rule)}
        labels |= {"control_kind": kinds[series], "control": control.value, "random": random, "users": users}
        frames.append(own.assign(**labels))
    columns = [*SERIES, "radius_km", "rule", "day", "known", "known_low", "known_high", "at_risk"]
    columns += ["control_kind", "control", "random", "users"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)
