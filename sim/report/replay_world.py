"""World of the replay: cells of a grid or other locations, tiles of beliefs, and roads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.analysis.map_frame import MapFrame
from sim.analysis.result import Result
from sim.analysis.tiles import Squares, Tiles
from sim.analysis.trajectories import map_tiles
from sim.interfaces import FloatArray, IntArray
from sim.report.packing import pack
from sim.world import LocationSet

MOST_ROADS = 60_000
"""Maximum number of roads on a map; more would be illegible and leave too little space for the users."""
MOST_VERTICES = 80_000
"""Maximum number of vertices of the outlines of all locations."""
MOST_LABELS = 150_000
"""Maximum number of characters of the labels of all locations; more leave too little space for the users."""
_STEPS = (8000, 4000, 2000, 1000, 500)
"""Numbers of steps per longer side to which vertices are rounded, until there are few enough."""

Corner = tuple[float, float]


def replay_world(result: Result, point: int) -> dict[str, Any]:
    """Return the world of a sweep point in the format of the page."""
    world = result.manifest.world_of(point)
    tiles = map_tiles(result.run, point)
    if world.grid is not None:
        assert isinstance(tiles, Tiles)
        places = {name: world.grid[name] for name in ("rows", "cols", "width_km", "height_km")}
        places["tiles"] = dict(zip(("rows", "cols"), tiles.shape, strict=True)) | {"size": tiles.size}
        corner = (0.0, 0.0)
    else:
        locations = world.restore_locations()
        assert isinstance(locations, LocationSet)
        assert not isinstance(tiles, Tiles)
        frame = MapFrame.of(locations)
        corner = (frame.west_km, frame.south_km)
        places = packed_places(locations, frame) | {"tiles": _squares(tiles)}
    return places | {"roads": None if world.roads is None else _roads(world.roads, corner)}


def packed_places(locations: LocationSet, frame: MapFrame) -> dict[str, Any]:
    """Return positions, labels and outlines of locations, relative to the south-west corner of the frame."""
    outlines, labels = locations.outlines, locations.labels
    drawn = None if outlines is None else _outlines(outlines, frame)
    return {
        "kind": locations.kind,
        "width_km": frame.width_km,
        "height_km": frame.height_km,
        "spacing_km": frame.spacing_km,
        "x_m": pack(np.rint((locations.x_km - frame.west_km) * 1000).astype(np.int32)),
        "y_m": pack(np.rint((locations.y_km - frame.south_km) * 1000).astype(np.int32)),
        "labels": list(labels) if labels and sum(map(len, labels)) <= MOST_LABELS else None,
        "outlines": drawn,
        "too_detailed": outlines is not None and drawn is None,
    }


def _squares(tiles: Squares | None) -> dict[str, Any] | None:
    return None if tiles is None else {"rows": tiles.rows, "cols": tiles.cols, "side_km": tiles.side_km}


def _outlines(outlines: Sequence[FloatArray], frame: MapFrame) -> dict[str, Any] | None:
    """Return the outlines in rounded coordinates; None if they have too many vertices even at the lowest resolution.

    Each coordinate is the difference from the previous one, which has fewer digits.
    """
    closed = all(np.array_equal(one[0], one[-1]) for one in outlines)
    vertices = np.concatenate([one[:-1] if closed else one for one in outlines])
    owner = np.repeat(np.arange(len(outlines)), [len(one) - closed for one in outlines])
    for steps in _STEPS:
        step_m = max(1000 * max(frame.width_km, frame.height_km) / steps, 1.0)
        rounded, own = _rounded((vertices - (frame.west_km, frame.south_km)) * 1000 / step_m, owner)
        if len(rounded) <= MOST_VERTICES:
            start = np.searchsorted(own, np.arange(len(outlines) + 1))
            x, y = np.diff(rounded, axis=0, prepend=0).T
            return {
                "closed": closed,
                "step_m": step_m,
                "start": pack(start.astype(np.uint32)),
                "x": pack(x.astype(np.int32)),
                "y": pack(y.astype(np.int32)),
            }
    return None


def _rounded(vertices: FloatArray, owner: IntArray) -> tuple[IntArray, IntArray]:
    """Return rounded vertices and their owners, without repeated vertices."""
    rounded = np.rint(vertices).astype(np.int64)
    differs = np.ones(len(rounded), dtype=bool)
    differs[1:] = (owner[1:] != owner[:-1]) | (rounded[1:] != rounded[:-1]).any(axis=1)
    return rounded[differs], owner[differs]


def _roads(roads: Mapping[str, Any], corner: Corner) -> dict[str, Any] | None:
    """Return the roads to draw, with both directions merged, relative to a corner in km."""
    ends = np.sort(np.array([roads["edge_from"], roads["edge_to"]], dtype=np.int64), axis=0)
    ends = np.unique(ends[:, ends[0] != ends[1]], axis=1)
    if not ends.size or ends.shape[1] > MOST_ROADS:
        return None
    used, places = np.unique(ends, return_inverse=True)
    x_m, y_m = (
        np.array(roads[name])[used] - round(1000 * low) for name, low in zip(("x_m", "y_m"), corner, strict=True)
    )
    return {
        "x_m": pack(x_m.astype(np.int32)),
        "y_m": pack(y_m.astype(np.int32)),
        "from": pack(places.reshape(2, -1)[0].astype(np.uint32)),
        "to": pack(places.reshape(2, -1)[1].astype(np.uint32)),
    }
