"""Tiles of a map, which sum beliefs about more locations than a reader or a page can use."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from sim.analysis.map_frame import MapFrame
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import Locations

MOST_TILES = 4_000
"""Largest number of tiles of a map."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Squares of `size` x `size` cells, from the south-west corner; those at the other borders may be cut."""

    rows: int
    cols: int
    """Numbers of rows and columns of cells."""
    size: int

    @classmethod
    def of(cls, rows: int, cols: int, most: int = MOST_TILES) -> Tiles:
        """Return the smallest tiles of which there are at most `most`.

        >>> Tiles.of(24, 14), Tiles.of(240, 140)
        (Tiles(rows=24, cols=14, size=1), Tiles(rows=240, cols=140, size=3))
        """
        size = 1
        while -(-rows // size) * -(-cols // size) > most:
            size += 1
        return cls(rows, cols, size)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of tiles."""
        return -(-self.rows // self.size), -(-self.cols // self.size)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum over the cells of each tile, shape (n, tiles), of values of shape (n, cells).

        >>> Tiles(2, 3, 2).sums(np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])).tolist()
        [[12.0, 9.0]]
        """
        if self.size == 1:
            return values
        down, across = self.shape
        grid = np.zeros((len(values), down * self.size, across * self.size))
        grid[:, : self.rows, : self.cols] = values.reshape(-1, self.rows, self.cols)
        blocks = grid.reshape(len(values), down, self.size, across, self.size)
        sums: FloatArray = blocks.sum(axis=(2, 4)).reshape(len(values), down * across)
        return sums


@dataclass(frozen=True, slots=True)
class Squares:
    """A raster of squares over the frame of a map, from the south-west corner; each location belongs to one."""

    rows: int
    cols: int
    """Numbers of rows and columns of squares."""
    side_km: float
    square: IntArray = field(repr=False)
    """The square of each location, row by row, shape (n_cells,)."""

    @classmethod
    def of(cls, locations: Locations, most: int = MOST_TILES) -> Self | None:
        """Return the smallest squares of which there are at most `most`; None if there are no more locations."""
        if locations.n_cells <= most:
            return None
        frame = MapFrame.of(locations)
        side_km = math.sqrt(frame.width_km * frame.height_km / most)
        while math.ceil(frame.height_km / side_km) * math.ceil(frame.width_km / side_km) > most:
            side_km *= 1.01
        rows, cols = math.ceil(frame.height_km / side_km), math.ceil(frame.width_km / side_km)
        row = np.minimum((locations.y_km - frame.south_km) // side_km, rows - 1).astype(np.int64)
        col = np.minimum((locations.x_km - frame.west_km) // side_km, cols - 1).astype(np.int64)
        return cls(rows, cols, side_km, row * cols + col)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum over the locations of each square, shape (n, squares), of values of shape (n, n_cells)."""
        sums = np.zeros((len(values), self.rows * self.cols))
        for row, own in enumerate(values):
            sums[row] = np.bincount(self.square, weights=own, minlength=self.rows * self.cols)
        return sums
