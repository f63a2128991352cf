"""A run as pandas frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self, TypeVar

import pandas as pd

from sim.analysis import equal_loss_tables, metrics, ranking, smoothing_error
from sim.analysis.adaptation import BEFORE, RECOVERED, WINDOW, Adaptation
from sim.analysis.answers.home_exposure import Night
from sim.analysis.answers.of_run import Answers, answers
from sim.analysis.answers.questions import Questions
from sim.analysis.event_log import SERIES, log_parts
from sim.analysis.locations import locations
from sim.analysis.narrative import comparable
from sim.analysis.passes import FirstPass, SecondPass
from sim.analysis.replications import variance_ratio
from sim.analysis.services.specifications import read_specifications
from sim.analysis.services.table import ServiceLosses, service_losses
from sim.analysis.statistics import with_spread
from sim.analysis.summary import LOSS_AND_ERROR, Totals, per_user, preferred, tradeoff
from sim.analysis.sweep_labels import circumstances, in_order, with_distinct_names, with_swept_values
from sim.analysis.tournament import LEAST_ATTACKS, LEAST_LPPMS, common_loss_km, is_tournament, leads, standings
from sim.analysis.trajectories import TrajectoryCollector, output_space
from sim.analysis.user_batches import prior_error_note
from sim.analysis.user_blocks import UserBlocks
from sim.components.files import Place, data_folder
from sim.errors import input_errors
from sim.interfaces import OutputSpace
from sim.storage.errors import NotApplicable, RequestError
from sim.storage.event_schema import MEASURES
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory

T = TypeVar("T")
NIGHT = (22.0, 6.0, 0.0)
"""Default night: its start and end in hours, and local time minus the time of the queries."""
_BYTES_PER_ROW = 500
"""Approximate size of a row of the event log in a pandas frame, with its texts."""
_UNKNOWN_MEMORY_BYTES = 8_000_000_000


def memory_bytes() -> int:
    """Return the size of the memory of this machine; 8 GB if it is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN_MEMORY_BYTES


