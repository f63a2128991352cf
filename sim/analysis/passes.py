"""The two passes over the event log that provide all tables, figures and the report of a run.

The first pass collects sums by user, smoothing errors, shifts and notes. The second depends on results of the first:
windows of queries on the highest index, adaptation on the shifts, trajectories on the middle sweep points.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Protocol

import pandas as pd

from sim.analysis.adaptation import Adaptation, AdaptationCollector
from sim.analysis.beliefs import BeliefCollector
from sim.analysis.event_log import GroupSums, LogPart, ShiftCollector, log_parts, require_parts
from sim.analysis.metrics import MetricsCollector
from sim.analysis.smoothing_error import SmoothingErrorCollector
from sim.analysis.summary import Totals, TotalsCollector
from sim.analysis.time_series import middle, user_series_of
from sim.analysis.trajectories import TrajectoryCollector, users_to_replay
from sim.analysis.windows import BY_WINDOW, WINDOW_KEYS, over_time_of, window_ends, with_window
from sim.storage.errors import NotApplicable
from sim.storage.run_directory import RunDirectory


class Collector(Protocol):
    """Object that collects data from the parts of a log; each part is opened once for all collectors."""

    def add(self, part: LogPart) -> None:
        """Add a part of the log."""


def read_once(run: RunDirectory, collectors: Iterable[Collector]) -> None:
    """Open each part of a run once, for all collectors."""
    for part in log_parts(run):
        for collector in collectors:
            collector.add(part)


class FirstPass:
    """Totals, per-user metrics, smoothing errors, shifts and notes, from the first pass over the log."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._parts = run.parts()
        self._totals, self._metrics, self._shifts = TotalsCollector(), MetricsCollector(), ShiftCollector()
        self._smoothing_errors = SmoothingErrorCollector(run.manifest().scenario)
        self._notes = _NotesCollector()
        read_once(run, [self._totals, self._metrics, self._shifts, self._smoothing_errors, self._notes])

    @cached_property
    def totals(self) -> Totals:
        """Means by user; see `sim.analysis.summary`."""
        require_parts(self._run, self._parts)
        return self._totals.totals()

    @cached_property
    def user_metrics(self) -> pd.DataFrame:
        """Metrics of each user; see `sim.analysis.metrics.of_users`."""
        require_parts(self._run, self._parts)
        return self._metrics.of_users()

    @cached_property
    def user_smoothing_errors(self) -> pd.DataFrame:
        """Smoothing errors of each user; see `sim.analysis.smoothing_error.of_users`."""
        return self._smoothing_errors.of_users()

    @cached_property
    def shifts(self) -> pd.DataFrame:
        """Behaviour shifts of the users; see `sim.analysis.event_log.read_shifts`."""
        return self._shifts.shifts()

    @property
    def notes(self) -> dict[str, dict[str, Any]]:
        """The notes of each part."""
        return self._notes.notes


class _NotesCollector:
    def __init__(self) -> None:
        self.notes: dict[str, dict[str, Any]] = {}

    def add(self, part: LogPart) -> None:
        self.notes[part.id] = part.notes


class SecondPass:
    """Time series, adaptation, belief distances and trajectories, from the second pass over the log."""

    def __init__(self, run: RunDirectory, first: FirstPass) -> None:
        self._ends = window_ends(run, extent=first.totals.extent)
        self._points = middle(run, first.totals)
        self._windows = GroupSums(WINDOW_KEYS)
        self._beliefs = BeliefCollector(run, self._points)
        self.trajectories = TrajectoryCollector(self._points, users_to_replay(run, first.totals, self._points))
        """Trajectories at the middle sweep points, for the replay in the report."""
        collectors: list[Collector] = [self, self._beliefs, self.trajectories]
        self._adaptation = None if first.shifts.empty else AdaptationCollector(run, first.shifts)
        read_once(run, [*collectors, *([] if self._adaptation is None else [self._adaptation])])
        means = self._windows.means()
        self.over_time = over_time_of(means, self._ends)
        """Means by window; see `sim.analysis.windows.read_over_time`."""
        chosen = [key in self._points for key in zip(means["lppm"], means["point"], strict=True)]
        self.user_series = user_series_of(means[chosen].reset_index(drop=True), self._ends)
        """Means by user and window at the middle sweep points; see `sim.analysis.time_series.user_time_series`."""

    def add(self, part: LogPart) -> None:
        """Add a part of the log."""
        self._windows.add(with_window(part.queries(BY_WINDOW), self._ends))

    def adaptation(self) -> Adaptation:
        """Return the adaptation to the first shift, or raise `NotApplicable`."""
        if self._adaptation is None:
            raise NotApplicable("the run has no behaviour shift", code="no-shift")
        return self._adaptation.adaptation()

    def belief_distances(self) -> pd.DataFrame:
        """Return the table of `sim.analysis.beliefs.user_belief_distances`, or raise `NotApplicable`."""
        return self._beliefs.distances()
