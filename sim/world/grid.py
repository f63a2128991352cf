"""Grid of cells on a plane.

A cell is an integer, numbered row by row from the south-west: row 0 is the southernmost, column 0 the westernmost.
Positions are in km east and north of the south-west corner, and also in degrees if the grid is georeferenced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import ArrayLike

from sim.errors import InvalidValue
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import Bounds, Locations

BORDER_KM = 1e-9
"""Tolerance at the outer border (1 micrometre): conversion to degrees and back has errors of about 1e-12 km."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid(Locations):
    """A rectangle of rows x cols equal cells, georeferenced or not.

    Use `Grid.rectangle`, `Grid.region` or `Grid.san_francisco`.

    >>> grid = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)
    >>> grid.x_km.tolist()
    [0.5, 1.5, 2.5, 0.5, 1.5, 2.5]
    >>> grid.cell_of_km([0.1, 3.0, 3.1], [0.1, 2.0, 1.0]).tolist()
    [0, 5, -1]
    """

    rows: int
    """Number of cells from south to north, in [1, inf)."""
    cols: int
    """Number of cells from west to east, in [1, inf)."""
    width_km: float
    """Extent from west to east in km, in (0, inf)."""
    height_km: float
    """Extent from south to north in km, in (0, inf)."""
    south: float | None = None
    """Southern edge in degrees; None if the grid is not georeferenced."""
    north: float | None = None
    """Northern edge in degrees; None if the grid is not georeferenced."""
    west: float | None = None
    """Western edge in degrees; None if the grid is not georeferenced."""
    east: float | None = None
    """Eastern edge in degrees; None if the grid is not georeferenced."""
    x_km: FloatArray = field(init=False, repr=False, compare=False)
    """Centres of the cells in km east of the south-west corner, shape (n_cells,)."""
    y_km: FloatArray = field(init=False, repr=False, compare=False)
    """Centres of the cells in km north of the south-west corner, shape (n_cells,)."""
    col_x_km: FloatArray = field(init=False, repr=False, compare=False)
    """Centres of the columns in km east of the south-west corner, shape (cols,)."""
    row_y_km: FloatArray = field(init=False, repr=False, compare=False)
    """Centres of the rows in km north of the south-west corner, shape (rows,)."""

    def __post_init__(self) -> None:
        for name, count in (("rows", self.rows), ("cols", self.cols)):
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise ValueError(f"{name} must be an integer in [1, inf), got {count!r}")
        for name, km in (("width_km", self.width_km), ("height_km", self.height_km)):
            if not 0.0 < km < math.inf:
                raise ValueError(f"{name} must be in (0, inf), got {km}")
        bounds = (self.south, self.north, self.west, self.east)
        if any(bound is None for bound in bounds) != all(bound is None for bound in bounds):
            raise ValueError(f"south, north, west and east must be all numbers or all None, got {bounds}")
        col_x_km = (np.arange(self.cols) + 0.5) * self.width_km / self.cols
        row_y_km = (np.arange(self.rows) + 0.5) * self.height_km / self.rows
        arrays = {
            "col_x_km": col_x_km,
            "row_y_km": row_y_km,
            "x_km": np.tile(col_x_km, self.rows),
            "y_km": np.repeat(row_y_km, self.cols),
        }
        for name, array in arrays.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def rectangle(cls, *, rows: int, cols: int, width_km: float, height_km: float) -> Grid:
        """Return a grid without latitudes and longitudes."""
        return cls(rows=rows, cols=cols, width_km=float(width_km), height_km=float(height_km))

    @classmethod
    def region(cls, *, rows: int, cols: int, south: float, north: float, west: float, east: float) -> Grid:
        """Return a grid over a region given in degrees.

        The projection is equirectangular with the cosine of the central latitude everywhere. The cells therefore form
        a product grid in km, as required by the fast remapping under the Manhattan distance.
        """
        if not -90.0 <= south < north <= 90.0:
            raise InvalidValue(
                f"latitudes must satisfy -90 <= south < north <= 90, got south={south}, north={north}",
                code="invalid-region",
            )
        if not -180.0 <= west < east <= 180.0:
            raise InvalidValue(
                f"longitudes must satisfy -180 <= west < east <= 180, got west={west}, east={east}",
                code="invalid-region",
            )
        width_km, height_km = Bounds(south, north, west, east).size_km
        return cls(
            rows=rows,
            cols=cols,
            width_km=width_km,
            height_km=height_km,
            south=float(south),
            north=float(north),
            west=float(west),
            east=float(east),
        )

    @classmethod
    def san_francisco(cls, *, rows: int = 25, cols: int = 10) -> Grid:
        """Return a grid over the region of Oya et al. 2019, section "Datasets"."""
        return cls.region(rows=rows, cols=cols, south=37.5500, north=37.8010, west=-122.5153, east=-122.3789)

    @property
    def n_cells(self) -> int:
        """Return the number of cells, |X| of the paper."""
        return self.rows * self.cols

    @property
    def shape(self) -> tuple[int, int]:
        """Return (rows, cols)."""
        return (self.rows, self.cols)

    def cell_of_km(self, x_km: ArrayLike, y_km: ArrayLike) -> IntArray:
        """Return the cell of each position given in km, -1 outside the grid.

        The southern and western borders belong to a cell; the outer northern and eastern borders belong to the last
        row and column.
        """
        col = _slot(x_km, self.width_km, self.cols)
        row = _slot(y_km, self.height_km, self.rows)
        return np.where((row >= 0) & (col >= 0), row * self.cols + col, -1)

    def nearest(self, x_km: ArrayLike, y_km: ArrayLike) -> IntArray:
        """Return the cell that is nearest to each position given in km, wherever the position is."""
        return self.cell_of_km(np.clip(x_km, 0.0, self.width_km), np.clip(y_km, 0.0, self.height_km))

    @property
    def cell_size_km(self) -> tuple[float, float]:
        """Return the extent of a cell from west to east and from south to north in km."""
        return self.width_km / self.cols, self.height_km / self.rows

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Return the kind of the locations."""
        return "grid"

    @property
    def labels(self) -> None:  # type: ignore[override]
        """Return None: cells have no labels."""
        return None

    @property
    def weights(self) -> None:  # type: ignore[override]
        """Return None: cells have no weights."""
        return None

    @property
    def bounds(self) -> Bounds | None:  # type: ignore[override]
        """Return the region in degrees; None if the grid is not georeferenced."""
        if self.south is None or self.north is None or self.west is None or self.east is None:
            return None
        return Bounds(self.south, self.north, self.west, self.east)

    def summary(self) -> str:
        """Return number and size of the cells in words."""
        width_km, height_km = self.cell_size_km
        each = f"{1000 * width_km:,.0f} m (east-west) x {1000 * height_km:,.0f} m (north-south)"
        return f"{self.n_cells:,} ({self.rows:,} rows x {self.cols:,} columns) of {each}"

    def describe(self) -> dict[str, int | float | None]:
        """Return the manifest entry: the keyword arguments from which `Grid(**...)` restores this grid."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}


def require_grid(locations: Locations) -> Grid:
    """Return the locations if they are the cells of a grid; raise `InvalidValue` otherwise."""
    if isinstance(locations, Grid):
        return locations
    raise InvalidValue(
        f"needs the cells of a grid, found locations of kind {locations.kind}: use `world.grid`", code="needs-grid"
    )


def _slot(km: ArrayLike, length_km: float, count: int) -> IntArray:
    """Return the index of the slot that contains each position, of `count` equal slots in [0, length_km].

    Positions outside and NaN give -1.
    """
    position = np.asarray(km, dtype=np.float64)
    edges = np.linspace(0.0, length_km, count + 1)
    slot = np.clip(np.searchsorted(edges, position, side="right") - 1, 0, count - 1)
    inside = (position >= -BORDER_KM) & (position <= length_km + BORDER_KM)
    return np.where(inside, slot, -1)
