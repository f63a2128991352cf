"""Generated road network: a lattice of streets with avenues, one-way streets and missing blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from sim.components.files import Place
from sim.components.registry import component
from sim.components.spec import Positive, Share
from sim.errors import InvalidValue
from sim.interfaces import FloatArray, Generator
from sim.world.locations import Locations
from sim.world.parameters import RoadsParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Edge, Roads

MOST_CROSSINGS = 200_000
"""Largest number of crossings of a lattice."""

Speed = Annotated[float, Field(ge=0.1, le=1000)]


@component("roads")
class LatticeParameters(RoadsParameters):
    """A generated lattice of streets with one-way streets, missing blocks and faster avenues."""

    kind: Literal["lattice"] = "lattice"
    spacing_km: Positive = 0.5
    """Distance between parallel streets in km."""
    one_way_share: Share = 0.3
    """Share of the streets, not counting avenues, that are one-way."""
    missing_share: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Share of the blocks (road sections between two neighbouring crossings) that are missing."""
    speed_kmh: Speed = 30.0
    """Speed on streets in km/h."""
    avenue_every: Annotated[int, Field(ge=2)] = 4
    """Interval between avenues in streets: with 4, every fourth street is an avenue. Avenues are always two-way."""
    avenue_speed_kmh: Speed = 50.0
    """Speed on avenues in km/h."""

    def build(self, locations: Locations, place: Place, rng: Generator) -> Roads:  # noqa: ARG002
        """Return the roads."""
        return lattice(locations, rng=rng, **{name: value for name, value in self if name != "kind"})


def lattice(
    locations: Locations,
    *,
    spacing_km: float = 0.5,
    one_way_share: float = 0.3,
    missing_share: float = 0.1,
    speed_kmh: float = 30.0,
    avenue_every: int = 4,
    avenue_speed_kmh: float = 50.0,
    rng: Generator,
) -> Roads:
    """Generate straight streets at distances of `spacing_km`, centred in the rectangle of the grid.

    Every `avenue_every`-th line (0: none) is an avenue, two-way and faster. A share of the other lines is one-way over
    their full length, in alternating directions. A share of all blocks is missing.
    """
    from sim.world.roads.graph import build_roads  # networkx and scipy take half a second to import

    for name, share in (("one_way_share", one_way_share), ("missing_share", missing_share)):
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} must be in [0, 1], got {share}")
    if not 0.0 < spacing_km < math.inf:
        raise ValueError(f"spacing_km must be in (0, inf), got {spacing_km}")
    if avenue_every < 0:
        raise ValueError(f"avenue_every must be in [0, inf), got {avenue_every}")
    _check_size(locations, spacing_km)
    x_km, y_km = _ticks(locations.width_km, spacing_km), _ticks(locations.height_km, spacing_km)
    number = np.arange(len(x_km) * len(y_km)).reshape(len(y_km), len(x_km))
    blocks: list[tuple[int, int, int, float]] = []
    for lines in (number.tolist(), number.T.tolist()):
        avenue = [avenue_every > 0 and i % avenue_every == 0 for i in range(len(lines))]
        directions = _directions(avenue, one_way_share, rng)
        for line, fast, direction in zip(lines, avenue, directions, strict=True):
            kmh = avenue_speed_kmh if fast else speed_kmh
            blocks += [(u, v, direction, kmh) for u, v in pairwise(line)]
    missing = rng.permutation(len(blocks))[: round(missing_share * len(blocks))]
    edges: list[Edge] = []
    for i in sorted(set(range(len(blocks))) - set(missing.tolist())):
        u, v, direction, kmh = blocks[i]
        edges += [(u, v, spacing_km, kmh)] * (direction >= 0) + [(v, u, spacing_km, kmh)] * (direction <= 0)
    places = zip(np.tile(x_km, len(y_km)).tolist(), np.repeat(y_km, len(x_km)).tolist(), strict=True)
    return build_roads(locations, dict(enumerate(places)), edges)


def _check_size(locations: Locations, spacing_km: float) -> None:
    """Reject a lattice of a single crossing and one that would exceed the memory."""
    crossings = _lines(locations.width_km, spacing_km) * _lines(locations.height_km, spacing_km)
    if not 2 <= crossings <= MOST_CROSSINGS:
        raise InvalidValue(
            f"spacing_km must give 2 to {MOST_CROSSINGS:,} crossings in a region of {locations.width_km:g} x "
            f"{locations.height_km:g} km, got {spacing_km:g}, which gives {crossings:,}",
            code="lattice-size",
        )


def _lines(length_km: float, spacing_km: float) -> int:
    return max(1, math.floor(length_km / spacing_km + 1e-9))


def _ticks(length_km: float, spacing_km: float) -> FloatArray:
    """Return positions at distances of `spacing_km`, with equal margins of half a spacing to one at both ends."""
    count = _lines(length_km, spacing_km)
    margin_km = (length_km - (count - 1) * spacing_km) / 2.0
    return margin_km + np.arange(count, dtype=np.float64) * spacing_km


def _directions(avenue: Sequence[bool], one_way_share: float, rng: Generator) -> list[int]:
    """Return 0 for each two-way line, and alternately 1 and -1 for one-way lines."""
    streets = [i for i, fast in enumerate(avenue) if not fast]
    one_way = sorted(rng.permutation(streets)[: round(one_way_share * len(streets))].tolist())
    first = 1 - 2 * int(rng.integers(2))
    directions = [0] * len(avenue)
    for turn, i in enumerate(one_way):
        directions[int(i)] = first * (-1) ** turn
    return directions
