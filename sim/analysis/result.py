"""A finished run as pandas frames, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import pandas as pd

from sim.analysis import metrics, ranking
from sim.analysis import smoothing_error as past_error
from sim.analysis.adaptation import BEFORE, RECOVERED, WINDOW, Adaptation, adaptation
from sim.analysis.event_log import SERIES, read_shifts
from sim.analysis.replications import variance_ratio
from sim.analysis.smoothing_error import COLUMNS
from sim.analysis.statistics import with_spread
from sim.analysis.summary import LOSS_AND_ERROR, Totals, per_user, preferred, read_totals, tradeoff
from sim.analysis.sweep_labels import circumstances, in_order, named_apart, with_swept_values
from sim.analysis.time_series import output_space
from sim.analysis.tournament import STANDINGS, is_tournament, leads, standings
from sim.analysis.windows import read_over_time
from sim.interfaces import OutputSpace
from sim.storage.event_schema import MEASURES
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory


class Result:
    """What a run left on disk. Everything is read from there: a copy from another machine is as good."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._read: tuple[list[str], Totals] | None = None
        self._summary: tuple[list[str], pd.DataFrame] | None = None
        self._metrics: tuple[list[str], pd.DataFrame] | None = None
        self._metrics_of_users: tuple[list[str], pd.DataFrame] | None = None
        self._shifts: tuple[list[str], pd.DataFrame] | None = None
        self._courses: tuple[list[str], pd.DataFrame] | None = None
        self._past: tuple[list[str], pd.DataFrame] | None = None
        self._past_of_users: tuple[list[str], pd.DataFrame] | None = None
        self._adapted: tuple[Any, Adaptation] | None = None

    @classmethod
    def open(cls, path: str | Path) -> Result:
        """Open a run directory."""
        return cls(RunDirectory.open(path))

    def frozen(self) -> Result:
        """Return the same of the parts that are there now, so that tables agree while a run goes on."""
        found = copy(self)
        found.run = self.run.frozen()
        return found

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.run.path

    @property
    def manifest(self) -> RunManifest:
        """The scenario, seeds, versions, grid and roads of the run."""
        return self.run.manifest()

    def events(self) -> pd.DataFrame:
        """Return the event log: one row per query and attack."""
        return pd.concat([table.to_pandas() for table in self.run.tables()], ignore_index=True)

    def output_space(self, lppm: str, point: int = 0) -> OutputSpace:
        """Return what the outputs of a mechanism stand for in the log: `cells` tells which cells one names."""
        return output_space(self.run, lppm, point)

    def points(self) -> pd.DataFrame:
        """Return the sweep's points and their values."""
        return self.run.read_csv("points.csv")

    def summary(self) -> pd.DataFrame:
        """Return mean quality loss and adversary error, with intervals, by point, LPPM and attack, and swept values."""
        parts = self.run.parts()
        if self._summary is None or self._summary[0] != parts:
            self._summary = parts, tradeoff(self.run, self.totals())
        return self._summary[1].copy()

    def totals(self) -> Totals:
        """Return what one reading of the log leaves. It is read again only when parts have come or gone."""
        parts = self.run.parts()
        if self._read is None or self._read[0] != parts:
            self._read = parts, read_totals(self.run)
        return self._read[1]

    def metrics(self) -> pd.DataFrame:
        """Return more figures by point, LPPM and attack, and those promised under mechanisms' own models beside them.

        See `sim.analysis.metrics.METRICS` for what each says.
        """
        parts = self.run.parts()
        if self._metrics is None or self._metrics[0] != parts:
            found = metrics.metrics(self.run, self.summary(), self._user_metrics())
            self._metrics = parts, with_swept_values(found, self.points())
        return self._metrics[1]

    def _user_metrics(self) -> pd.DataFrame:
        parts = self.run.parts()
        if self._metrics_of_users is None or self._metrics_of_users[0] != parts:
            self._metrics_of_users = parts, metrics.of_users(self.run)
        return self._metrics_of_users[1]

    def shown_summary(self) -> pd.DataFrame:
        """Return `summary` with the spread that tables and figures show, see `sim.analysis.statistics.with_spread`."""
        return with_spread(self.summary(), self.totals().users, MEASURES, SERIES)

    def shown_metrics(self) -> pd.DataFrame:
        """Return `metrics` with the spread that tables show, see `sim.analysis.statistics.with_spread`."""
        users = self.totals().users
        best = users[[*SERIES, "user"]].assign(**{name: preferred(users, name) for name in LOSS_AND_ERROR})
        own = best.merge(self._user_metrics(), on=[*SERIES, "user"], how="left", validate="one_to_one")
        times = self.summary()[[*SERIES, "replications"]]
        table = self.metrics().merge(times, on=SERIES, validate="one_to_one", suffixes=("_swept", ""))
        return with_spread(table, own, metrics.WITH_INTERVAL, SERIES)

    def shown_hindsight(self) -> pd.DataFrame:
        """Return `hindsight` with the spread that tables show, see `sim.analysis.statistics.with_spread`."""
        return with_spread(self.hindsight(), self._user_hindsight(), COLUMNS, [*SERIES, "lag"])

    def shifts(self) -> pd.DataFrame:
        """Return the changes in users' lives, each once."""
        parts = self.run.parts()
        if self._shifts is None or self._shifts[0] != parts:
            self._shifts = parts, read_shifts(self.run)
        return self._shifts[1]

    def adaptation(
        self,
        *,
        window: int = WINDOW,
        recovered: float = RECOVERED,
        before: int = BEFORE,
        shift: str | None = None,
    ) -> Adaptation:
        """Return how mechanisms followed a shift, see `sim.analysis.adaptation`; the result is cached."""
        asked = (self.run.parts(), window, recovered, before, shift)
        if self._adapted is None or self._adapted[0] != asked:
            found = adaptation(self.run, window=window, recovered=recovered, before=before, shift=shift)
            self._adapted = asked, found
        return self._adapted[1]

    def at_loss(self, losses_km: Sequence[float], *, against: str | None = None) -> pd.DataFrame:
        """Return the adversary's error at some quality losses, with the paired difference to one LPPM.

        See `sim.analysis.ranking.at_loss`. What is swept outside the mechanisms is in a column `circumstances`: only
        LPPMs with the same are compared.
        """
        points, users = self.points(), in_order(self.totals().users, self.run)
        named = named_apart(users, points).assign(circumstances=circumstances(users, points))
        found = [
            ranking.at_loss(own, losses_km, against=against).assign(circumstances=text)
            for text, own in named.groupby("circumstances", sort=False)
        ]
        return pd.concat(found, ignore_index=True)[["circumstances", *ranking.AT_LOSS]]

    def tournament(self, at_km: float | None = None) -> pd.DataFrame:
        """Return every mechanism against every attack at equal quality loss, see `sim.analysis.tournament.standings`.

        Empty where there are too few of them, and where something else is swept than the mechanisms.
        """
        points, summary = self.points(), self.summary()
        if not is_tournament(summary) or any(circumstances(summary, points)):
            return pd.DataFrame(columns=STANDINGS)
        return standings(named_apart(in_order(summary, self.run), points), at_km)

    def tournament_leads(self, table: pd.DataFrame) -> tuple[dict[str, tuple[float, float]], int]:
        """Return by how much the first of a table of `tournament` leads the others (`tournament.leads`)."""
        points = self.points()
        if table["rank"].isna().all():
            return {}, 0
        summary, users = (named_apart(frame, points) for frame in (self.summary(), self.totals().users))
        return leads(summary, users, table)

    def per_user(self) -> pd.DataFrame:
        """Return the means of each user and replication."""
        return per_user(self.run)

    def over_time(self) -> pd.DataFrame:
        """Return loss and error by query index."""
        parts = self.run.parts()
        if self._courses is None or self._courses[0] != parts:
            self._courses = parts, read_over_time(self.run, extent=self.totals().extent)
        return self._courses[1]

    def hindsight(self) -> pd.DataFrame:
        """Return the error of adversaries who revise past estimates, P_AE(r, s); see `sim.analysis.smoothing_error`."""
        parts = self.run.parts()
        if self._past is None or self._past[0] != parts:
            self._past = parts, past_error.past_error(self.run, self._user_hindsight())
        return self._past[1]

    def _user_hindsight(self) -> pd.DataFrame:
        parts = self.run.parts()
        if self._past_of_users is None or self._past_of_users[0] != parts:
            self._past_of_users = parts, past_error.of_users(self.run)
        return self._past_of_users[1]

    def variance_ratio(self) -> pd.DataFrame:
        """Return how many times fewer replications the expected figures need than the sampled ones.

        `ratio` is the variance over replications of the sampled mean by that of the expected one; `removed_share`
        that of the difference between the two, the mechanism's current noise, by the former.
        """
        return variance_ratio(self.per_user())

    def __repr__(self) -> str:
        return f"Result({str(self.run)!r})"
