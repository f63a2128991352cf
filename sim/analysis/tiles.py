"""Tiles of a grid: squares of cells, for maps of grids with more cells than a reader or a page can use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.interfaces import FloatArray

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
