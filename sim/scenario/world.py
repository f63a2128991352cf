"""The world of a scenario: grid, roads, distances."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, Tag, model_validator

from sim.components.files import FileName
from sim.components.kinds import Count, Positive, Share, by_kind, short_form
from sim.scenario.reading.validation import Spec

MOST_CELLS = 10_000
"""Distances are kept for every pair of cells: 0.8 GB for so many."""

Speed = Annotated[float, Field(ge=0.1, le=1000)]


class SanFrancisco(Spec):
    """The paper's grid: latitude 37.55 to 37.801, longitude -122.5153 to -122.3789, 25 x 10 cells."""

    kind: Literal["san_francisco"] = "san_francisco"
    rows: Count = 25
    """Cells from south to north."""
    cols: Count = 10
    """Cells from west to east."""


class Region(Spec):
    """A grid over a region between two latitudes and two longitudes, in degrees."""

    kind: Literal["region"]
    rows: Count
    """Cells from south to north."""
    cols: Count
    """Cells from west to east."""
    south: Annotated[float, Field(ge=-85, le=85)]
    """Southern edge, in degrees."""
    north: Annotated[float, Field(ge=-85, le=85)]
    """Northern edge, in degrees."""
    west: Annotated[float, Field(ge=-180, le=180)]
    """Western edge, in degrees."""
    east: Annotated[float, Field(ge=-180, le=180)]
    """Eastern edge, in degrees."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.south >= self.north or self.west >= self.east:
            raise ValueError(
                "south must be below north and west below east, "
                f"found {self.south}..{self.north} and {self.west}..{self.east}"
            )
        return self


class Rectangle(Spec):
    """A grid over a rectangle in km, with no place on earth."""

    kind: Literal["rectangle"]
    rows: Count
    """Cells from south to north."""
    cols: Count
    """Cells from west to east."""
    width_km: Positive
    """From west to east."""
    height_km: Positive
    """From south to north."""


def _few_cells(grid: SanFrancisco | Region | Rectangle) -> SanFrancisco | Region | Rectangle:
    if grid.rows * grid.cols > MOST_CELLS:
        found = f"found {grid.rows:,} x {grid.cols:,}"
        raise ValueError(f"a grid must have at most {MOST_CELLS:,} cells, rows x cols, {found}")
    return grid


GridSpec = Annotated[
    Annotated[SanFrancisco, Tag("san_francisco")]
    | Annotated[Region, Tag("region")]
    | Annotated[Rectangle, Tag("rectangle")],
    by_kind,
    short_form,
    AfterValidator(_few_cells),
]


class Lattice(Spec):
    """A generated road grid with one-way streets, missing blocks and faster avenues."""

    kind: Literal["lattice"]
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


class RoadCsv(Spec):
    """Roads from two CSV files: nodes (osmid, lat, lon) and edges (u, v, length_m, speed_mph)."""

    kind: Literal["csv"]
    nodes: FileName
    """File of crossings."""
    edges: FileName
    """File of directed streets."""


class RoadGraphML(Spec):
    """Roads from a GraphML file as osmnx writes it."""

    kind: Literal["graphml"]
    file: FileName
    """The GraphML file."""


RoadsSpec = Annotated[
    Annotated[Lattice, Tag("lattice")] | Annotated[RoadCsv, Tag("csv")] | Annotated[RoadGraphML, Tag("graphml")],
    by_kind,
    short_form,
]


class Manhattan(Spec):
    """Distance along the axes of the grid, as in the paper."""

    kind: Literal["manhattan"] = "manhattan"


class Euclidean(Spec):
    """Straight-line distance between cell centres."""

    kind: Literal["euclidean"]


class RoadDistance(Spec):
    """Shortest distance along the roads, from one cell to the other."""

    kind: Literal["road"]


class DistanceMatrix(Spec):
    """Distances in km from a file: .npy or .csv, [from cell, to cell]."""

    kind: Literal["matrix"]
    file: FileName
    """The file, one row and one column for each cell."""


class SemanticDistance(Spec):
    """How different places are in kind: 0 between cells of one label, `apart_km` where their labels share nothing."""

    kind: Literal["semantic"]
    labels: FileName
    """A CSV file with the header cell,label and a line for each cell; a label may be a path, such as food/pizza."""
    apart_km: Annotated[float, Field(gt=0, le=1e5)] = 1.0
    """What a difference in kind is worth; labels that share the beginning of their paths are that much nearer."""


DistanceSpec = Annotated[
    Annotated[Manhattan, Tag("manhattan")]
    | Annotated[Euclidean, Tag("euclidean")]
    | Annotated[RoadDistance, Tag("road")]
    | Annotated[DistanceMatrix, Tag("matrix")]
    | Annotated[SemanticDistance, Tag("semantic")],
    by_kind,
    short_form,
]


class WorldSpec(Spec):
    """Where everything happens: cells, roads, and how far apart two cells are."""

    grid: GridSpec = SanFrancisco()
    """The cells."""
    roads: RoadsSpec | None = None
    """The streets; commuters, taxis and road distances need some."""
    privacy_distance: DistanceSpec = Manhattan()
    """d_P of the paper: how far off an adversary's estimate is."""
    quality_distance: DistanceSpec = Manhattan()
    """d_Q of the paper: what a false report costs the user."""

    @model_validator(mode="after")
    def _roads_on_earth(self) -> Self:
        if isinstance(self.roads, RoadCsv | RoadGraphML) and self.grid.kind == "rectangle":
            raise ValueError(
                f"roads from a {self.roads.kind} file need a grid on earth, found a rectangle; "
                "allowed: san_francisco, region"
            )
        return self
