"""A finished run as pandas frames, for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from sim.analysis import metrics, ranking
from sim.analysis import smoothing_error as past_error
from sim.analysis.adaptation import BEFORE, RECOVERED, WINDOW, Adaptation, AdaptationCollector
from sim.analysis.event_log import SERIES
from sim.analysis.passes import FirstPass, SecondPass, read_once
from sim.analysis.replications import variance_ratio
from sim.analysis.smoothing_error import COLUMNS
from sim.analysis.statistics import with_spread
from sim.analysis.summary import LOSS_AND_ERROR, Totals, per_user, preferred, tradeoff
from sim.analysis.sweep_labels import circumstances, in_order, named_apart, with_swept_values
from sim.analysis.tournament import STANDINGS, is_tournament, leads, standings
from sim.analysis.trajectories import TrajectoryCollector, output_space
from sim.interfaces import OutputSpace
from sim.storage.event_schema import MEASURES
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory

T = TypeVar("T")


class Result:
    """What a run left on disk. Everything is read from there: a copy from another machine is as good."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._cache: dict[str, tuple[object, Any]] = {}

    def _cached(self, name: str, make: Callable[[], T], *options: object) -> T:
        """Return what was made of the same parts with the same options, or make it."""
        key = (self.run.parts(), options)
        if name not in self._cache or self._cache[name][0] != key:
            self._cache[name] = key, make()
        value: T = self._cache[name][1]
        return value

    def _first_pass(self) -> FirstPass:
        return self._cached("first pass", lambda: FirstPass(self.run))

    def _second_pass(self) -> SecondPass:
        return self._cached("second pass", lambda: SecondPass(self.run, self._first_pass()))

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
        return self._cached("summary", lambda: tradeoff(self.run, self.totals())).copy()

    def totals(self) -> Totals:
        """Return what one reading of the log leaves. It is read again only when parts have come or gone."""
        return self._first_pass().totals

    def metrics(self) -> pd.DataFrame:
        """Return more figures by point, LPPM and attack, and those promised under mechanisms' own models beside them.

        See `sim.analysis.metrics.METRICS` for what each says.
        """
        return self._cached("metrics", self._metrics)

    def _metrics(self) -> pd.DataFrame:
        table = metrics.metrics(self.run, self.summary(), self._first_pass().user_metrics)
        return with_swept_values(table, self.points())

    def shown_summary(self) -> pd.DataFrame:
        """Return `summary` with the spread that tables and figures show, see `sim.analysis.statistics.with_spread`."""
        return with_spread(self.summary(), self.totals().users, MEASURES, SERIES)

    def shown_metrics(self) -> pd.DataFrame:
        """Return `metrics` with the spread that tables show, see `sim.analysis.statistics.with_spread`."""
        users = self.totals().users
        best = users[[*SERIES, "user"]].assign(**{name: preferred(users, name) for name in LOSS_AND_ERROR})
        own = best.merge(self._first_pass().user_metrics, on=[*SERIES, "user"], how="left", validate="one_to_one")
        times = self.summary()[[*SERIES, "replications"]]
        table = self.metrics().merge(times, on=SERIES, validate="one_to_one", suffixes=("_swept", ""))
        return with_spread(table, own, metrics.WITH_INTERVAL, SERIES)

    def shown_hindsight(self) -> pd.DataFrame:
        """Return `hindsight` with the spread that tables show, see `sim.analysis.statistics.with_spread`."""
        return with_spread(self.hindsight(), self._first_pass().user_past_errors, COLUMNS, [*SERIES, "lag"])

    def shifts(self) -> pd.DataFrame:
        """Return the changes in users' lives, each once."""
        return self._first_pass().shifts

    def adaptation(
        self,
        *,
        window: int = WINDOW,
        recovered: float = RECOVERED,
        before: int = BEFORE,
        shift: str | None = None,
    ) -> Adaptation:
        """Return how mechanisms followed a shift, see `sim.analysis.adaptation`; the result is cached."""
        options = {"window": window, "recovered": recovered, "before": before, "shift": shift}
        default = tuple(options.values()) == (WINDOW, RECOVERED, BEFORE, None)
        if default and "second pass" in self._cache and not self.shifts().empty:
            return self._second_pass().adaptation()
        return self._cached("adaptation", lambda: self._read_adaptation(**options), *options.values())

    def _read_adaptation(self, **options: Any) -> Adaptation:
        collector = AdaptationCollector(self.run, self.shifts(), **options)
        read_once(self.run, [collector])
        return collector.adaptation()

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
        return self._second_pass().over_time

    def user_series(self) -> pd.DataFrame:
        """Return loss and error of each user by query index, at the middle sweep points."""
        return self._second_pass().user_series

    def belief_distances(self) -> pd.DataFrame:
        """Return the distance of each user's believed profile from the true one, at the middle sweep points."""
        return self._second_pass().belief_distances()

    def trajectories(self) -> TrajectoryCollector:
        """Return trajectories in the first replication, at the middle sweep points."""
        return self._second_pass().trajectories

    def notes(self) -> dict[str, dict[str, Any]]:
        """Return the notes of each part."""
        return self._first_pass().notes

    def hindsight(self) -> pd.DataFrame:
        """Return the error of adversaries who revise past estimates, P_AE(r, s); see `sim.analysis.smoothing_error`."""
        return self._cached("past errors", lambda: past_error.past_error(self.run, self._first_pass().user_past_errors))

    def variance_ratio(self) -> pd.DataFrame:
        """Return how many times fewer replications the expected figures need than the sampled ones.

        `ratio` is the variance over replications of the sampled mean by that of the expected one; `removed_share`
        that of the difference between the two, the mechanism's current noise, by the former.
        """
        return variance_ratio(self.per_user())

    def __repr__(self) -> str:
        return f"Result({str(self.run)!r})"
