"""The locations and output spaces of a run, restored from its manifest."""

from __future__ import annotations

from sim.interfaces import OutputSpace
from sim.lppm import outputs
from sim.storage.manifest import RunManifest
from sim.world.locations import Locations


def locations_at(manifest: RunManifest, point: int) -> Locations:
    """Return the locations of the world at a sweep point."""
    return manifest.world_of(point).restore_locations()


def output_space(manifest: RunManifest, lppm: str, point: int) -> OutputSpace:
    """Return the output space of an LPPM at a sweep point."""
    return outputs.read(manifest.output_spaces[lppm], locations_at(manifest, point), point)
