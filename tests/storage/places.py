"""A run whose positions are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from sim.lppm.outputs import Places, Points, Regions, Sets
from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.run_directory import RunDirectory
from sim.world.grid import Grid
from tests.support import HOSTILE, a_manifest

GRID = Grid.region(rows=2, cols=2, south=0.0, north=2.0, west=178.0, east=180.0)
PLANE = Grid.rectangle(rows=2, cols=2, width_km=2.0, height_km=2.0)
POINTS = Points(GRID)
EAST_KM = GRID.width_km * 1.25
"""Half a degree beyond the date line."""
SPACES: dict[str, Any] = {
    "cells": "cells",
    "nothing": {"kind": "cells_or_nothing"},
    "regions": Regions(((0, 1), (2, 3)), (0, 3)).describe(),
    "sets": Sets(4, 3).describe(),
    "points": POINTS.describe(),
    "places": Places(GRID, (0.0,), (GRID.height_km,)).describe(),
}
OUTPUTS = {
    "cells": 3,
    "nothing": 4,
    "regions": 1,
    "sets": Sets(4, 3).output([0, 1, 3]),
    "points": POINTS.output(EAST_KM, 0.0),
    "places": 0,
}


def row(lppm: str, **changes: Any) -> dict[str, Any]:
    """Return a row of the log: true cell 0, estimate 2."""
    empty: dict[str, Any] = dict.fromkeys(EVENTS.names)
    known = {"event": "query", "point": 0, "replication": 0, "user": HOSTILE[0], "index": 1, "time_s": 60, "cell": 0}
    known |= {"output": OUTPUTS.get(lppm), "lppm": lppm, "attack": "markov", "estimated_index": 1, "estimate": 2}
    return empty | known | dict.fromkeys(MEASURES, 0.25) | changes


def rows() -> list[dict[str, Any]]:
    """Return a query of each mechanism under two attacks, a shift, a revised estimate and a dropped report."""
    queries = [row(lppm, attack=attack, user=HOSTILE[i]) for lppm in SPACES for i, attack in enumerate(("a", "b"))]
    queries += [row(lppm, attack="b") for lppm in SPACES]
    shift = row("cells", event="shift", shift="move", attack=None, estimated_index=None, estimate=None, output=None)
    revised = row("cells", index=2, output=None, cell=1, estimate=3)
    dropped = row("nothing", index=3, output=None, estimate=None, attack=None, estimated_index=None)
    return [shift, *queries, dropped, revised]


def a_run(folder: Path, *, grid: Grid = GRID, log: list[dict[str, Any]] | None = None) -> RunDirectory:
    """Return a run with two equal parts of replications 0 and 1."""
    run = RunDirectory.create(folder)
    world = {"points": [0], "grid": grid.describe(), "roads": None, "traces": {}}
    run.write_manifest(a_manifest(scenario={"name": "placed"}, worlds=[world], output_spaces=SPACES))
    for replication in (0, 1):
        own = [one | {"replication": replication} for one in (rows() if log is None else log)]
        run.write_part(f"r{replication}", pa.Table.from_pylist(own, schema=EVENTS))
    return run
