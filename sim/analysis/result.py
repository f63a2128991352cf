"""Results of a run as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from sim.analysis import metrics, ranking, smoothing_error
from sim.analysis.adaptation import BEFORE, RECOVERED, WINDOW, Adaptation, AdaptationCollector
from sim.analysis.event_log import SERIES
from sim.analysis.passes import FirstPass, SecondPass, read_once
from sim.analysis.replications import variance_ratio
from sim.analysis.statistics import with_spread
from sim.analysis.summary import LOSS_AND_ERROR, Totals, per_user, preferred, tradeoff
from sim.analysis.sweep_labels import circumstances, in_order, with_distinct_names, with_swept_values
from sim.analysis.tournament import STANDINGS, is_tournament, leads, standings
from sim.analysis.trajectories import TrajectoryCollector, output_space
from sim.interfaces import OutputSpace
from sim.storage.event_schema import MEASURES
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory

T = TypeVar("T")


class Result:
    """Results of a run directory. All data is read from disk, so a copy from another machine works too."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._cache: dict[str, tuple[object, Any]] = {}

    def _cached(self, name: str, make: Callable[[], T], *options: object) -> T:
        """Return the cached value for the same parts and options, or compute it with `make`."""
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
        """Return a copy restricted to the parts that exist now, so that tables agree while a run is in progress."""
        frozen = copy(self)
        frozen.run = self.run.frozen()
        return frozen

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.run.path

    @property
    def manifest(self) -> RunManifest:
        """The manifest: scenario, seeds, versions, grid and roads of the run."""
        return self.run.manifest()

    def events(self) -> pd.DataFrame:
        """Return the event log: one row per query and attack."""
        return pd.concat([table.to_pandas() for table in self.run.tables()], ignore_index=True)

    def output_space(self, lppm: str, point: int = 0) -> OutputSpace:
        """Return the output space of a mechanism; its method `cells` maps an output of the log to cells."""
        return output_space(self.run, lppm, point)

    def points(self) -> pd.DataFrame:
        """Return the sweep points: one row per point, one column per swept parameter."""
        return self.run.read_csv("points.csv")

    def summary(self) -> pd.DataFrame:
        """Return the table of `summary.csv`: mean quality loss and adversary error by point, LPPM and attack.

        Each mean has the limits `_low` and `_high` of a 95 % confidence interval. `quality_loss_km` and
        `adversary_error_km` are realised values, `expected_quality_loss_km` and `expected_adversary_error_km` the
        expected ones where recorded. The swept parameters are further columns. See `sim.analysis.summary.summarize`.
        """
        return self._cached("summary", lambda: tradeoff(self.run, self.totals())).copy()

    def totals(self) -> Totals:
        """Return the means by user. The log is read again only if its parts have changed."""
        return self._first_pass().totals

    def metrics(self) -> pd.DataFrame:
        """Return the table of `metrics.csv`: all metrics by point, LPPM and attack.

        It includes the metrics predicted under each mechanism's own model (`own_...`). Unlike in `summary`,
        `quality_loss_km` and `adversary_error_km` are expected values where recorded, otherwise realised values.
        `sim.analysis.metrics.METRICS` describes each column.
        """
        return self._cached("metrics", self._metrics)

    def _metrics(self) -> pd.DataFrame:
        table = metrics.metrics(self.run, self.summary(), self._first_pass().user_metrics)
        return with_swept_values(table, self.points())

    def shown_summary(self) -> pd.DataFrame:
        """Return `summary` with the spread that tables and figures show; see `sim.analysis.statistics.with_spread`."""
        return with_spread(self.summary(), self.totals().users, MEASURES, SERIES)

    def shown_metrics(self) -> pd.DataFrame:
        """Return `metrics` with the spread that tables show; see `sim.analysis.statistics.with_spread`."""
        users = self.totals().users
        best = users[[*SERIES, "user"]].assign(**{name: preferred(users, name) for name in LOSS_AND_ERROR})
        own = best.merge(self._first_pass().user_metrics, on=[*SERIES, "user"], how="left", validate="one_to_one")
        times = self.summary()[[*SERIES, "replications"]]
        table = self.metrics().merge(times, on=SERIES, validate="one_to_one", suffixes=("_swept", ""))
        return with_spread(table, own, metrics.WITH_INTERVAL, SERIES)

    def shown_hindsight(self) -> pd.DataFrame:
        """Return `hindsight` with the spread that tables show; see `sim.analysis.statistics.with_spread`."""
        users = self._first_pass().user_smoothing_errors
        return with_spread(self.hindsight(), users, smoothing_error.COLUMNS, [*SERIES, "lag"])

    def shifts(self) -> pd.DataFrame:
        """Return the behaviour shifts of the users; see `sim.analysis.event_log.read_shifts`."""
        return self._first_pass().shifts

    def adaptation(
        self,
        *,
        window: int = WINDOW,
        recovered: float = RECOVERED,
        before: int = BEFORE,
        shift: str | None = None,
    ) -> Adaptation:
        """Return the adaptation of the mechanisms to a shift; see `sim.analysis.adaptation`. The result is cached."""
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
        """Return the adversary error at given quality losses, with the paired difference from the LPPM `against`.

        See `sim.analysis.ranking.at_loss`. The column `circumstances` has the swept parameters outside the mechanisms;
        only LPPMs with the same value are compared.
        """
        points, users = self.points(), in_order(self.totals().users, self.run)
        named = with_distinct_names(users, points).assign(circumstances=circumstances(users, points))
        tables = [
            ranking.at_loss(own, losses_km, against=against).assign(circumstances=text)
            for text, own in named.groupby("circumstances", sort=False)
        ]
        return pd.concat(tables, ignore_index=True)[["circumstances", *ranking.AT_LOSS]]

    def tournament(self, at_km: float | None = None) -> pd.DataFrame:
        """Return the standings of all mechanisms against all attacks at equal quality loss.

        See `sim.analysis.tournament.standings`. The table is empty with fewer than three mechanisms or three attacks,
        and if a parameter outside the mechanisms is swept.
        """
        points, summary = self.points(), self.summary()
        if not is_tournament(summary) or any(circumstances(summary, points)):
            return pd.DataFrame(columns=STANDINGS)
        return standings(with_distinct_names(in_order(summary, self.run), points), at_km)

    def tournament_leads(self, table: pd.DataFrame) -> tuple[dict[str, tuple[float, float]], int]:
        """Return the leads of the first mechanism in a table of `tournament`; see `sim.analysis.tournament.leads`."""
        points = self.points()
        if table["rank"].isna().all():
            return {}, 0
        summary, users = (with_distinct_names(frame, points) for frame in (self.summary(), self.totals().users))
        return leads(summary, users, table)

    def per_user(self) -> pd.DataFrame:
        """Return the mean of each measure by user and replication; see `sim.analysis.summary.per_user`."""
        return per_user(self.run)

    def over_time(self) -> pd.DataFrame:
        """Return the time series of loss and error by window of query indices, with confidence intervals."""
        return self._second_pass().over_time

    def user_series(self) -> pd.DataFrame:
        """Return the time series of loss and error of each user, at the middle sweep points."""
        return self._second_pass().user_series

    def belief_distances(self) -> pd.DataFrame:
        """Return the distance of the believed from the true profile by user and query, at the middle sweep points."""
        return self._second_pass().belief_distances()

    def trajectories(self) -> TrajectoryCollector:
        """Return the trajectories in the first replication, at the middle sweep points."""
        return self._second_pass().trajectories

    def notes(self) -> dict[str, dict[str, Any]]:
        """Return the notes of each part of the log, such as counts of fallbacks."""
        return self._first_pass().notes

    def hindsight(self) -> pd.DataFrame:
        """Return the error of revised estimates of past queries, P_AE(r, s); see `sim.analysis.smoothing_error`."""
        users = self._first_pass().user_smoothing_errors
        return self._cached("smoothing errors", lambda: smoothing_error.smoothing_errors(self.run, users))

    def variance_ratio(self) -> pd.DataFrame:
        """Return the factor by which expected metrics reduce the number of replications.

        See `sim.analysis.replications.variance_ratio`.
        """
        return variance_ratio(self.per_user())

    def __repr__(self) -> str:
        return f"Result({str(self.run)!r})"
