"""The two passes over the event log that provide all tables, figures and the report of a run.

The first pass collects sums by user, smoothing errors, shifts and notes. The second depends on results of the first:
windows of queries on the highest index, adaptation on the shifts, trajectories on the middle sweep points.

A log that is cut into blocks of users (`sim.analysis.user_blocks`) is read block by block. Each block is reduced to
moments over its users, which are merged, and to the rows of a sample of users.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Protocol

import pandas as pd

from sim.analysis import metrics, smoothing_error
from sim.analysis.adaptation import Adaptation, AdaptationCollector
from sim.analysis.adaptation_blocks import AdaptedBlocks
from sim.analysis.beliefs import BeliefCollector, distance_over_users
from sim.analysis.event_log import (
    SERIES,
    SHIFT_TIMES,
    GroupSums,
    LogPart,
    ShiftCollector,
    log_parts,
    require_parts,
    shift_times,
)
from sim.analysis.metrics import MetricsCollector
from sim.analysis.moments import Moments, add_moments
from sim.analysis.replication_effect import ReplicationMoments
from sim.analysis.smoothing_error import SmoothingErrorCollector
from sim.analysis.summary import Totals, TotalsCollector, user_moments
from sim.analysis.sweep_labels import with_distinct_names
from sim.analysis.time_series import EfficiencyMoments, efficiency_time_series, middle, user_series_of
from sim.analysis.trajectories import TrajectoryCollector, users_to_replay
from sim.analysis.user_batches import completed, read_user_batches
from sim.analysis.user_blocks import UserBlocks, rows_per_user, user_blocks
from sim.analysis.user_samples import PointSamples, SampledRows
from sim.analysis.windows import BY_WINDOW, WINDOW_KEYS, over_time_of, window_ends, window_moments, with_window
from sim.interfaces import IntArray
from sim.storage.errors import NotApplicable
from sim.storage.run_directory import RunDirectory


class Collector(Protocol):
    """Object that collects data from the parts of a log; each part is opened once for all collectors."""

    def add(self, part: LogPart) -> None:
        """Add a part of the log."""


def read_once(run: RunDirectory, collectors: Iterable[Collector], parts: Sequence[str] | None = None) -> None:
    """Open each part of a run (default: all parts) once, for all collectors."""
    for part in log_parts(run, parts):
        for collector in collectors:
            collector.add(part)


class _FirstBlock:
    """Results of the first pass over the parts of a block of users."""

    def __init__(self, run: RunDirectory, parts: Sequence[str]) -> None:
        self._totals, self._metrics, self._shifts = TotalsCollector(), MetricsCollector(), ShiftCollector()
        self._smoothing_errors = SmoothingErrorCollector(run.manifest().scenario)
        self._run, self._parts = run, parts
        notes = _NotesCollector()
        read_once(run, [self._totals, self._metrics, self._shifts, self._smoothing_errors, notes], parts)
        self.notes = notes.notes

    @cached_property
    def totals(self) -> Totals:
        return self._totals.totals()

    @cached_property
    def user_metrics(self) -> pd.DataFrame:
        return self._metrics.of_users()

    @cached_property
    def metric_moments(self) -> Moments:
        return metrics.metric_moments(self.user_metrics)

    @cached_property
    def user_smoothing_errors(self) -> pd.DataFrame:
        return self._smoothing_errors.of_users()

    @cached_property
    def user_batches(self) -> pd.DataFrame:
        return completed(self.totals.batches, self.user_smoothing_errors, self._run, self._parts)

    @cached_property
    def smoothing_moments(self) -> Moments | None:
        return smoothing_error.smoothing_moments(self.user_smoothing_errors)

    @cached_property
    def shifts(self) -> pd.DataFrame:
        return self._shifts.shifts()

    @cached_property
    def shift_times(self) -> pd.DataFrame:
        return shift_times(self.shifts)


class _MergedBlocks:
    """Results of the first pass, merged from several blocks of users; rows of users are those of a sample."""

    def __init__(self, run: RunDirectory, blocks: Sequence[Sequence[str]]) -> None:
        samples = PointSamples()
        users, user_metrics, smoothing, shifts = (SampledRows(samples) for _ in range(4))
        moments: Moments | None = None
        effects: ReplicationMoments | None = None
        metric_moments: Moments | None = None
        self.smoothing_moments: Moments | None = None
        self.notes: dict[str, dict[str, Any]] = {}
        self.shift_times = pd.DataFrame(columns=[*SHIFT_TIMES, "count"])
        totals: Totals | None = None
        for parts in blocks:
            block = _FirstBlock(run, parts)
            samples.add(block.totals.users)
            users.add(block.totals.users)
            user_metrics.add(block.user_metrics)
            smoothing.add(block.user_smoothing_errors)
            shifts.add(block.shifts)
            moments = add_moments(moments, user_moments(block.totals.users))
            own = block.totals.over_replications
            effects = own if effects is None else effects.merged(own)
            metric_moments = add_moments(metric_moments, block.metric_moments)
            if block.smoothing_moments is not None:
                self.smoothing_moments = add_moments(self.smoothing_moments, block.smoothing_moments)
            self.shift_times = _added_times(self.shift_times, block.shift_times)
            totals = block.totals if totals is None else _merged_counts(totals, block.totals)
            self.notes |= block.notes
        assert totals is not None
        assert metric_moments is not None
        self.metric_moments = metric_moments
        self.totals = replace(totals, users=users.rows(*SERIES, "user"), moments=moments, effects=effects)
        self.user_metrics = user_metrics.rows(*SERIES, "user")
        self.user_smoothing_errors = smoothing.rows(*SERIES, "lag", "user")
        self.shifts = shifts.rows("point", "replication", "user", "index")


def _merged_counts(one: Totals, other: Totals) -> Totals:
    """Return totals with the extent of both, and the larger number of replications."""
    replications = pd.concat([one.replications, other.replications]).groupby(level=SERIES).max()
    return Totals(other.users, replications, one.extent.union(other.extent))


def _added_times(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    both = [table for table in (one, other) if len(table)]
    return pd.concat(both).groupby(SHIFT_TIMES, sort=False)["count"].sum().reset_index() if both else one


class FirstPass:
    """Totals, metrics, smoothing errors, shifts and notes, from the first pass over the log.

    Tables of users have the rows of all users, or of a sample if the log is read in several blocks of users.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._parts = run.parts()
        self.blocks = user_blocks(self._parts, rows_per_user(run.manifest().scenario))
        """Parts of each block of users."""
        self._read = _FirstBlock(run, self._parts) if len(self.blocks) < 2 else _MergedBlocks(run, self.blocks)

    @property
    def totals(self) -> Totals:
        """Means by user; see `sim.analysis.summary`."""
        require_parts(self._run, self._parts)
        return self._read.totals

    @property
    def user_blocks(self) -> UserBlocks:
        """Means of all users by batch of replications (`sim.analysis.user_batches`), block by block."""
        if isinstance(self._read, _FirstBlock):
            return UserBlocks.of(self._read.user_batches)
        read = partial(map, partial(read_user_batches, self._run), self.blocks)
        return UserBlocks(self.totals.series, read, len(self.blocks))

    @property
    def user_metrics(self) -> pd.DataFrame:
        """Metrics of each user; see `sim.analysis.metrics.of_users`."""
        require_parts(self._run, self._parts)
        return self._read.user_metrics

    @property
    def metric_moments(self) -> Moments:
        """Moments of the metrics over users; see `sim.analysis.metrics.metric_moments`."""
        require_parts(self._run, self._parts)
        return self._read.metric_moments

    @property
    def user_smoothing_errors(self) -> pd.DataFrame:
        """Smoothing errors of each user; see `sim.analysis.smoothing_error.of_users`."""
        return self._read.user_smoothing_errors

    @property
    def smoothing_moments(self) -> Moments | None:
        """Moments of the smoothing errors over users; see `sim.analysis.smoothing_error.smoothing_moments`."""
        return self._read.smoothing_moments

    @property
    def shifts(self) -> pd.DataFrame:
        """Behaviour shifts of the users; see `sim.analysis.event_log.read_shifts`."""
        return self._read.shifts

    @property
    def shift_times(self) -> pd.DataFrame:
        """Number of users who shift at each query; see `sim.analysis.event_log.shift_times`."""
        return self._read.shift_times

    @property
    def notes(self) -> dict[str, dict[str, Any]]:
        """The notes of each part."""
        return self._read.notes

    def adaptation_collector(self, **options: Any) -> AdaptationCollector:
        """Return a collector of the adaptation to a shift; see `sim.analysis.adaptation.adaptation`."""
        series = self.totals.series
        if options.get("at_km") is not None:
            series = with_distinct_names(series, self._run.read_csv("points.csv")).assign(point=0)
        blocks = AdaptedBlocks(series, self.totals.extent.step) if len(self.blocks) > 1 else None
        return AdaptationCollector(self._run, self.shifts, self.shift_times, blocks=blocks, **options)

    def adaptation(self, **options: Any) -> Adaptation:
        """Read the log once more for the adaptation to a shift."""
        collector = self.adaptation_collector(**options)
        if len(self.blocks) < 2:
            read_once(self._run, [collector], self._parts)
            return collector.adaptation()
        for parts in self.blocks:
            collector.begin_block(parts)
            read_once(self._run, [collector], parts)
            collector.end_block()
        return collector.adaptation()


