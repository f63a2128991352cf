"""The runs that a page shows, joined: mechanisms of several runs get names that tell them apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from sim.analysis.adaptation import OF_USER, Adaptation
from sim.analysis.event_log import SERIES
from sim.analysis.result import Result
from sim.analysis.statistics import with_spread
from sim.analysis.sweep_labels import circumstances, in_order, named_apart, swept_words
from sim.plots import COLOURS, LINES, MARKERS, looks, middle_points
from sim.scenario.sweep import SETTING
from sim.storage.errors import NotApplicable

OF_PEOPLE = SETTING - {"training", "markov_restart"}
"""The parts of a scenario that decide who its people are and what they do."""
_MOST_ATTACKS = 5
"""With more, a tournament's standings take the place of a sentence on each attack."""


@dataclass(frozen=True)
class Study:
    """Some runs, one unless they are compared.

    Its tables have the LPPMs in the order of the scenarios, named apart where they are of different runs or differ in
    something swept that is no number. Further columns: `run`, `own_lppm` (the name within the run), `circumstances`
    (what is swept outside the mechanisms) and `at` (all swept values), both in words.
    """

    results: Sequence[Result]

    @cached_property
    def names(self) -> list[str]:
        """A name for each run: of its scenario, or of their folders where several are compared."""
        if not self.compared:
            return [self.results[0].manifest.scenario.name]
        folders = [str(result.run).rstrip("/").rpartition("/")[2] for result in self.results]
        return [name if folders.count(name) == 1 else f"{name} {i}" for i, name in enumerate(folders, start=1)]

    @cached_property
    def people(self) -> dict[str, list[str]]:
        """The names of the runs by whom they are of: only with the same people can mechanisms be compared by user."""
        found: dict[str, list[str]] = {}
        for name, result in zip(self.names, self.results, strict=True):
            manifest = result.manifest
            settings = {key: value for key, value in manifest.recorded_scenario.items() if key in OF_PEOPLE}
            settings["users"] = {key: value for key, value in settings["users"].items() if key != "count"}
            found.setdefault(json.dumps([settings, manifest.files], sort_keys=True), []).append(name)
        return found

    @property
    def compared(self) -> bool:
        """Whether there are several runs."""
        return len(self.results) > 1

    @cached_property
    def units(self) -> str:
        """What intervals are over: users, or replications of a single one."""
        return "replications" if (self.summary["users"] == 1).all() else "users"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means and intervals by point, LPPM and attack."""
        return self.joined([result.shown_summary() for result in self.results])

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """More figures by point, LPPM and attack, and what mechanisms promised."""
        return self.joined([result.shown_metrics() for result in self.results])

    @cached_property
    def hindsight(self) -> pd.DataFrame:
        """The errors about past queries by point, LPPM, attack and lag; no rows where nobody came back to them."""
        return self.joined([result.shown_hindsight() for result in self.results])

    @cached_property
    def tournament(self) -> pd.DataFrame:
        """The standings, where so many attacks are tried that a sentence on each would be too much; else no rows."""
        (result, *others) = self.results
        if others or self.summary["attack"].nunique() <= _MOST_ATTACKS:
            return pd.DataFrame()
        return result.tournament()

    @cached_property
    def users(self) -> pd.DataFrame:
        """The means of each user."""
        return self.joined([result.totals().users for result in self.results])

    @cached_property
    def series(self) -> list[dict[str, Any]]:
        """What is drawn, in order, with numbers for colour, marker and line.

        Of several runs colour and marker tell the LPPM and the line tells the run.
        """
        different = self.summary.drop_duplicates("lppm")
        of_lppm = looks(different["own_lppm"] if self.compared else different["lppm"])
        found = []
        for row in different.to_dict("records"):
            look = of_lppm[row["own_lppm"] if self.compared else row["lppm"]]
            line = self.names.index(row["run"]) % len(LINES) if self.compared else LINES.index(look.line)
            numbers = [COLOURS.index(look.colour), MARKERS.index(look.marker), line]
            found.append({"name": row["lppm"], "look": numbers})
        return found

    @cached_property
    def adaptations(self) -> list[Adaptation | NotApplicable | None]:
        """How the mechanisms of each run followed its shift, or why that cannot be told; None where there was none."""
        found: list[Adaptation | NotApplicable | None] = []
        for result in self.results:
            try:
                found.append(None if result.shifts().empty else result.adaptation())
            except NotApplicable as error:
                found.append(error)
        return found

    def adapted(self, table: str) -> pd.DataFrame:
        """Return a table of the adaptations as one, the summary with the spread that is shown."""
        nothing = pd.DataFrame({"point": [], "lppm": [], "attack": []})
        return self.joined(
            [
                _table_of(found, table).assign(window=found.window, recovered=found.recovered)
                if isinstance(found, Adaptation)
                else nothing
                for found in self.adaptations
            ]
        )

    def joined(self, tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return tables, one of each run, as one."""
        frames = []
        for result, run, words, own in zip(self.results, self.names, self._words, tables, strict=True):
            table = in_order(own, result.run)
            said = [words[key] for key in zip(table["lppm"], table["point"], strict=True)]
            added = pd.DataFrame(said, columns=["lppm", "circumstances", "at"], index=table.index)
            frames.append(table.rename(columns={"lppm": "own_lppm"}).join(added).assign(run=run))
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def _words(self) -> list[dict[tuple[str, int], tuple[str, str, str]]]:
        """Of each run, by LPPM and point: what the LPPM is called here, the circumstances, and all swept values."""
        found = []
        for result, run in zip(self.results, self.names, strict=True):
            points, there = result.points(), result.totals().users[["lppm", "point"]].drop_duplicates()
            names = named_apart(there, points)["lppm"]
            called = [f"{name} ({run})" if self.compared else name for name in names]
            keys = there.itertuples(index=False, name=None)
            said = zip(called, circumstances(there, points), swept_words(there, points), strict=True)
            found.append(dict(zip(keys, said, strict=True)))
        return found

    def at_middle(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of each LPPM at the middle one of its sweep points."""
        return table[table["point"] == table["lppm"].map(middle_points(self.summary))]


def _table_of(found: Adaptation, table: str) -> pd.DataFrame:
    if table == "summary":
        return with_spread(found.summary, found.users, OF_USER, SERIES)
    own: pd.DataFrame = getattr(found, table)
    return own if len(own.columns) else pd.DataFrame({"point": [], "lppm": [], "attack": []})
