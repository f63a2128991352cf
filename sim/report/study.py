"""Study: the joined runs of a page, with distinct names for the mechanisms of several runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from sim.analysis.adaptation import OF_USER, Adaptation
from sim.analysis.event_log import SERIES
from sim.analysis.result import Result
from sim.analysis.statistics import with_spread
from sim.analysis.sweep_labels import circumstances, in_order, swept_words, with_distinct_names
from sim.analysis.user_batches import read_user_batches
from sim.analysis.user_blocks import UserBlocks, aligned_blocks, rows_per_user
from sim.plots import COLOURS, LINES, MARKERS, looks, middle_points
from sim.scenario.sweep import SETTING
from sim.storage.errors import NotApplicable

OF_USERS = SETTING - {"training", "markov_restart"}
"""Sections of a scenario that determine its users and their movements."""
_MOST_ATTACKS = 5
"""Number of attacks above which standings replace a sentence on each attack."""


@dataclass(frozen=True)
class Study:
    """One run, or several compared runs.

    Its tables have the LPPMs in the order of the scenarios, with distinct names for different runs and for swept
    non-numeric parameters. Further columns: `run`, `own_lppm` (the name within the run), and the labels `circumstances`
    (swept values outside the mechanisms) and `at` (all swept values).
    """

    results: Sequence[Result]

    @cached_property
    def names(self) -> list[str]:
        """Names of the runs: the scenario name of a single run, directory names of several."""
        if not self.compared:
            return [self.results[0].manifest.scenario.name]
        folders = [str(result.run).rstrip("/").rpartition("/")[2] for result in self.results]
        return [name if folders.count(name) == 1 else f"{name} {i}" for i, name in enumerate(folders, start=1)]

    @cached_property
    def user_groups(self) -> dict[str, list[str]]:
        """Names of the runs, grouped by equal users; only within a group can mechanisms be compared by user."""
        groups: dict[str, list[str]] = {}
        for name, result in zip(self.names, self.results, strict=True):
            manifest = result.manifest
            settings = {key: value for key, value in manifest.recorded_scenario.items() if key in OF_USERS}
            settings["users"] = {key: value for key, value in settings["users"].items() if key != "count"}
            groups.setdefault(json.dumps([settings, manifest.files], sort_keys=True), []).append(name)
        return groups

    @property
    def compared(self) -> bool:
        """Whether there are several runs."""
        return len(self.results) > 1

    @cached_property
    def units(self) -> str:
        """Units of the confidence intervals: users, or replications of a single user."""
        return "replications" if (self.summary["users"] == 1).all() else "users"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means and confidence intervals by point, LPPM and attack."""
        return self.joined([result.shown_summary() for result in self.results])

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Further metrics by point, LPPM and attack, with those predicted by the mechanisms' own models."""
        return self.joined([result.shown_metrics() for result in self.results])

    @cached_property
    def hindsight(self) -> pd.DataFrame:
        """Smoothing errors by point, LPPM, attack and lag; no rows if no attack revises its estimates."""
        return self.joined([result.shown_hindsight() for result in self.results])

    @cached_property
    def tournament(self) -> pd.DataFrame:
        """Standings, if there are too many attacks for a sentence on each; otherwise no rows."""
        (result, *others) = self.results
        if others or self.summary["attack"].nunique() <= _MOST_ATTACKS:
            return pd.DataFrame()
        return result.tournament() if result.has_tournament() else pd.DataFrame()

    @cached_property
    def users(self) -> pd.DataFrame:
        """Means of each user, of a large population those of a sample."""
        return self.joined([result.totals().users for result in self.results])

    def compared_users(self, runs: Sequence[str]) -> UserBlocks:
        """Return the means of the users that some runs have in common by batch of replications, block by block."""
        numbers = [self.names.index(name) for name in runs]
        own = [self.results[number] for number in numbers]
        rows = [rows_per_user(result.manifest.scenario) for result in own]
        series = pd.concat([self._labelled(number, self.results[number].totals().series) for number in numbers])
        blocks = aligned_blocks([result.run.parts() for result in own], rows)

        def read() -> Iterator[pd.DataFrame]:
            for group in blocks:
                tables = [
                    self._labelled(number, self._users_in(number, parts, only=len(blocks) == 1))
                    for number, parts in zip(numbers, group, strict=True)
                    if parts
                ]
                joined = pd.concat(tables, ignore_index=True)
                yield joined[joined.groupby("user")["run"].transform("nunique") == len(runs)]

        return UserBlocks(series.drop_duplicates(["run", *SERIES]), read, len(blocks))

    def _users_in(self, number: int, parts: Sequence[str], *, only: bool) -> pd.DataFrame:
        """Return the means of the users in some parts of a run; `only` if these are all parts."""
        result = self.results[number]
        blocks = result.user_blocks()
        if only and blocks.n_blocks == 1:
            return next(iter(blocks))
        return read_user_batches(result.run, parts)

    @cached_property
    def series(self) -> list[dict[str, Any]]:
        """Drawn series in order, with the positions of their colour, marker and line style.

        For several runs, colour and marker stand for the LPPM, the line style for the run.
        """
        distinct = self.summary.drop_duplicates("lppm")
        of_lppm = looks(distinct["own_lppm"] if self.compared else distinct["lppm"])
        series = []
        for row in distinct.to_dict("records"):
            look = of_lppm[row["own_lppm"] if self.compared else row["lppm"]]
            line = self.names.index(row["run"]) % len(LINES) if self.compared else LINES.index(look.line)
            numbers = [COLOURS.index(look.colour), MARKERS.index(look.marker), line]
            series.append({"name": row["lppm"], "look": numbers})
        return series

    @cached_property
    def adaptations(self) -> list[Adaptation | NotApplicable | None]:
        """Adaptation of each run, or the error why it does not apply; None for runs without a shift."""
        adaptations: list[Adaptation | NotApplicable | None] = []
        for result in self.results:
            try:
                adaptations.append(None if result.shifts().empty else result.adaptation())
            except NotApplicable as error:
                adaptations.append(error)
        return adaptations

    def adapted(self, table: str) -> pd.DataFrame:
        """Return the joined tables of this name of all adaptations; the summary has the displayed spread."""
        nothing = pd.DataFrame({"point": [], "lppm": [], "attack": []})
        return self.joined(
            [
                _table_of(adaptation, table).assign(window=adaptation.window, recovered=adaptation.recovered)
                if isinstance(adaptation, Adaptation)
                else nothing
                for adaptation in self.adaptations
            ]
        )

    def joined(self, tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Concatenate tables, one of each run, and add the columns of the study."""
        return pd.concat(
            [self._labelled(number, own) for number, own in enumerate(tables)],
            ignore_index=True,
        )

    def _labelled(self, number: int, own: pd.DataFrame) -> pd.DataFrame:
        """Return a table of one run with the columns of the study."""
        table, labels = in_order(own, self.results[number].run), self._labels[number]
        rows = [labels[key] for key in zip(table["lppm"], table["point"], strict=True)]
        added = pd.DataFrame(rows, columns=["lppm", "circumstances", "at"], index=table.index)
        return table.rename(columns={"lppm": "own_lppm"}).join(added).assign(run=self.names[number])

    @cached_property
    def _labels(self) -> list[dict[tuple[str, int], tuple[str, str, str]]]:
        """For each run, by LPPM and point: the distinct LPPM name, the circumstances, and all swept values."""
        labels = []
        for result, run in zip(self.results, self.names, strict=True):
            points, pairs = result.points(), result.totals().series[["lppm", "point"]].drop_duplicates()
            names = with_distinct_names(pairs, points)["lppm"]
            names_here = [f"{name} ({run})" if self.compared else name for name in names]
            keys = pairs.itertuples(index=False, name=None)
            values = zip(names_here, circumstances(pairs, points), swept_words(pairs, points), strict=True)
            labels.append(dict(zip(keys, values, strict=True)))
        return labels

    def at_middle(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of each LPPM at its middle sweep point."""
        return table[table["point"] == table["lppm"].map(middle_points(self.summary))]


def _table_of(adaptation: Adaptation, table: str) -> pd.DataFrame:
    if table == "summary":
        return with_spread(adaptation.summary, adaptation.users, OF_USER, SERIES)
    own: pd.DataFrame = getattr(adaptation, table)
    return own if len(own.columns) else pd.DataFrame({"point": [], "lppm": [], "attack": []})
