"""The displayed table of the answers, for terminal and report; CSV files have the underlying rows with all digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.answers.of_user import HABITS, OTHERS
from sim.analysis.answers.places import is_resolved
from sim.analysis.answers.questions import (
    HOME,
    LINKED,
    LOCATED,
    PLACES,
    POSTERIOR,
    POSTERIOR_WITHIN,
    REPORTS,
    SINGLED_OUT,
    Questions,
)
from sim.analysis.answers.radii import RADII_KM, radius_text
from sim.analysis.answers.table import DELTA, STUDENT
from sim.analysis.statistics import INTERVAL, NONE, OWN_VALUES, SPREAD, are_few, metric_bounds
from sim.analysis.tables import Cell, Column, Row, is_missing, metric_column, spread_note

COARSE = "cells are coarser than the radius"
PRECISE_KM = 0.564
"""The one radius at which the default table shows the share of reports and the places found."""
NOT_REACHED = "not reached"
_OF_ANY_NUMBER = {HOME: "home", SINGLED_OUT: "singled out", LINKED: "weeks linked"}
_ENDS = ("_low", "_high")


def shown_answers(table: pd.DataFrame, questions: Questions) -> pd.DataFrame:
    """Return the rows to display, with the spread to show in `_low` and `_high`.

    Extremes over users replace Student's intervals for two to four users. With the default radii, the share of reports
    and the places found are shown at one radius, or the smallest one of the table if that is larger.
    """
    if questions.radii_km == RADII_KM:
        several = table["question"].isin([REPORTS, PLACES])
        table = table[~several | (table["radius_km"] == _one_radius(table))]
    table = table.reset_index(drop=True)
    student = table["interval"] == STUDENT
    sampled = student | (table["interval"] == DELTA)
    few = sampled & table["users"].map(are_few).astype(bool)
    alone = sampled & (table["users"] < 2)
    columns: dict[str, Any] = {SPREAD: np.where(few, OWN_VALUES, np.where(alone, NONE, INTERVAL))}
    for end, extreme in zip(_ENDS, ("smallest", "largest"), strict=True):
        own = table[f"share{end}"].mask(few, table[extreme].astype(float)).mask(alone)
        columns[f"share{end}"] = own.clip(*metric_bounds("share"))
        columns[f"excess{end}"] = table[f"excess{end}"].mask(few | alone)
    return table.assign(**columns)


def _one_radius(table: pd.DataFrame) -> float:
    radii = set(table["radius_km"].dropna().astype(float))
    return PRECISE_KM if PRECISE_KM in radii or not radii else min(radii)


def resolved_rows(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows within radii that the cells resolve, or the smallest of all, and a note on omitted radii.

    Within all radii below the side of a cell, answers are those of single cells, and so the same.
    """
    own = table["radius_km"].dropna()
    resolution = float(table["resolution_km"].max()) if len(table) else 0.0
    radii = sorted(set(own.astype(float)))
    shown = [radius for radius in radii if is_resolved(radius, resolution)] or radii[:1]
    omitted = [radius_text(radius) for radius in radii if radius not in shown]
    if not omitted:
        return table, ""
    note = f"Not shown: rows within {', '.join(omitted)}, which the cells do not resolve; answers.csv has them."
    return table[table["radius_km"].isna() | table["radius_km"].isin(shown)], note


def answer_columns(labels: Sequence[Column]) -> list[Column]:
    """Return the columns of the answers; `labels` name the mechanism, swept values and the attack."""
    return [
        Column("answer", lambda row: Cell(_TEXTS[row["question"]](row)), numeric=False, names_row=True),
        Column("within", _radius_cell, meaning="radius around the true place"),
        *labels,
        metric_column("success", "share", 2, meaning="share of queries, reports, places or users"),
        Column("no report", _control_cell, meaning="success of the best guess without any report, and what it is from"),
        _plain("by hour", "control_by_hour", "success of the same guess by the hour of the day"),
        _plain("random", "random", "success of a random guess"),
        metric_column("excess", "excess", 2, meaning="(success - no report) / (1 - no report)", signed=True),
        _plain("no LPPM", "without_protection", "success with the true places"),
        Column("days, median", _days_cell, meaning="days until the home of half of the users is known"),
        Column("users", lambda row: Cell(f"{row['users']:,.0f}", sort_key=row["users"])),
    ]


