"""How often each simulation of a study is repeated: a fixed number of times, or until its figures are sharp."""

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
    """What a run knows of its replications: how many each LPPM is to have at each point, and how sharp it is."""

    tasks: Sequence[Task]
    times: Times
    chunks: list[Chunk]
    half_widths_km: dict[tuple[int, str], dict[str, float]] = field(default_factory=dict)
    """Of those that stop by themselves, half of the interval of each figure."""

    def is_sharp(self, task: Task) -> bool:
        """Whether no interval of a task is wider than asked for."""
        asked = task.half_width_km
        return asked is None or all(half <= asked for half in self.half_widths_km[task.key].values())

    def next_times(self, there: Times) -> Times:
        """Return how many replications each is to have next: more where an interval is too wide, or more are there."""
        return {
            task.key: self.times[task.key]
            if self.is_sharp(task) and self.times[task.key] >= there[task.key]
            else next_look(self.times[task.key], task.at_most)
            for task in self.tasks
        }

    def described(self) -> list[dict[str, Any]]:
        """Return it for the manifest."""
        return [
            {"point": task.point.index, "lppm": task.lppm, "replications": self.times[task.key], "exact": task.is_exact}
            | ({} if task.half_width_km is None else {"until_half_width_km": task.half_width_km})
            | ({"half_widths_km": widths} if (widths := self.half_widths_km.get(task.key)) else {})
            for task in self.tasks
        ]


def rounds(plan: Plan, directory: RunDirectory) -> Iterator[Round]:
    """Yield what is to be there, round by round; each is decided once the parts of the one before are there.

    A task's number follows from the figures of its own replications up to that number and from nothing else: neither
    from the order in which parts came nor from who wrote them. So a run that goes on comes to the same end. One that
    asked for more before, say for narrower intervals, keeps what it has.
    """
    work = plan.tasks
    times: Times = {task.key: task.at_least for task in work}
    there = _there(plan, directory)
    open_keys = {task.key for task in work if task.half_width_km is not None}
    means: dict[str, pd.DataFrame] = {}
    while True:
        chunks = plan.chunks(times, directory.parts())
        yield Round(work, times, chunks)
        looked_at = []
        for chunk in chunks:
            key = (chunk.point.index, chunk.lppms[0])
            if key in open_keys:
                if chunk.id not in means:
                    means[chunk.id] = replication_means(per_user(directory, [chunk.id]))
                looked_at.append(means[chunk.id])
        state = Round(work, times, chunks, _half_widths(looked_at))
        following = state.next_times(there)
        if following == times:
            yield state
            return
        times = following


def _there(plan: Plan, directory: RunDirectory) -> Times:
    """Return up to which replication something of each task is there: what was asked for before is kept, and counts."""
    found = {task.key: 0 for task in plan.tasks}
    for part in directory.parts():
        if (chunk := plan.named(part)) is not None:
            for lppm in chunk.lppms:
                key = (chunk.point.index, lppm)
                found[key] = max(found[key], chunk.replications.stop)
    return found


def _half_widths(means: Sequence[pd.DataFrame]) -> dict[tuple[int, str], dict[str, float]]:
    """Return, by point and LPPM, half of the interval of Q-bar and of each attack's P_AE."""
    found: dict[tuple[int, str], dict[str, float]] = {}
    if not means:
        return found
    for row in replication_half_widths(pd.concat(means, ignore_index=True)).to_dict("records"):
        own = found.setdefault((int(row["point"]), str(row["lppm"])), {})
        named = {"Q-bar": row["quality_loss_km"], f"P_AE {row['attack']}": row["adversary_error_km"]}
        own |= {name: float(half) for name, half in named.items() if pd.notna(half)}
    return found
