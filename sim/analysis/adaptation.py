"""Adaptation of mechanisms to a behaviour shift: efficiency before and after the shift, and the time to recover.

Efficiency is P_AE / Q-bar, the adversary error in km per km of quality loss. It is always a ratio of sums over the same
queries, never a mean of ratios, because the loss of a single query may be zero. Query indices are relative to the
shift, which aligns users whose behaviour changes at different times. The analysis covers the queries from the previous
change (or the first query) to the next change (another shift, or the end of this one) or the last query. Users whose
behaviour does not change are excluded.

The log is read part by part. Each sweep point retains only sums by LPPM, attack, user and query: the replications of a
user are summed before any ratio is computed. A log that is cut into blocks of users is reduced to moments after each
block (`sim.analysis.recovery_moments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.adaptation_blocks import (
    COMPARED,
    AdaptedBlocks,
    PairedMoments,
    keyed_table,
    paired_users,
    points_of,
    require_reference,
    without_reference,
)
from sim.analysis.equal_loss_shift import EqualLossShift
from sim.analysis.event_log import SERIES, LogPart, ShiftCollector, log_parts, read_shifts, shift_times
from sim.analysis.quantiles import counted_quantile
from sim.analysis.recovery import Recovery
from sim.analysis.shift_sums import AddedMetrics, ShiftSums, spans_around
from sim.analysis.statistics import ENDS, mean_interval, ratio_of_means
from sim.storage.errors import ChoiceNotApplicable, NotApplicable, RequestError
from sim.storage.event_schema import MEASURES
from sim.storage.part_ids import point_in
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import require_cells

WINDOW = 50
"""Default window length in queries."""
BEFORE = 150
"""Default number of queries before the shift that define the reference efficiency."""
RECOVERED = 0.9
"""Default fraction of the reference efficiency at which a mechanism counts as recovered."""

OF_USER = COMPARED
"""Per-user metrics that `compare` compares between mechanisms."""

_COLUMNS = [*SERIES, "user", "replication", "index", *MEASURES]


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Adaptation of the mechanisms of a run to a shift; `adaptation` defines the metrics."""

    summary: pd.DataFrame
    """One row per point, LPPM and attack.

    Columns: point, lppm, attack, shift, users, left_out, censored; efficiency_before, efficiency_lowest and
    efficiency_end, pooled over users; the means over users of queries_to_recover, queries_lost,
    quality_loss_before_km and quality_loss_after_km;
    queries_to_recover_median; and, from the pooled time series, pooled_queries_to_recover, pooled_censored and
    pooled_queries_lost. All but efficiency_lowest and the last four have confidence limits `_low` and `_high`.
    """
    users: pd.DataFrame
    """One row per point, LPPM, attack and user.

    Columns: the five metrics of `OF_USER`, quality_loss_before_km, quality_loss_after_km, queries_after and censored.
    """
    time_series: pd.DataFrame
    """Efficiency pooled over users by window, with confidence intervals.

    Columns: point, lppm, attack, shift, queries_after (index of the window's last query relative to the shift; in
    (-inf, 0] the window lies before the shift), users, efficiency, efficiency_low, efficiency_high.
    """
    window: int
    """Window length in queries."""
    recovered: float
    """Fraction of the efficiency before the shift at which a mechanism counts as recovered."""
    user_time_series: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Efficiency of each user by window if there are two to four users, which are too few for intervals.

    Columns: point, lppm, attack, shift, user, queries_after, efficiency.
    """
    at_km: float | None = None
    """Quality loss of each user before the shift, if it is equal for all mechanisms."""
    paired: PairedMoments | None = None
    """Moments of the differences between LPPMs over all users, if `users` has a sample of a large population only."""

    def compare(self, against: str) -> pd.DataFrame:
        """Compare each LPPM with the reference LPPM `against`, paired by user, at the same sweep point and attack.

        A reference that has a single sweep point is compared at all points.

        Columns: point, attack, lppm, against, users; for each metric of `OF_USER` the mean difference LPPM - reference
        and the limits `_low` and `_high` of its 95 % confidence interval (Student's t); `recovery_ratio`, the mean
        queries to recover divided by that of the reference, with a confidence interval by the delta method.
        """
        return compare(self.users, against) if self.paired is None else self.paired.compared(against)


def adaptation(
    run: RunDirectory,
    *,
    window: int = WINDOW,
    recovered: float = RECOVERED,
    before: int = BEFORE,
    shift: str | None = None,
    at_km: float | None = None,
) -> Adaptation:
    """Return the adaptation of a run's mechanisms to the shift named `shift` (default: the first shift of each point).

    `efficiency_before` is the efficiency over the last `before` queries before the shift, or over all of them if there
    are fewer. After the shift, efficiency is computed over sliding windows of `window` queries that lie entirely after
    the shift. `queries_to_recover` is the number of queries after the shift until the efficiency of such a window is at
    least `recovered` times `efficiency_before`. Its minimum is therefore the window length, for all mechanisms. (A
    window that grows from the first query would count one lucky query as recovery, more often for noisier mechanisms.)
    A user who never reaches this level is censored: they count with all their queries after the shift, and `censored`
    is the number of such users. `queries_lost` is the area between the level before the shift and the time series until
    recovery: T (1 - e / b), with T the queries to recover, e the efficiency over these T queries and b the efficiency
    before; zero if e > b. It is equivalent to this number of queries without any protection. Pooled metrics sum over
    the queries of all users; the pooled time series has the windows that are complete for at least half of the users.
    `efficiency_end` is the efficiency over each user's last window.

    Confidence intervals are at 95 % over users, the independent units: by the delta method (linearised residuals and
    Student's t) for ratios, by Student's t for means; a single user has none. `left_out` counts users with less than
    one window of queries after the shift or without any loss before it. Expected metrics are used where recorded.

    With `at_km`, each user has this loss over the `before` queries with each mechanism: sums are interpolated between
    the sweep points (`sim.analysis.equal_loss_shift`), and `point` is 0. Compared are the users whose P0 before the
    shift is at least the loss; `excluded` is the number of the others. `at_largest` and `at_smallest` count the
    compared users who do not attain the loss with a mechanism and have its values at the nearest one.

    In a summarized log, rows must not span the shift, and `window` must be a multiple of the queries per row; otherwise
    the function raises `NotApplicable`.
    """
    shifts = read_shifts(run)
    collector = AdaptationCollector(
        run, shifts, shift_times(shifts), window=window, recovered=recovered, before=before, shift=shift, at_km=at_km
    )
    for part in log_parts(run):
        collector.add(part)
    return collector.adaptation()


class AdaptationCollector:
    """Collector of the adaptation to a shift; holds the sums of one sweep point at a time.

    `NotApplicable` is raised by `adaptation`, not by `add`, so that other collectors can read the same parts.
    """

    def __init__(
        self,
        run: RunDirectory,
        changes: pd.DataFrame,
        times: pd.DataFrame,
        *,
        blocks: AdaptedBlocks | None = None,
        window: int = WINDOW,
        recovered: float = RECOVERED,
        before: int = BEFORE,
        shift: str | None = None,
        at_km: float | None = None,
    ) -> None:
        for name, count in (("window", window), ("before", before)):
            if count < 1:
                raise ValueError(f"{name} must be in [1, inf), got {count}")
        if not 0 < recovered <= 1:
            raise ValueError(f"recovered must be in (0, 1], got {recovered}")
        self._run = run
        self._window, self._recovered, self._before = window, recovered, before
        self._changes = changes
        self._blocks = blocks
        self._shifts: dict[int, str] = {}
        self._sums: dict[int, ShiftSums] = {}
        self._frames: dict[int, list[dict[str, pd.DataFrame]]] = {}
        self._error: NotApplicable | None = None
        self._equal: EqualLossShift | None = None
        try:
            self._shifts = _chosen(times, shift, run)
            self._equal = None if at_km is None else EqualLossShift(run, at_km, before)
        except NotApplicable as error:
            self._error = error

    def begin_block(self, parts: Sequence[str]) -> None:
        """Begin a block of users, which has these parts."""
        shifts = ShiftCollector()
        for part in log_parts(self._run, parts):
            shifts.add(part)
        self._changes = shifts.shifts()

    def end_block(self) -> None:
        """Reduce the users of a block to moments over users."""
        if self._error is None and self._blocks is not None:
            try:
                self._finish_all()
                self._blocks.end_block()
            except NotApplicable as error:
                self._error = error

    def add(self, part: LogPart) -> None:
        """Add a part of the log."""
        if self._error is not None:
            return
        try:
            self._add(part)
        except NotApplicable as error:
            self._error = error

    def _add(self, part: LogPart) -> None:
        begun = point_in(part.id)
        # Parts come in the order of their points.
        for point in [point for point in self._sums if begun is not None and point < begun and self._equal is None]:
            self._finish(point)
        points: list[int] = pc.unique(part.rows(["point"])["point"]).to_pylist() if begun is None else [begun]  # type: ignore[assignment]
        for point in points:
            if point in self._shifts:
                rows = part.queries(_COLUMNS if self._equal is None else [*_COLUMNS, "cell"])
                if self._equal is not None:
                    require_cells(self._run, part.rows(["event"])["event"])
                self._sums_of(point).add(rows.filter(pc.equal(rows["point"], pa.scalar(point))), self._run)

    def _sums_of(self, point: int) -> ShiftSums:
        if point not in self._sums:
            changes = self._changes[self._changes["point"] == point]
            step = 1 if self._blocks is None else self._blocks.step
            self._sums[point] = ShiftSums(spans_around(changes, self._shifts[point]), self._before, step)
        return self._sums[point]

    def _finish_all(self) -> None:
        if self._equal is None:
            for point in list(self._sums):
                self._finish(point)
        elif self._sums:
            points, self._sums = self._sums, {}
            for sums in points.values():
                sums.require_window(self._window, self._run)
            step = max(sums.step for sums in points.values())
            shift = self._shifts[min(points)]
            for (lppm, attack), own in sorted(self._equal.mixed(points).items()):
                self._add_series({"point": 0, "lppm": lppm, "attack": attack, "shift": shift}, own, step)

    def _finish(self, point: int) -> None:
        """Convert the sums of a point to tables."""
        sums = self._sums.pop(point)
        sums.require_window(self._window, self._run)
        for (lppm, attack), own in sorted(sums.series.items()):
            key: dict[str, Any] = {"point": point, "lppm": lppm, "attack": attack, "shift": self._shifts[point]}
            self._add_series(key, own, sums.step)

    def _add_series(self, key: dict[str, Any], own: AddedMetrics, step: int) -> None:
        """Convert the sums of a mechanism under an attack to tables."""
        recovery = Recovery(own, before=self._before, window=self._window, step=step, recovered=self._recovered)
        if self._blocks is not None:
            self._blocks.add(key, recovery)
            return
        frames = {
            "summary": recovery.summary(),
            "users": recovery.users,
            "time_series": recovery.time_series,
            "user_time_series": recovery.time_series_of_few(),
        }
        keyed = {name: keyed_table(frame, key) for name, frame in frames.items()}
        self._frames.setdefault(key["point"], []).append(keyed)

    def adaptation(self) -> Adaptation:
        """Return the adaptation, or raise `NotApplicable`."""
        if self._error is not None:
            raise self._error
        self._finish_all()
        frames = [keyed for point in self._shifts for keyed in self._frames.get(point, [])]
        if self._blocks is not None:
            frames = self._blocks.frames(self._recovered)
        if not frames:
            raise NotApplicable(
                f"{self._run} has no adversary error for users with a shift: efficiency is undefined.",
                code="no-efficiency",
            )
        tables = {name: pd.concat([keyed[name] for keyed in frames], ignore_index=True) for name in frames[0]}
        if not tables["summary"]["users"].any():
            names = " or ".join(dict.fromkeys(self._shifts.values()))
            raise ChoiceNotApplicable(
                f"{self._run}: no user has both {self._window} queries after {names} (until the next change or the "
                "last query) and a quality loss before it. Try a shorter window: `lppm-sim adaptation RUN --window N`.",
                code="window-too-long",
            )
        paired = None if self._blocks is None else self._blocks.paired
        if self._equal is not None:
            tables["summary"] = self._equal.with_counts(tables["summary"])
        at_km = None if self._equal is None else self._equal.loss_km
        return Adaptation(**tables, window=self._window, recovered=self._recovered, at_km=at_km, paired=paired)


def compare(users: pd.DataFrame, against: str) -> pd.DataFrame:
    """Compare LPPMs paired by user; see `Adaptation.compare`.

    `users` is the table `users` of an `Adaptation`, or several of them with distinct LPPM names.
    """
    require_reference(users["lppm"], against)
    rows = []
    for key, both in paired_users(users, against, points_of(users)):
        row: dict[str, Any] = {**key, "users": len(both)}
        for name in OF_USER:
            row |= mean_interval(both[name] - both[f"{name}_other"], name)
        times = [both[[name]].to_numpy(float) for name in ("queries_to_recover", "queries_to_recover_other")]
        ends = ratio_of_means(times[0], times[1])
        row |= {f"recovery_ratio{end}": float(value[0]) for end, value in zip(ENDS, ends, strict=True)}
        rows.append(row)
    return without_reference(pd.DataFrame(rows), against)


def _chosen(times: pd.DataFrame, shift: str | None, run: RunDirectory) -> dict[int, str]:
    """Return the name of the analysed shift by sweep point, for points that have one; `times` is from `shift_times`."""
    begun = times[times["event"] == "shift"]
    if begun.empty:
        raise ChoiceNotApplicable(
            f"{run} has no behaviour shift to adapt to: add `shifts` to the scenario.", code="no-shift"
        )
    if shift is not None and shift not in set(begun["shift"]):
        names = ", ".join(dict.fromkeys(begun["shift"]))
        raise RequestError(f"{run} has no shift {shift!r}; available: {names}", code="unknown-shift")
    if shift is not None:
        return dict.fromkeys(sorted(begun.loc[begun["shift"] == shift, "point"].unique().tolist()), shift)
    medians = [
        (point, name, counted_quantile(own["index"].to_numpy(float), own["count"], 0.5))
        for (point, name), own in begun.groupby(["point", "shift"], sort=False)
    ]
    ordered = pd.DataFrame(medians, columns=["point", "shift", "median"])
    first = ordered.sort_values(["point", "median"], kind="stable").drop_duplicates("point")
    return dict(zip(first["point"].tolist(), first["shift"].tolist(), strict=True))
