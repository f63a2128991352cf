"""Stopping rule: repeat each simulation a fixed number of times, or until its confidence intervals are narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from sim.analysis.replications import replication_half_widths, replication_means
from sim.analysis.summary import per_user
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
    means: dict[str, pd.DataFrame] = {}
    while True:
        chunks = plan.chunks(times, directory.parts())
        yield Round(work, times, chunks)
        measured = []
        for chunk in chunks:
            key = (chunk.point.index, chunk.lppms[0])
            if key in open_keys:
                if chunk.id not in means:
                    means[chunk.id] = replication_means(per_user(directory, [chunk.id]))
                measured.append(means[chunk.id])
        state = Round(work, times, chunks, _half_widths(measured))
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


def _half_widths(means: Sequence[pd.DataFrame]) -> dict[tuple[int, str], dict[str, float]]:
    """Return, by point and LPPM, the half-width in km of the interval of Q-bar and of each attack's P_AE."""
    half_widths: dict[tuple[int, str], dict[str, float]] = {}
    if not means:
        return half_widths
    for row in replication_half_widths(pd.concat(means, ignore_index=True)).to_dict("records"):
        metrics = half_widths.setdefault((int(row["point"]), str(row["lppm"])), {})
        named = {"Q-bar": row["quality_loss_km"], f"P_AE {row['attack']}": row["adversary_error_km"]}
        metrics |= {name: float(half) for name, half in named.items() if pd.notna(half)}
    return half_widths
