"""Progress of a run, read from its directory: whether it continues, was killed or is finished.

Nothing is written or locked, so that a running simulation is not disturbed. Unreadable files are reported and not
counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.storage.errors import RequestError, RunError
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory

RECENT = 20
"""The rate is that of the last so many chunks."""


@dataclass(frozen=True, slots=True)
class Status:
    """Progress of a run. Durations are in seconds, times in seconds since 1970; None is unknown."""

    run: str
    finished: bool
    """All planned parts exist, and the run has written its final manifest."""
    planned: int | None
    more_may_follow: bool
    """The number of replications depends on the metrics, so that more chunks may be needed."""
    done: int
    rows: int
    last_part_at_s: float | None
    last_part_age_s: float | None
    chunks_per_s: float | None
    rows_per_s: float | None
    left_s: float | None
    """At that rate, without the chunks that failed."""
    torn: list[str]
    """Parts that exist and cannot be read: the next run simulates them again."""
    failed: list[dict[str, Any]]
    """Chunks that were given up, and the command that repeats each alone."""
    faults: list[str]
    """What else cannot be read."""


def status(place: str | os.PathLike[str], *, now_s: float | None = None) -> Status:
    """Look at a run, from the outside."""
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
    rate = None if recent is None else len(recent[0]) / recent[1]
    missing = None if planned is None else len(planned) - len(rows)
    finished = manifest is not None and manifest.finished and not missing
    to_come = None if missing is None else max(missing - len(failed), 0)
    last = max(times.values(), default=None)
    return Status(
        run=str(place),
        finished=finished,
        planned=None if planned is None else len(planned),
        more_may_follow=not finished and manifest is not None and manifest.repeats_until_sharp,
        done=len(rows),
        rows=sum(rows.values()),
        last_part_at_s=last,
        last_part_age_s=None if last is None else max((time.time() if now_s is None else now_s) - last, 0.0),
        chunks_per_s=rate,
        rows_per_s=None if recent is None else sum(rows[part] for part in recent[0]) / recent[1],
        left_s=0.0 if finished else None if rate is None or to_come is None else to_come / rate,
        torn=torn,
        failed=failed,
        faults=faults,
    )


def failed_where(failure: Mapping[str, Any]) -> str:
    """Name the chunk that failed, or the simulations of it, by an entry of the manifest's failures."""
    known = [f"point {failure['point']}"] if "point" in failure else []
    match failure.get("replications"):
        case [first, last]:
            known.append(f"replication {first}" if first == last else f"replications {first} to {last}")
    lppms = failure.get("lppms")
    return ", ".join([*known, *(map(str, lppms) if isinstance(lppms, list) else ())]) or str(failure.get("chunk", "?"))


def _opened(place: str | os.PathLike[str]) -> tuple[RunDirectory, RunManifest | None, list[str]]:
    """Return the run, its manifest, and what is wrong with that: parts can be counted all the same."""
    try:
        run = RunDirectory.open(place)
        return run, run.manifest(), []
    except RequestError:
        raise
    except RunError as error:
        return RunDirectory(Path(place) if isinstance(place, os.PathLike) else place), None, [str(error)]


def _times(run: RunDirectory, parts: Mapping[str, int], faults: list[str]) -> dict[str, float]:
    """Return when each part came, as far as that is known."""
    times = {part: _written(run, f"events/{part}.parquet", faults) for part in parts}
    return {part: moment for part, moment in times.items() if moment is not None}


def _recent(times: Mapping[str, float], begun_s: float | None) -> tuple[Sequence[str], float] | None:
    """Return the last parts and the seconds that they took together.

    A run writes its manifest before it simulates, so only parts after that count: the time in which nothing ran,
    between a kill and going on, does not.
    """
    if begun_s is None:
        return None
    since = sorted((moment, part) for part, moment in times.items() if moment > begun_s)
    moments = [begun_s, *(moment for moment, _ in since)][-RECENT - 1 :]
    took = moments[-1] - moments[0]
    return ([part for _, part in since[-RECENT:]], took) if took > 0 else None


def _written(run: RunDirectory, name: str, faults: list[str]) -> float | None:
    """Return when a file was written; a failure is added to the faults, since parts can be counted all the same."""
    try:
        return run.file(name).written_s()
    except RunError as error:
        faults.append(str(error))
        return None