def displayed_rows(shown: pd.DataFrame) -> list[Row]:
    """Return the rows of `answer_columns` from a table of `shown_answers`."""
    return [dict(row) for row in shown.to_dict("records")]


def is_coarse(row: Row) -> bool:
    """Return whether the cells are coarser than the radius of a row."""
    return not is_missing(row["radius_km"]) and not is_resolved(row["radius_km"], row["resolution_km"])


_TEXTS: dict[str, Callable[[Row], str]] = {
    LOCATED: lambda _: "located",
    POSTERIOR: lambda _: "posterior at truth",
    POSTERIOR_WITHIN: lambda _: "posterior within",
    REPORTS: lambda _: "reports located",
    HOME: lambda row: f"home by day {row['day']:.0f}",
    PLACES: lambda row: f"top {row['places']:.0f} place{'' if row['places'] == 1 else 's'}",
    SINGLED_OUT: lambda row: f"singled out by top {row['places']:.0f}",
    LINKED: lambda _: "weeks linked",
}


def _radius_cell(row: Row) -> Cell:
    if is_missing(row["radius_km"]):
        return Cell(sort_key="")
    text = radius_text(row["radius_km"]).partition(" (")[0]
    return Cell(text, sort_key=f"{row['radius_km']:.6g}", mark=COARSE if is_coarse(row) else "")


def _control_cell(row: Row) -> Cell:
    if is_missing(row["control"]):
        return Cell(sort_key="")
    known = row["control_kind"] if row["control_kind"] in (OTHERS, HABITS) else ""
    return Cell(f"{row['control']:z.2f}", known, f"{row['control']:.6g}")


def _plain(heading: str, key: str, meaning: str) -> Column:
    def cell(row: Row) -> Cell:
        return Cell(sort_key="") if is_missing(row[key]) else Cell(f"{row[key]:z.2f}", sort_key=f"{row[key]:.6g}")

    return Column(heading, cell, meaning=meaning)


def _days_cell(row: Row) -> Cell:
    if is_missing(row["median_days"]):
        return Cell(sort_key="")
    value, low, high = (row[f"median_days{end}"] for end in ("", *_ENDS))
    around = "" if math.isinf(low) else f"[{_days(low)}, {_days(high)}]"
    return Cell(_days(value), around, "Infinity" if math.isinf(value) else f"{value:.6g}")


def _days(value: float) -> str:
    return NOT_REACHED if math.isinf(value) else f"{value:.0f}"


def _spread_note(shown: pd.DataFrame, spreads: list[str]) -> str:
    """Return the note on intervals: those of homes, unicity and linkage do not need a number of users."""
    others = [name for question, name in _OF_ANY_NUMBER.items() if question in set(shown["question"])]
    if spreads == [INTERVAL] or not others:
        return spread_note(spreads)
    named = " and ".join(filter(None, (", ".join(others[:-1]), others[-1])))
    return f"{named}: {spread_note([INTERVAL])}; other answers: {spread_note(spreads)}"


def answers_caption(shown: pd.DataFrame) -> str:
    """Return the caption of the table of answers."""
    sampled = shown[shown["interval"].isin([STUDENT, DELTA])]
    spreads = sorted(set(sampled[SPREAD])) if len(sampled) else [INTERVAL]
    coarse = any(is_coarse(row) for row in shown.to_dict("records"))
    return (
        "Success of each attack: share of queries located, of users whose home is known, of most visited places found, "
        "of users singled out by their most reported places and of second weeks linked to the first. No report: best "
        "guess from where other users go or, if the attack knows them, from the habits of the user; by hour: the same "
        "guess by the hour of the day. Excess risk = "
        f"(success - no report) / (1 - no report), empty if the guess always succeeds; {_spread_note(shown, spreads)}"
        + (f"; ! {COARSE}" if coarse else "")
    )
