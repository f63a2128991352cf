"""Parameters that the kinds of grids, roads and distances share."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from sim.components.files import Place
from sim.components.registry import Parameters
from sim.components.spec import Count
from sim.interfaces import Generator
from sim.world.distance import Distance
from sim.world.grid import Grid

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

MOST_CELLS = 10_000
"""Distances are stored for every pair of cells: 0.8 GB for this many."""


class GridParameters(Parameters):
    """Parameters of a grid."""

    rows: Count
    """Cells from south to north."""
    cols: Count
    """Cells from west to east."""

    on_earth: ClassVar[bool] = True
    """Whether places have a latitude and a longitude."""

    @model_validator(mode="after")
    def _few_cells(self) -> Self:
        if self.rows * self.cols > MOST_CELLS:
            raise ValueError(
                f"a grid must have at most {MOST_CELLS:,} cells, rows x cols, found {self.rows:,} x {self.cols:,}"
            )
        return self

    @abstractmethod
    def build(self) -> Grid:
        """Return the grid."""


class RoadsParameters(Parameters):
    """Parameters of a road graph."""

    needs_earth: ClassVar[bool] = False
    """Whether its nodes are given in degrees."""

    @abstractmethod
    def build(self, grid: Grid, place: Place, rng: Generator) -> Roads:
        """Return the roads on a grid; files are found by `place`."""


class DistanceParameters(Parameters):
    """Parameters of a distance between cells."""

    needs_roads: ClassVar[bool] = False
    """Whether it is measured along roads."""

    @abstractmethod
    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:
        """Return the distance between the cells of a grid; files are found by `place`."""
