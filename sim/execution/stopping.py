"""Stopping rule: repeat each simulation a fixed number of times, or until its confidence intervals are narrow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pandas as pd

from sim.analysis.event_log import SERIES
from sim.analysis.replications import replication_half_widths
from sim.analysis.summary import LOSS_AND_ERROR, per_user, preferred
from sim.execution.plan import Chunk, Plan, Task, Times, next_look
from sim.storage.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Round:
    """Number of replications of each task, their chunks, and the confidence intervals reached so far."""

    tasks: Sequence[Task]
    times: Times
    chunks: list[Chunk]
    half_widths_km: dict[tuple[int, str], dict[str, float]] = field(default_factory=dict)
    """Half-width in km of the confidence interval of each metric, for tasks with a stopping rule."""

    def is_precise(self, task: Task) -> bool:
        """Return whether no confidence interval of a task is wider than requested."""
        limit = task.half_width_km
        return limit is None or all(half <= limit for half in self.half_widths_km[task.key].values())

    def next_times(self, existing: Times) -> Times:
        """Return the next number of replications of each task.

        It increases if an interval is too wide, or if more replications exist.
        """
        return {
            task.key: self.times[task.key]
            if self.is_precise(task) and self.times[task.key] >= existing[task.key]
            else next_look(self.times[task.key], task.at_most)
            for task in self.tasks
        }

    def described(self) -> list[dict[str, Any]]:
        """Return the manifest entries of the round."""
        return [
            {"point": task.point.index, "lppm": task.lppm, "replications": self.times[task.key], "exact": task.is_exact}
            | ({} if task.half_width_km is None else {"until_half_width_km": task.half_width_km})
            | ({"half_widths_km": widths} if (widths := self.half_widths_km.get(task.key)) else {})
            for task in self.tasks
        ]


def rounds(plan: Plan, directory: RunDirectory) -> Iterator[Round]:
    """Yield rounds of chunks to simulate; each round depends on the written parts of the previous one.

    The number of replications of a task depends only on the metrics of its replications up to that number, not on the
    order or the writer of the parts. So a resumed run ends with the same result. If a previous run had more
    replications, for instance because of narrower intervals, its parts stay in use.
    """
    work = plan.tasks
    times: Times = {task.key: task.at_least for task in work}
    existing = _existing(plan, directory)
    open_keys = {task.key for task in work if task.half_width_km is not None}
    sums: dict[str, _Sums] = {}
    while True:
        chunks = plan.chunks(times, directory.parts())
        yield Round(work, times, chunks)
        measured = []
        for chunk in chunks:
            key = (chunk.point.index, chunk.lppms[0])
            if key in open_keys:
                if chunk.id not in sums:
                    sums[chunk.id] = _sums_over_users(per_user(directory, [chunk.id]))
                measured.append(sums[chunk.id])
        state = Round(work, times, chunks, _half_widths(_replication_means(measured)))
        following = state.next_times(existing)
        if following == times:
            yield state
            return
        times = following


def _existing(plan: Plan, directory: RunDirectory) -> Times:
    """Return the number of replications of each task in the directory."""
    counts = {task.key: 0 for task in plan.tasks}
    for part in directory.parts():
        if (chunk := plan.named(part)) is not None:
            for lppm in chunk.lppms:
                key = (chunk.point.index, lppm)
                counts[key] = max(counts[key], chunk.replications.stop)
    return counts


_Sums = dict[tuple[int, str, str, int], dict[str, tuple[Fraction, int]]]
"""Exact sum over users, and number of users, of each metric by point, LPPM, attack and replication."""


def _sums_over_users(users: pd.DataFrame) -> _Sums:
    """Return the sums of a table of `per_user`; exact sums do not depend on the blocks of users."""
    metrics = {name: preferred(users, name).to_numpy() for name in LOSS_AND_ERROR}
    keys = zip(*(users[name].tolist() for name in (*SERIES, "replication")), strict=True)
    sums: _Sums = {}
    for row, key in enumerate(keys):
        own = sums.setdefault(key, dict.fromkeys(LOSS_AND_ERROR, (Fraction(), 0)))
        for name, values in metrics.items():
            if not math.isnan(values[row]):
                own[name] = (own[name][0] + Fraction(float(values[row])), own[name][1] + 1)
    return sums


def _replication_means(parts: Iterable[_Sums]) -> pd.DataFrame:
    """Return the means over the users of all parts, in the form of `sim.analysis.replications.replication_means`."""
    merged: _Sums = {}
    for part in parts:
        for key, sums in part.items():
            own = merged.setdefault(key, dict.fromkeys(LOSS_AND_ERROR, (Fraction(), 0)))
            merged[key] = {name: (own[name][0] + sums[name][0], own[name][1] + sums[name][1]) for name in own}
    rows = [
        (*key, *(float(total / count) if count else math.nan for total, count in sums.values()))
        for key, sums in sorted(merged.items())
    ]
    return pd.DataFrame(rows, columns=[*SERIES, "replication", *LOSS_AND_ERROR])


def _half_widths(means: pd.DataFrame) -> dict[tuple[int, str], dict[str, float]]:
    """Return, by point and LPPM, the half-width in km of the interval of Q-bar and of each attack's P_AE."""
    half_widths: dict[tuple[int, str], dict[str, float]] = {}
    if means.empty:
        return half_widths
    for row in replication_half_widths(means).to_dict("records"):
        metrics = half_widths.setdefault((int(row["point"]), str(row["lppm"])), {})
        named = {"Q-bar": row["quality_loss_km"], f"P_AE {row['attack']}": row["adversary_error_km"]}
        metrics |= {name: float(half) for name, half in named.items() if pd.notna(half)}
    return half_widths
