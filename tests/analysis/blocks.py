"""Runs whose parts are cut into blocks of users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.result import Result
from sim.storage.manifest import RunManifest
from sim.storage.part_ids import part_id, point_in, replications_in
from sim.storage.run_directory import RunDirectory


def cut(result: Result, folder: Path, starts: Sequence[int]) -> Result:
    """Return a copy of a run whose parts are cut into blocks of users that start at these positions."""
    run, copy = result.run, RunDirectory.create(folder)
    copy = RunDirectory(copy.place, digest=run.digest)
    names = list(dict.fromkeys(user for table in run.tables(["user"]) for user in table["user"].to_pylist()))
    blocks = list(zip(starts, [*starts[1:], len(names)], strict=True))
    ids = []
    for part in run.parts():
        point, table, notes = point_in(part), run.read_part(part), run.notes(part)
        snapshots = run.snapshots(part)
        assert point is not None
        for first, stop in blocks:
            own = pa.array(names[first:stop], pa.string())
            rows = table.filter(pc.is_in(table["user"], own))
            kept = [user in set(names[first:stop]) for user in snapshots.get("user", [])]
            arrays = {name: array[kept] for name, array in snapshots.items()} if snapshots else None
            ids.append(part_id(point, replications_in(part), part[-10:], range(first, stop)))
            copy.write_part(ids[-1], rows, notes, snapshots=arrays)
    copy.write_csv("points.csv", result.points())
    copy.write_manifest(_with_parts(result.manifest, ids))
    return Result.open(folder)


def _with_parts(manifest: RunManifest, ids: Sequence[str]) -> RunManifest:
    changes: dict[str, Any] = {"parts": sorted(ids)}
    return manifest.updated(**changes)