class Result:
    """A run, read from its directory, which may be a copy from another machine.

    Tables are computed on the first call and cached until the run has more parts. Loss is the quality loss Q-bar, error
    the adversary error P_AE, both in km. Rows are identified by ``point`` (of the sweep), ``lppm`` and ``attack``;
    columns that end in ``_low`` and ``_high`` are 95 % confidence intervals over users.
    """

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._cache: dict[str, tuple[object, Any]] = {}

    def _cached(self, name: str, make: Callable[[], T], *options: object) -> T:
        """Return a value from the cache, or compute it if parts or options have changed."""
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
    def open(cls, path: str | Path) -> Self:
        """Open the run in a directory, or under a URL."""
        return cls(RunDirectory.open(path))

    def frozen(self) -> Self:
        """Return a result limited to the parts that exist now, so that its tables agree while the run continues."""
        snapshot = copy(self)
        snapshot.run = self.run.frozen()
        return snapshot

    @property
    def path(self) -> Path:
        """Run directory; only for a run in a folder, not under a URL."""
        return self.run.path

    @property
    def manifest(self) -> RunManifest:
        """Manifest of the run: scenario, seed, versions, grid and roads."""
        return self.run.manifest()

    def events(self) -> pd.DataFrame:
        """Return the event log: one row per query and attack, or per window of queries with ``record: summary``.

        The page "Event log" of the documentation describes the columns. For a log that does not fit into memory, use
        `iter_events`, or read the files ``events/*.parquet`` of the run directory with polars, DuckDB or pyarrow.

        Raises
        ------
        RequestError
            If the frame would need more than half of the memory of this machine.
        """
        self._require_memory()
        return pd.concat(list(self.iter_events()), ignore_index=True)

    def iter_events(self) -> Iterator[pd.DataFrame]:
        """Yield the event log part by part, with one part in memory at a time; see `events`."""
        return (table.to_pandas() for table in self.run.tables())

    def _require_memory(self) -> None:
        """Reject a log whose rows do not fit into memory."""
        rows = sum(part.n_rows for part in log_parts(self.run))
        needed, available = rows * _BYTES_PER_ROW, memory_bytes()
        if needed > available / 2:
            raise RequestError(
                f"{self.run}: a frame of all {rows:,} rows of the log would need about {needed / 1e9:,.1f} GB of the "
                f"{available / 1e9:,.1f} GB of this machine. Use iter_events(), which yields the log part by part; "
                "`lppm-sim export --format parquet`, which needs little memory; or read events/*.parquet with DuckDB "
                "or polars.",
                code="log-too-large",
            )

    def output_space(self, lppm: str, point: int = 0) -> OutputSpace:
        """Return the meaning of a mechanism's outputs in the log.

        Parameters
        ----------
        lppm
            Name of the mechanism.
        point
            Sweep point.

        Returns
        -------
        OutputSpace
            ``cells(output)`` returns the cells that an output names: one, several or none.
        """
        return output_space(self.run, lppm, point)

    def locations(self, point: int = 0) -> pd.DataFrame:
        """Return the positions of the cells of the world at a sweep point.

        Returns
        -------
        DataFrame
            A row per ``cell`` with its centre: ``x_km`` and ``y_km``, in km east and north, and ``lat`` and ``lon``,
            NaN if the world has no latitudes and longitudes. Join it with `events` by ``cell`` or ``estimate``;
            `lppm-sim export --places` adds the positions of outputs, too.
        """
        return locations(self.manifest, point)

    def points(self) -> pd.DataFrame:
        """Return the sweep points: a row per ``point``, a column per swept path."""
        return self.run.read_csv("points.csv")

    def summary(self) -> pd.DataFrame:
        """Return mean quality loss and adversary error, with confidence intervals.

        Returns
        -------
        DataFrame
            A row per point, LPPM and attack: ``quality_loss_km``, ``adversary_error_km``, both also with the prefix
            ``expected_`` (means over the mechanism's noise, which have a smaller variance), each with ``_low`` and
            ``_high``; ``users``, ``queries``, ``replications``, and the swept values. Without the prefix, loss and
            error are realised values.
        """
        return self._cached("summary", lambda: tradeoff(self.run, self.totals())).copy()

    def totals(self) -> Totals:
        """Return the means of each user over replications (`users`), and the number of replications of each series."""
        return self._first_pass().totals

    def metrics(self) -> pd.DataFrame:
        """Return further metrics by point, LPPM and attack.

        Returns
        -------
        DataFrame
            Hit rate, entropy, epsilon and others, as far as they were recorded; the prefix ``own_`` marks values that
            hold under the mechanism's own model. Unlike in `summary`, ``quality_loss_km`` and ``adversary_error_km``
            are expected values where recorded. `sim.analysis.metrics.METRICS` describes each column.
        """
        return self._cached("metrics", self._metrics)

    def _metrics(self) -> pd.DataFrame:
        table = metrics.metrics(self.run, self.summary(), self._first_pass().metric_moments)
        return with_swept_values(table, self.points())

    def metric_notes(self) -> list[str]:
        """Return sentences on metrics that were not recorded, or only for some users."""
        moments = self._first_pass().metric_moments
        return [*metrics.unrecorded_metrics(self.metrics(), self.manifest), *metrics.sampled_predictions(moments)]

    def shown_summary(self) -> pd.DataFrame:
        """Return `summary` with the spread that tables and figures show (`sim.analysis.statistics.with_spread`)."""
        return with_spread(self.summary(), self.totals().users, MEASURES, SERIES)

    def shown_metrics(self) -> pd.DataFrame:
        """Return `metrics` with the spread that tables show (`sim.analysis.statistics.with_spread`)."""
        users = self.totals().users
        best = users[[*SERIES, "user"]].assign(**{name: preferred(users, name) for name in LOSS_AND_ERROR})
        own = best.merge(self._first_pass().user_metrics, on=[*SERIES, "user"], how="left", validate="one_to_one")
        times = self.summary()[[*SERIES, "replications"]]
        table = self.metrics().merge(times, on=SERIES, validate="one_to_one", suffixes=("_swept", ""))
        return with_spread(table, own, metrics.WITH_INTERVAL, SERIES)

    def shown_hindsight(self) -> pd.DataFrame:
        """Return `hindsight` with the spread that tables show (`sim.analysis.statistics.with_spread`)."""
        return with_spread(
            self.hindsight(), self._first_pass().user_smoothing_errors, smoothing_error.COLUMNS, [*SERIES, "lag"]
        )

    def answers(
        self, radii_km: Sequence[float] = (), places: Sequence[int] = (), night: tuple[float, float, float] = NIGHT
    ) -> Answers:
        """Return answers people understand: places located, homes known, users singled out and linked.

        Each stands beside control attacks, which guess without any report, with the excess risk over them.

        Parameters
        ----------
        radii_km
            Radii in km, in (0, inf). Default: 0.1, 0.5, 0.564 (1,850 ft) and 2.
        places
            Numbers N of most visited places, in [1, 100]. Default: 1, 2, 3 and 5.
        night
            Hours of the local day at which users are at home, from and until, and local time minus the time of the
            queries in hours.

        Returns
        -------
        Answers
            Frames ``table`` (a row per question, point, LPPM and attack) and ``home_exposure`` (homes known by day),
            and ``notes`` on what limits them.

        Raises
        ------
        NotApplicable
            If the log is a summary, which has no cells: set ``record: {log: queries}``.
        """
        with input_errors("answers"):
            questions = Questions.of(radii_km, places, Night(*night))
        return self._cached(f"answers {questions}", lambda: answers(self.run, questions))

    def services(
        self,
        services: Mapping[str, Any] | None = None,
        *,
        folder: str | Path = ".",
        data: str | Path | None = None,
    ) -> ServiceLosses:
        """Return what the reports cost the users of services: missing points, extra travel, wrong zones, changes.

        Parameters
        ----------
        services
            Names of services and their parameters: mappings as under `world.services` in a scenario. Default: the
            services of the scenario.
        folder, data
            Folder that the file names in `services` are relative to, and folder of the files named ``data:NAME``.

        Returns
        -------
        ServiceLosses
            Frame ``table`` (a row per service, point and LPPM), and ``notes`` on reports other than locations.

        Raises
        ------
        NotApplicable
            If the log is a summary, which has no cells: set ``record: {log: queries}``.
        RequestError
            If `services` is None and the scenario names none.
        """
        place = Place(Path(folder), data_folder(None if data is None else Path(data)))
        specs = None if services is None else read_specifications(services, place)
        with input_errors("services"):
            return self._cached("services", lambda: service_losses(self.run, specs, place), repr(specs), place)

    def shifts(self) -> pd.DataFrame:
        """Return the shifts in the behaviour of users: the name of each, the user, and the first query after it."""
        return self._first_pass().shifts

    def shift_times(self) -> pd.DataFrame:
        """Return the number of users and replications (``count``) in which each shift takes effect at each query."""
        return self._first_pass().shift_times

    def adaptation(
        self,
        *,
        window: int = WINDOW,
        recovered: float = RECOVERED,
        before: int = BEFORE,
        shift: str | None = None,
        at_km: float | None = None,
    ) -> Adaptation:
        """Return how mechanisms adapt to a shift in the behaviour of users.

        Efficiency is P_AE / Q-bar, of all users together, in windows of consecutive queries.

        Parameters
        ----------
        window
            Number of queries in a window.
        recovered
            Share of the efficiency before the shift at which a window counts as recovered, in (0, inf).
        before
            Number of queries before the shift that define the efficiency before it.
        shift
            Name of the shift. Default: the first one.
        at_km
            Quality loss before the shift, equal for all users and mechanisms: sums are interpolated between the swept
            values of each mechanism, for the users whose P0 before the shift is at least the loss.

        Returns
        -------
        Adaptation
            Frames `summary` (efficiency before and after, queries to recover), `users` and `time_series`.
        """
        options = {"window": window, "recovered": recovered, "before": before, "shift": shift, "at_km": at_km}
        default = tuple(options.values()) == (WINDOW, RECOVERED, BEFORE, None, None)
        if default and "second pass" in self._cache and not self.shifts().empty:
            return self._second_pass().adaptation()
        return self._cached("adaptation", lambda: self._first_pass().adaptation(**options), *options.values())

    def at_loss(
        self, losses_km: Sequence[float], *, against: str | None = None, ceiling: str | None = None
    ) -> pd.DataFrame:
        """Return the adversary error of each LPPM at equal quality loss.

        Compared are the users whose error without any report, P0, is at least the loss; this does not depend on the
        LPPMs. Errors are interpolated on the trade-off curve of each user, so an LPPM needs two or more losses: sweep
        one of its parameters. Beyond the ends of a curve, the error at the nearer end counts.

        Parameters
        ----------
        losses_km
            Quality losses in km.
        against
            LPPM that the others are compared with. Default: the first one.
        ceiling
            LPPM whose error is a ceiling: the column ``efficiency`` is ``error_km`` divided by its error.

        Returns
        -------
        DataFrame
            A row per loss, LPPM and attack: ``error_km`` and ``difference_km`` (LPPM minus `against`, paired by user)
            with confidence intervals, and the numbers of compared ``users`` and of those ``at_largest`` and
            ``at_smallest``, whose curve ends before the loss; ``smoothed_error_km`` and ``entropy_bits`` where
            recorded. ``p_value`` tests the difference, ``p_holm`` is adjusted for all differences of the table; NaN
            with fewer than five users. Values swept outside the mechanisms are in the column ``circumstances``; only
            LPPMs under the same circumstances are compared.
        """
        named = self.comparable_users()
        tables = [
            ranking.at_loss(named.where("circumstances", text), losses_km, against=against).assign(circumstances=text)
            for text in dict.fromkeys(named.series["circumstances"])
        ]
        joined = pd.concat(tables, ignore_index=True)[["circumstances", *ranking.AT_LOSS]]
        return equal_loss_tables.completed(joined, ceiling)

    def tournament(self, at_km: float | None = None) -> pd.DataFrame:
        """Return every LPPM against every attack at equal quality loss, ranked by the strongest attack.

        Parameters
        ----------
        at_km
            Quality loss in km. Default: a loss that most LPPMs reach.

        Returns
        -------
        DataFrame
            A row per LPPM, best protection first, with the error of each attack in a column of its name.

        Raises
        ------
        NotApplicable
            With fewer than three LPPMs or three attacks, and if anything but the mechanisms is swept; see
            `has_tournament`.
        """
        points, summary = self.points(), self.summary()
        if not is_tournament(summary):
            raise NotApplicable(
                f"{self.run}: a tournament needs at least {LEAST_LPPMS} LPPMs and {LEAST_ATTACKS} attacks. "
                "`summary` has the errors of all attacks.",
                code="no-tournament",
            )
        if any(circumstances(summary, points)):
            raise NotApplicable(
                f"{self.run}: LPPMs are ranked only if nothing but their parameters is swept. `summary` has the errors "
                "at each sweep point.",
                code="no-tournament",
            )
        return standings(with_distinct_names(in_order(summary, self.run), points), self.tournament_users(), at_km)

    def has_tournament(self) -> bool:
        """Return whether `tournament` applies to this run."""
        summary = self.summary()
        return is_tournament(summary) and not any(circumstances(summary, self.points()))

    def tournament_leads(self, table: pd.DataFrame) -> tuple[dict[str, tuple[float, float]], int]:
        """Return the lead of the first LPPM in a table of `tournament` over the others, see `tournament.leads`."""
        if table["rank"].isna().all():
            return {}, 0
        swept = common_loss_km(with_distinct_names(self.summary(), self.points())) is not None
        return leads(self.tournament_users(), table, swept=swept)

    def user_blocks(self) -> UserBlocks:
        """Return the means of all users by batch of replications (`sim.analysis.user_batches`), block by block."""
        return self._first_pass().user_blocks

    def tournament_users(self) -> UserBlocks:
        """Return `user_blocks` with distinct LPPM names."""
        points = self.points()
        return self.user_blocks().mapped(lambda block: with_distinct_names(block, points))

    def prior_error_note(self) -> str:
        """Return a sentence on the prior errors P0 of a log that does not record them; empty if it does."""
        return prior_error_note(self.run)

    def comparable_users(self) -> UserBlocks:
        """Return `user_blocks` in the order of the scenario, with distinct LPPM names and `circumstances`."""
        points = self.points()
        return self.user_blocks().mapped(lambda block: comparable(in_order(block, self.run), points))

    def sample_note(self) -> str:
        """Return which part of a large population the tables and figures of single users show; empty if all.

        Means and confidence intervals are always over all users.
        """
        totals = self.totals()
        if totals.moments is None:
            return ""
        largest = totals.users.groupby(SERIES)["user"].size().max()
        return "" if largest == totals.n_users else f"sample of {largest:,} of {totals.n_users:,} users"

    def per_user(self) -> pd.DataFrame:
        """Return the mean loss and error of each user in each replication.

        Raises
        ------
        RequestError
            If the log is too large for this machine, as in `events`.
        """
        self._require_memory()
        return per_user(self.run)

    def over_time(self) -> pd.DataFrame:
        """Return mean loss and error in windows of query indices, with confidence intervals."""
        return self._second_pass().over_time

    def user_series(self) -> pd.DataFrame:
        """Return loss and error of each user in windows of query indices, at the middle sweep point of each LPPM."""
        return self._second_pass().user_series

    def efficiency(self) -> pd.DataFrame:
        """Return P_AE / Q-bar of all users together in windows of query indices, with confidence intervals.

        At the middle sweep point of each LPPM.
        """
        return self._second_pass().efficiency

    def belief_distances(self) -> pd.DataFrame:
        """Return the distance of each user's learned profile from the true one at each snapshot.

        At the middle sweep point of each LPPM.
        """
        return self._second_pass().belief_distances()

    def mean_belief_distances(self) -> pd.DataFrame:
        """Return the mean over users of `belief_distances`, with confidence intervals."""
        return self._second_pass().mean_belief_distances()

    def trajectories(self) -> TrajectoryCollector:
        """Return true cells, outputs and estimates of the first replication, at the middle sweep point of each LPPM."""
        return self._second_pass().trajectories

    def notes(self) -> dict[str, dict[str, Any]]:
        """Return the notes of each part of the log: numerical fallbacks, certified gaps, detected changes."""
        return self._first_pass().notes

    def hindsight(self) -> pd.DataFrame:
        """Return the error of attacks that revise past estimates, P_AE(r, s) (`sim.analysis.smoothing_error`)."""
        return self._cached(
            "smoothing errors",
            lambda: smoothing_error.errors_over_users(self._first_pass().smoothing_moments),
        )

    def variance_ratio(self) -> pd.DataFrame:
        """Return the variance reduction of expected metrics compared with sampled ones.

        Returns
        -------
        DataFrame
            ``ratio``: variance over replications of the sampled mean, divided by that of the expected mean.
            ``removed_share``: share of the sampled mean's variance that the mechanism's current noise causes.
        """
        return variance_ratio(self.per_user())

    def __repr__(self) -> str:
        return f"Result({str(self.run)!r})"
