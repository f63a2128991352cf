"""Kinds of roads."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.components.spec import Positive, Share
from sim.interfaces import Generator
from sim.world.grid import Grid
from sim.world.parameters import RoadsParameters
from sim.world.roads import Roads, lattice, read_csv, read_graphml

Speed = Annotated[float, Field(ge=0.1, le=1000)]


@component("roads")
class LatticeParameters(RoadsParameters):
    """A generated road grid with one-way streets, missing blocks and faster avenues."""

    kind: Literal["lattice"] = "lattice"
    spacing_km: Positive = 0.5
    """Distance between parallel streets."""
    one_way_share: Share = 0.3
    """Share of the streets that are one-way."""
    missing_share: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Share of the blocks that are not there."""
    speed_kmh: Speed = 30.0
    """Speed on streets."""
    avenue_every: Annotated[int, Field(ge=2)] = 4
    """Each k-th street is a two-way avenue."""
    avenue_speed_kmh: Speed = 50.0
    """Speed on avenues."""

    def build(self, grid: Grid, place: Place, rng: Generator) -> Roads:  # noqa: ARG002
        """Return the roads."""
        return lattice(grid, rng=rng, **{name: value for name, value in self if name != "kind"})


@component("roads")
class RoadCsvParameters(RoadsParameters):
    """Roads from two CSV files: nodes (osmid, lat, lon) and edges (u, v, length_m, speed_mph)."""

    needs_earth: ClassVar[bool] = True

    kind: Literal["csv"] = "csv"
    nodes: FileName
    """File of crossings."""
    edges: FileName
    """File of directed streets."""

    def build(self, grid: Grid, place: Place, rng: Generator) -> Roads:  # noqa: ARG002
        """Return the roads."""
        return read_csv(place.locate(self.nodes), place.locate(self.edges), grid)


@component("roads")
class RoadGraphMLParameters(RoadsParameters):
    """Roads from a GraphML file as osmnx writes it."""

    needs_earth: ClassVar[bool] = True

    kind: Literal["graphml"] = "graphml"
    file: FileName
    """The GraphML file."""

    def build(self, grid: Grid, place: Place, rng: Generator) -> Roads:  # noqa: ARG002
        """Return the roads."""
        return read_graphml(place.locate(self.file), grid)