class _NotesCollector:
    def __init__(self) -> None:
        self.notes: dict[str, dict[str, Any]] = {}

    def add(self, part: LogPart) -> None:
        self.notes[part.id] = part.notes


class _WindowCollector:
    """Collector of the means of each user by window of queries."""

    def __init__(self, ends: IntArray) -> None:
        self._ends = ends
        self._sums = GroupSums(WINDOW_KEYS)

    def add(self, part: LogPart) -> None:
        self._sums.add(with_window(part.queries(BY_WINDOW), self._ends))

    def means(self) -> pd.DataFrame:
        return self._sums.means()


class SecondPass:
    """Time series, adaptation, belief distances and trajectories, from the second pass over the log."""

    def __init__(self, run: RunDirectory, first: FirstPass) -> None:
        self._run = run
        self._ends = window_ends(run, extent=first.totals.extent)
        self._points = middle(run, first.totals)
        self._beliefs = BeliefCollector(run, self._points)
        self.trajectories = TrajectoryCollector(run, self._points, users_to_replay(run, first.totals, self._points))
        """Trajectories at the middle sweep points, for the replay in the report."""
        self._adaptation = None if first.shifts.empty else first.adaptation_collector()
        self.over_time: pd.DataFrame
        """Means by window; see `sim.analysis.windows.read_over_time`."""
        self.user_series: pd.DataFrame
        """Means by user and window at the middle sweep points; see `sim.analysis.time_series.user_time_series`."""
        self.efficiency: pd.DataFrame
        """Efficiency by window at the middle sweep points; see `sim.analysis.time_series.efficiency_time_series`."""
        if len(first.blocks) < 2:
            self._read_all()
        else:
            self._read_blocks(first.blocks)

    def _read_all(self) -> None:
        """Read a log that is one block of users."""
        means = self._means(None)
        self.over_time = over_time_of(window_moments(means), self._ends)
        self.user_series = self._at_middle(means)
        self.efficiency = efficiency_time_series(self.user_series)

    def _read_blocks(self, blocks: Sequence[Sequence[str]]) -> None:
        """Read a log block by block."""
        samples = PointSamples()
        series, efficiency = SampledRows(samples), EfficiencyMoments(self._ends)
        windows: Moments | None = None
        for parts in blocks:
            if self._adaptation is not None:
                self._adaptation.begin_block(parts)
            means = self._means(parts)
            samples.add(means[["point", "user"]])
            windows = add_moments(windows, window_moments(means))
            own = self._at_middle(means)
            series.add(own)
            efficiency.add(own)
            self._beliefs.end_block(samples)
            if self._adaptation is not None:
                self._adaptation.end_block()
        assert windows is not None
        self.over_time = over_time_of(windows, self._ends)
        self.user_series = series.rows(*SERIES, "first_index", "user")
        self.efficiency = efficiency.time_series()

    def _means(self, parts: Sequence[str] | None) -> pd.DataFrame:
        """Read some parts for all collectors; return the means by user and window."""
        windows = _WindowCollector(self._ends)
        collectors: list[Collector] = [windows, self._beliefs, self.trajectories]
        read_once(self._run, [*collectors, *([] if self._adaptation is None else [self._adaptation])], parts)
        return windows.means()

    def _at_middle(self, means: pd.DataFrame) -> pd.DataFrame:
        """Return the time series of users at the middle sweep points."""
        chosen = [key in self._points for key in zip(means["lppm"], means["point"], strict=True)]
        return user_series_of(means[chosen].reset_index(drop=True), self._ends)

    def adaptation(self) -> Adaptation:
        """Return the adaptation to the first shift, or raise `NotApplicable`."""
        if self._adaptation is None:
            raise NotApplicable("the run has no behaviour shift", code="no-shift")
        return self._adaptation.adaptation()

    def belief_distances(self) -> pd.DataFrame:
        """Return the table of `sim.analysis.beliefs.user_belief_distances`, or raise `NotApplicable`."""
        return self._beliefs.distances()

    def mean_belief_distances(self) -> pd.DataFrame:
        """Return the table of `sim.analysis.beliefs.belief_distance`, or raise `NotApplicable`."""
        return distance_over_users(self._beliefs.moments())
