"""The part of the page about users: homes, places, unicity and linkage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sim.analysis.answers.excess_risk import Rate
from sim.analysis.answers.home_exposure import STABLE_NIGHTS, Night
from sim.audit.figures import home_figure
from sim.audit.home_curves import HomeCurve
from sim.audit.known_places import OTHERS, control_of
from sim.audit.tables import table
from sim.audit.user_answers import CELL_M, HOME, LINKED, PLACES, SINGLED_OUT, UserAnswer
from sim.report.markup import Markup, joined, tag

PRECISE_M = 564.0
_HOME_RADII_M = (100.0, PRECISE_M, 2000.0)
_COMPARED = ["success", "no report", "random", "excess risk"]


def home_sentence(answers: Sequence[UserAnswer], without_nights: int = 0) -> str:
    """Return the earliest knowledge of homes by an attack without the users' own past, beside its control.

    Homes of users without positions at night are their most frequent places, which the sentence states.
    """
    homes = [one for one in answers if _is_headline(one)]
    if not homes:
        return ""
    if homes[0].needs:
        return f"Days until homes are known: {homes[0].needs}."
    best = max(homes, key=lambda one: (one.share.value, -one.median_days.value))
    half = "not half of them by then" if math.isinf(best.median_days.value) else (
        f"half of them by day {best.median_days.value:.0f}"
    )  # fmt: skip
    control = "unknown, as it needs other users" if math.isnan(best.control) else f"{best.control:.0%}"
    guessed = (
        f" Homes of {without_nights:,} users are their most frequent places: they have no positions at night."
        if without_nights
        else ""
    )
    return (
        f"Homes known within 564 m by day {best.day:.0f} of the attacked reports: {_rate(best.share)} of {best.users} "
        f"user{'s' if best.users != 1 else ''} ({best.attack}), {half}; without any report: {control}." + guessed
    )


def _is_headline(one: UserAnswer) -> bool:
    return one.question == HOME and one.radius_m == PRECISE_M and control_of(one.attack) == OTHERS


def users_section(
    answers: Sequence[UserAnswer], curves: Sequence[HomeCurve], night: Night, without_nights: str = ""
) -> Markup:
    """Return the figure of homes over days and the tables, with a note on users without positions at night."""
    shown = [one for one in curves if 1000 * one.radius_km == PRECISE_M and control_of(one.attack) == OTHERS]
    parts: list[Markup] = []
    if shown and not shown[0].needs:
        control = next(one.control for one in answers if _is_headline(one))
        parts.append(home_figure(shown, control))
        parts += [tag("p", without_nights, class_="note")] if without_nights else []
    for title, heads, rows, note in _tables(answers, night, without_nights):
        body = table(heads, rows) if rows else tag("p", "No answer.", class_="none")
        parts += [tag("h3", title), body, tag("p", note, class_="note")]
    return joined(parts)


def _tables(
    answers: Sequence[UserAnswer], night: Night, without_nights: str = ""
) -> Iterator[tuple[str, list[str], list[list[str]], str]]:
    homes = [one for one in answers if one.question == HOME and one.radius_m in _HOME_RADII_M]
    yield (
        "Homes",
        ["attack", "within", *_COMPARED, "by day", "half known by day", "users"],
        [
            [one.attack, f"{one.radius_m:,.0f} m", *_compared(one, [_number(one.day), _days(one.median_days)])]
            for one in homes
        ],
        f"A home is the place of most positions at night ({night.from_h:g} to {night.until_h:g} h at UTC"
        f"{night.utc_offset_h:+g}). It is known from the day on which the estimate stays within the radius until the "
        f"end, for at least {STABLE_NIGHTS} nights; other users are censored at their last day (Kaplan-Meier). Attacks "
        "with the own past may know the home beforehand: their control is a guess from this past."
        + (f" {without_nights}" if without_nights else ""),
    )
    places = [one for one in answers if one.question == PLACES and one.radius_m == PRECISE_M]
    yield (
        "Most visited places found within 564 m",
        ["attack", "places", *_COMPARED, "users"],
        [[one.attack, f"top {one.places}", *_compared(one, [])] for one in places],
        "Share of the most visited places that are among as many guesses. No report: the places that other users visit "
        "most or, for attacks with the own past, those of this past.",
    )
    reports = [one for one in answers if one.question in (SINGLED_OUT, LINKED)]
    yield (
        "Pseudonymous reports",
        ["question", "success", "random", "excess risk", "without protection", "users"],
        [_of_reports(one) for one in reports],
        "Singled out: nobody else has the same most reported places, in squares of "
        f"{CELL_M:,.0f} m. Weeks linked: the second week of reports is attributed to the right first week. Both "
        "concern these users only; among more users, both are harder.",
    )


def _compared(one: UserAnswer, more: list[str]) -> list[str]:
    if one.needs:
        return [one.needs, _share(one.control), _share(one.random), "–", *("–" for _ in more), str(one.users)]
    return [_rate(one.share), _share(one.control), _share(one.random), _excess(one.excess), *more, str(one.users)]


def _of_reports(one: UserAnswer) -> list[str]:
    name = "weeks linked" if one.question == LINKED else f"singled out by top {one.places}"
    success, excess = (one.needs, "–") if one.needs else (_rate(one.share), _excess(one.excess))
    return [name, success, _share(one.random), excess, _share(one.without_protection), str(one.users)]


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0%}"


def _rate(rate: Rate) -> str:
    if math.isnan(rate.value):
        return "–"
    return _share(rate.value) if math.isnan(rate.low) else f"{rate.value:.0%} ({rate.low:.0%} to {rate.high:.0%})"


def _excess(rate: Rate) -> str:
    """Return an excess risk; the attack may be worse than its control."""
    return "none" if rate.value <= 0 else _rate(rate._replace(low=max(rate.low, 0.0), high=min(rate.high, 1.0)))


def _number(value: float) -> str:
    return "not reached" if math.isinf(value) else "–" if math.isnan(value) else f"{value:.0f}"


def _days(rate: Rate) -> str:
    if math.isnan(rate.value) or math.isinf(rate.low):
        return _number(rate.value)
    return f"{_number(rate.value)} ({_number(rate.low)} to {_number(rate.high)})"
