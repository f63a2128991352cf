"""Progress of a run, read from its directory: in progress, interrupted or finished.

Nothing is written or locked, so a simulation in progress is not disturbed. Unreadable files are reported, not counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from sim.storage.errors import RequestError, RunError
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory

RECENT = 20
"""Number of last chunks from which the rate is computed."""
_STALLED_S = 60.0
_STALLED_GAPS = 3.0
"""A run has probably stopped after `_STALLED_S` seconds and this multiple of the longest recent gap without a part."""


@dataclass(frozen=True, slots=True)
class Status:
    """Progress of a run. Durations are in seconds, times in seconds since 1970; None means unknown."""

    run: str
    finished: bool
    """Whether all planned parts exist and the final manifest is written."""
    planned: int | None
    more_may_follow: bool
    """Whether more chunks may be needed, since the number of replications depends on the precision of the metrics."""
    done: int
    rows: int
    last_part_at_s: float | None
    last_part_age_s: float | None
    chunks_per_s: float | None
    rows_per_s: float | None
    left_s: float | None
    """Remaining time at the current rate, without the chunks that failed, provided that the run is in progress."""
    stalled: bool
    """Whether no part was written for much longer than usual: the run has probably stopped."""
    torn: list[str]
    """Parts that exist and cannot be read; resuming the run simulates them again."""
    failed: list[dict[str, Any]]
    """Chunks that failed, each with the command that repeats it alone."""
    faults: list[str]
    """Messages about other files that cannot be read."""


def status(place: str | os.PathLike[str], *, now_s: float | None = None) -> Status:
    """Return the progress of a run at a path or URL; `now_s` is the current time, for tests."""
    run, manifest, faults = _opened(place)
    planned = None if manifest is None else set(manifest.parts)
    rows: dict[str, int] = {}
    torn = []
    for part in run.parts() if planned is None else [part for part in run.parts() if part in planned]:
        try:
            rows[part] = run.read_part(part, []).num_rows
        except RunError:
            torn.append(part)
    failures = [] if manifest is None else manifest.failures
    failed = [dict(failure) for failure in failures if str(failure.get("chunk")) not in rows]
    times = _times(run, rows, faults)
    recent = _recent(times, _written(run, "manifest.json", faults))
    rate = None if recent is None else len(recent.parts) / recent.duration_s
    missing = None if planned is None else len(planned) - len(rows)
    finished = manifest is not None and manifest.finished and not missing
    remaining = None if missing is None else max(missing - len(failed), 0)
    last = max(times.values(), default=None)
    age_s = None if last is None else max((time.time() if now_s is None else now_s) - last, 0.0)
    return Status(
        run=str(place),
        finished=finished,
        planned=None if planned is None else len(planned),
        more_may_follow=not finished and manifest is not None and manifest.repeats_until_sharp,
        done=len(rows),
        rows=sum(rows.values()),
        last_part_at_s=last,
        last_part_age_s=age_s,
        chunks_per_s=rate,
        rows_per_s=None if recent is None else sum(rows[part] for part in recent.parts) / recent.duration_s,
        left_s=0.0 if finished else None if rate is None or remaining is None else remaining / rate,
        stalled=not finished and recent is not None and recent.ended_before(age_s or 0.0),
        torn=torn,
        failed=failed,
        faults=faults,
    )


def failed_where(failure: Mapping[str, Any]) -> str:
    """Describe a failed chunk by point, replications, users and LPPMs, from an entry of the manifest's failures.

    Users are counted from 1 in the order of the scenario.
    """
    labels = [f"point {failure['point']}"] if "point" in failure else []
    match failure.get("replications"):
        case [first, last]:
            labels.append(f"replication {first}" if first == last else f"replications {first} to {last}")
    match failure.get("users"):
        case [first, last]:
            labels.append(f"user {first}" if first == last else f"users {first} to {last}")
    lppms = failure.get("lppms")
    return ", ".join([*labels, *(map(str, lppms) if isinstance(lppms, list) else ())]) or str(failure.get("chunk", "?"))


def _opened(place: str | os.PathLike[str]) -> tuple[RunDirectory, RunManifest | None, list[str]]:
    """Return the run, its manifest, and messages about its damage; without a manifest, parts are still counted."""
    try:
        run = RunDirectory.open(place)
        return run, run.manifest(), []
    except RequestError:
        raise
    except RunError as error:
        return RunDirectory(Path(place) if isinstance(place, os.PathLike) else place), None, [str(error)]


def _times(run: RunDirectory, parts: Mapping[str, int], faults: list[str]) -> dict[str, float]:
    """Return the time at which each part was written, if known."""
    times = {part: _written(run, f"events/{part}.parquet", faults) for part in parts}
    return {part: moment for part, moment in times.items() if moment is not None}


class _Recent(NamedTuple):
    """The last parts, the time that they took together, and the longest time between two of them."""

    parts: Sequence[str]
    duration_s: float
    longest_gap_s: float

    def ended_before(self, age_s: float) -> bool:
        """Return whether the last part is so old that the run has probably stopped."""
        return age_s > max(_STALLED_S, _STALLED_GAPS * self.longest_gap_s)


def _recent(times: Mapping[str, float], started_s: float | None) -> _Recent | None:
    """Return the last parts and their times.

    A run writes its manifest before it simulates. Only parts written after it count, so the idle time between an
    interruption and the resumption is excluded.
    """
    if started_s is None:
        return None
    since = sorted((moment, part) for part, moment in times.items() if moment > started_s)
    moments = [started_s, *(moment for moment, _ in since)][-RECENT - 1 :]
    duration_s = moments[-1] - moments[0]
    if duration_s <= 0:
        return None
    gap_s = max(later - earlier for earlier, later in pairwise(moments))
    return _Recent([part for _, part in since[-RECENT:]], duration_s, gap_s)


def _written(run: RunDirectory, name: str, faults: list[str]) -> float | None:
    """Return the time of the last write of a file; append a failure to `faults`, since parts can still be counted."""
    try:
        return run.file(name).written_s()
    except RunError as error:
        faults.append(str(error))
        return None
