"""Base classes of the parameters of grids, roads and distances."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from sim.components.files import Place
from sim.components.registry import Parameters
from sim.components.spec import Count
from sim.errors import InvalidValue
from sim.interfaces import Generator
from sim.world.distance import Distance
from sim.world.grid import Grid

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

MOST_CELLS = 10_000_000
"""Largest number of cells; more indicate a mistake in the scenario. What a run can use is limited by memory, which
`lppm-sim check` estimates."""


class GridParameters(Parameters):
    """Parameters of a grid."""

    rows: Count
    """Number of cells from south to north."""
    cols: Count
    """Number of cells from west to east."""

    on_earth: ClassVar[bool] = True
    """Whether the grid is georeferenced, that is, has latitudes and longitudes."""

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.rows * self.cols

    @model_validator(mode="after")
    def _few_cells(self) -> Self:
        if self.n_cells > MOST_CELLS:
            raise InvalidValue(
                f"a grid must have at most {MOST_CELLS:,} cells, rows x cols, found {self.rows:,} x {self.cols:,}",
                code="too-many-cells",
            )
        return self

    @abstractmethod
    def build(self) -> Grid:
        """Return the grid."""


class RoadsParameters(Parameters):
    """Parameters of a road graph."""

    needs_earth: ClassVar[bool] = False
    """Whether the nodes are in degrees, which requires a georeferenced grid."""

    @abstractmethod
    def build(self, grid: Grid, place: Place, rng: Generator) -> Roads:
        """Return the roads on a grid; `place` resolves file names."""


class DistanceParameters(Parameters):
    """Parameters of a distance between cells."""

    needs_roads: ClassVar[bool] = False
    is_dense: ClassVar[bool] = False
    """Whether the distance is held as a matrix over all pairs of cells on any grid."""
    """Whether the distance is measured along roads."""

    @abstractmethod
    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:
        """Return the distance between the cells of a grid; `place` resolves file names."""
