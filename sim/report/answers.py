"""Section of the page with answers people understand: table, homes known over days, located shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from sim.analysis.answers.of_run import Answers
from sim.analysis.answers.places import is_resolved
from sim.analysis.answers.questions import LOCATED, Questions
from sim.analysis.answers.radii import radius_text
from sim.analysis.answers.shown import COARSE, answer_columns, answers_caption, displayed_rows, shown_answers
from sim.analysis.result import Result
from sim.analysis.statistics import INTERVAL, SPREAD
from sim.analysis.tables import Table, lppm_column, text_column
from sim.plots.answers import drawn_radius
from sim.report.markup import Markup, bulleted, joined
from sim.report.study import Study
from sim.report.tables import html_table
from sim.storage.errors import NotApplicable

MOST_SIMULATED = 1_000
"""Largest number of simulated users and series for which a page has answers; each takes some milliseconds."""


class StudyAnswers:
    """Answers about the runs of a page, or reasons why there are none."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._answers: list[Answers | str] = [_answers_or_reason(result) for result in study.results]
        self._table, self._home = (self._joined(name) for name in ("table", "home_exposure"))

    def _joined(self, name: str) -> pd.DataFrame:
        nothing = pd.DataFrame({"point": [], "lppm": [], "attack": []})
        tables = [nothing if isinstance(own, str) else getattr(own, name) for own in self._answers]
        return self._study.joined([nothing if table.empty else table for table in tables])

    def table(self) -> Markup:
        """Return the table of answers with notes."""
        notes = bulleted(self._notes(), "notes")
        if self._table.empty:
            return notes
        shown = shown_answers(self._table, Questions())
        labels = [lppm_column(), *(text_column(_LABELS[name], name) for name in _LABELS if shown[name].nunique() > 1)]
        table = Table(answer_columns(labels), displayed_rows(shown), f"{answers_caption(shown)}.")
        return joined([html_table(table), notes])

    def _notes(self) -> Iterator[str]:
        for name, own in zip(self._study.names, self._answers, strict=True):
            for note in [own] if isinstance(own, str) else own.notes:
                yield f"{name}: {note}" if self._study.compared else note

    def _homes_notes(self) -> Iterator[str]:
        for name, own in zip(self._study.names, self._answers, strict=True):
            if not isinstance(own, str) and own.homes_note:
                note = own.homes_note.rstrip(".")
                yield f"{name}: {note}" if self._study.compared else note

    def homes(self) -> list[tuple[str, str, pd.DataFrame]]:
        """Return the panels of homes known over days: title, note on the radius, and rows with days as steps."""
        if self._home.empty:
            return []
        home = self._home[self._home["radius_km"] == drawn_radius(self._home)]
        drawn = self._study.at_middle(home)
        resolution = self._table["resolution_km"].max()
        radius = float(drawn["radius_km"].iloc[0])
        note = f"home known within {radius_text(radius)}" + ("" if is_resolved(radius, resolution) else f"; {COARSE}")
        note = "; ".join([note, *dict.fromkeys(self._homes_notes())])
        return [(_title(attack, rows), note, rows) for attack, rows in drawn.groupby("attack", sort=False)]

    def located(self) -> list[tuple[str, pd.DataFrame]]:
        """Return the panels of the share of located queries by radius: title and rows."""
        if self._table.empty:
            return []
        shown = shown_answers(self._table[self._table["question"] == LOCATED], Questions())
        few = shown[SPREAD] != INTERVAL
        ends = {f"share{end}": shown[f"share{end}"].mask(few) for end in ("_low", "_high")}
        drawn = self._study.at_middle(shown.assign(**ends).sort_values("radius_km", kind="stable"))
        return [(f"against {attack}", rows) for attack, rows in drawn.groupby("attack", sort=False)]


_LABELS = {"at": "swept values", "attack": "attack"}


def _title(attack: Any, rows: pd.DataFrame) -> str:
    controls = [
        f"{text} {rows[name].mean():.2f}"
        for name, text in (("control", "no report"), ("random", "random"))
        if rows[name].notna().any()
    ]
    return f"against {attack} ({', '.join(controls)})" if controls else f"against {attack}"


def steps(curve: pd.DataFrame) -> pd.DataFrame:
    """Return a curve with two rows for each day: the share before and after.

    >>> steps(pd.DataFrame({"day": [0, 2], "known": [0.0, 0.5]}))[["day", "known"]].values.tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 0.5]]
    """
    before = curve.shift().iloc[1:].assign(day=curve["day"].iloc[1:])
    return pd.concat([before, curve]).sort_index(kind="stable").sort_values("day", kind="stable")


def _answers_or_reason(result: Result) -> Answers | str:
    """Return the answers about a run, or why the page has none."""
    totals = result.totals()
    simulated = totals.n_users * int(totals.replications.sum())
    if simulated > MOST_SIMULATED:
        return f"Answers about {simulated:,} simulated users take a while: `lppm-sim answers {result.run}` writes them."
    try:
        return result.answers()
    except NotApplicable as error:
        return str(error)
