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

EARTH_RADIUS_KM = 6371.0088
KM_PER_DEGREE = EARTH_RADIUS_KM * math.pi / 180.0
BORDER_KM = 1e-9
"""Tolerance at the outer border (1 micrometre): conversion to degrees and back has errors of about 1e-12 km."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
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
        return cls(
            rows=rows,
            cols=cols,
            width_km=(east - west) * _km_per_degree_east(south, north),
            height_km=(north - south) * KM_PER_DEGREE,
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

    def cell_of(self, lat: ArrayLike, lon: ArrayLike) -> IntArray:
        """Return the cell of each position given in degrees, -1 outside the region."""
        return self.cell_of_km(*self.to_km(lat, lon))

    def to_km(self, lat: ArrayLike, lon: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return (x_km, y_km) of positions given in degrees."""
        south, west, km_per_degree_east = self._projection()
        x_km = (np.asarray(lon, dtype=np.float64) - west) * km_per_degree_east
        y_km = (np.asarray(lat, dtype=np.float64) - south) * KM_PER_DEGREE
        return x_km, y_km

    def to_degrees(self, x_km: ArrayLike, y_km: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return (lat, lon) of positions given in km."""
        south, west, km_per_degree_east = self._projection()
        lat = south + np.asarray(y_km, dtype=np.float64) / KM_PER_DEGREE
        lon = west + np.asarray(x_km, dtype=np.float64) / km_per_degree_east
        return lat, lon

    @property
    def km_per_degree(self) -> tuple[float, float]:
        """Return the km per degree of latitude and of longitude."""
        return KM_PER_DEGREE, self._projection()[2]

    def describe(self) -> dict[str, int | float | None]:
        """Return the manifest entry: the keyword arguments from which `Grid(**...)` restores this grid."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def _projection(self) -> tuple[float, float, float]:
        if self.south is None or self.north is None or self.west is None:
            raise InvalidValue(
                "the grid has no latitudes and longitudes: use Grid.region, or a grid of kind region or san_francisco",
                code="no-coordinates",
            )
        return self.south, self.west, _km_per_degree_east(self.south, self.north)


def _km_per_degree_east(south: float, north: float) -> float:
    return KM_PER_DEGREE * math.cos(math.radians((south + north) / 2.0))


def _slot(km: ArrayLike, length_km: float, count: int) -> IntArray:
    """Return the index of the slot that contains each position, of `count` equal slots in [0, length_km].

    Positions outside and NaN give -1.
    """
    position = np.asarray(km, dtype=np.float64)
    edges = np.linspace(0.0, length_km, count + 1)
    slot = np.clip(np.searchsorted(edges, position, side="right") - 1, 0, count - 1)
    inside = (position >= -BORDER_KM) & (position <= length_km + BORDER_KM)
    return np.where(inside, slot, -1)
