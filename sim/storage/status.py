"""How far a run is, from what is in its directory: whether it goes on, was killed or is finished.

Nothing is written and nothing is locked, so that looking never disturbs a run. What cannot be read is told and not
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
from sim.storage.run_directory import RunDirectory

RECENT = 20
"""The rate is that of the last so many chunks."""


@dataclass(frozen=True, slots=True)
class Status:
    """How far a run is. Times are seconds, moments are seconds since 1970; None is what cannot be told."""

    run: str
    finished: bool
    """Everything planned is there, and the run said that it has ended."""
    planned: int | None
    more_may_follow: bool
    """Figures decide how many replications there will be, so more chunks than these may be needed."""
    done: int
    rows: int
    last_part_at_s: float | None
    last_part_age_s: float | None
    chunks_per_s: float | None
    rows_per_s: float | None
    left_s: float | None
    """At that rate, without the chunks that failed."""
    torn: list[str]
    """Parts that are there and cannot be read: the next run repeats them."""
    failed: list[dict[str, Any]]
    """Chunks that were given up, and the command that repeats each alone."""
    faults: list[str]
    """What else cannot be read."""


def status(place: str | os.PathLike[str], *, now_s: float | None = None) -> Status:
    """Look at a run, from the outside."""
    run, manifest, faults = _opened(place)
    found = run.parts()
    plan = manifest.get("parts")
    planned = {str(part) for part in plan} if isinstance(plan, list) else None
    rows: dict[str, int] = {}
    torn = []
    for part in found if planned is None else [part for part in found if part in planned]:
        try:
            rows[part] = run.read_part(part, []).num_rows
        except RunError:
            torn.append(part)
    failed = [entry for entry in _failures(manifest) if str(entry.get("chunk")) not in rows]
    times = _times(run, rows)
    recent = _recent(times, _written(run, "manifest.json"))
    rate = None if recent is None else len(recent[0]) / recent[1]
    missing = None if planned is None else len(planned) - len(rows)
    finished = manifest.get("finished") is True and not missing
    to_come = None if missing is None else max(missing - len(failed), 0)
    last = max(times.values(), default=None)
    return Status(
        run=str(place),
        finished=finished,
        planned=None if planned is None else len(planned),
        more_may_follow=not finished and _until_sharp(manifest),
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
    """Say which chunk failed, or which of its simulations, by what a manifest tells of it."""
    known = [f"point {failure['point']}"] if "point" in failure else []
    match failure.get("replications"):
        case [first, last]:
            known.append(f"replication {first}" if first == last else f"replications {first} to {last}")
    lppms = failure.get("lppms")
    return ", ".join([*known, *(map(str, lppms) if isinstance(lppms, list) else ())]) or str(failure.get("chunk", "?"))


def _opened(place: str | os.PathLike[str]) -> tuple[RunDirectory, dict[str, Any], list[str]]:
    """Return the run, its manifest, and what is wrong with that: parts can be counted all the same."""
    try:
        run = RunDirectory.open(place)
        return run, run.manifest(), []
    except RequestError:
        raise
    except RunError as error:
        return RunDirectory(Path(place) if isinstance(place, os.PathLike) else place), {}, [str(error)]


def _until_sharp(manifest: Mapping[str, Any]) -> bool:
    scenario = manifest.get("scenario")
    return isinstance(scenario, dict) and isinstance(scenario.get("replications"), dict)


def _failures(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the manifest says of chunks that were given up."""
    told = manifest.get("failures")
    return [dict(entry) for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []


def _times(run: RunDirectory, parts: Mapping[str, int]) -> dict[str, float]:
    """Return when each part came, as far as that is known."""
    times = {part: _written(run, f"events/{part}.parquet") for part in parts}
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


def _written(run: RunDirectory, name: str) -> float | None:
    try:
        return run.file(name).written_s()
    except RunError:
        return None
