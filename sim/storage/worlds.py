"""The locations and output spaces of a run, restored from its manifest."""

from __future__ import annotations

from sim.interfaces import OutputSpace
from sim.lppm import outputs
from sim.storage.manifest import RunManifest
from sim.world.grid import Grid


def grid_at(manifest: RunManifest, point: int) -> Grid:
    """Return the locations of the world at a sweep point."""
    return Grid(**manifest.world_of(point).grid)


def output_space(manifest: RunManifest, lppm: str, point: int) -> OutputSpace:
    """Return the output space of an LPPM at a sweep point."""
    return outputs.read(manifest.output_spaces[lppm], grid_at(manifest, point), point)


def has_degrees(grid: Grid) -> bool:
    """Return whether positions of a world have latitudes and longitudes.

    >>> has_degrees(Grid.rectangle(rows=1, cols=1, width_km=1.0, height_km=1.0))
    False
    """
    return grid.south is not None
