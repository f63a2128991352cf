"""Posterior mass around the true cell: the adversary's probability that the user is within some radii of it."""

from __future__ import annotations

import numpy as np

from sim.interfaces import FloatArray, IntArray
from sim.storage.event_schema import POSTERIOR_WITHIN_KM
from sim.world.grid import BORDER_KM, Grid

RADII_KM = np.array(sorted(POSTERIOR_WITHIN_KM))
"""Radii of the recorded masses."""


_MOST_STORED = 4_000_000
"""Largest number of neighbours in memory, 8 bytes each; those of further cells are computed again."""
_Neighbours = tuple[IntArray, IntArray]
"""The cells within the largest radius, by distance, and the position of the last one within each radius."""


class PosteriorMass:
    """Posterior mass within each of `RADII_KM` of a cell, by the straight distance of the centres of cells.

    On a grid of equal cells, the cells within a radius are the same at every cell but for the border. So the offsets of
    one window serve all cells; its neighbours are stored for the cells that are asked for. Time and memory are those of
    the cells within the largest radius, not of all pairs of cells.

    >>> mass = PosteriorMass(Grid.rectangle(rows=1, cols=4, width_km=2.0, height_km=0.5))
    >>> mass.around(np.array([0.5, 0.0, 0.25, 0.25]), 2).tolist()
    [0.25, 0.5, 0.5, 1.0]
    """

    def __init__(self, grid: Grid) -> None:
        self._grid, (self._rows, self._cols) = grid, grid.shape
        height, width = grid.height_km / grid.rows, grid.width_km / grid.cols
        reach = RADII_KM[-1] + BORDER_KM
        up, right = min(int(reach / height), grid.rows - 1), min(int(reach / width), grid.cols - 1)
        north, east = np.mgrid[-up : up + 1, -right : right + 1].reshape(2, -1)
        apart = np.hypot(north * height, east * width)
        order = np.argsort(apart, kind="stable")[: np.count_nonzero(apart <= reach)]
        self._north, self._east, self._apart = north[order], east[order], apart[order]
        self._neighbours: dict[int, _Neighbours] = {}
        self._most = max(_MOST_STORED // len(order), 1)

    def __reduce__(self) -> tuple[type[PosteriorMass], tuple[Grid]]:
        """Return how to restore it from a checkpoint, which does not need the neighbours."""
        return PosteriorMass, (self._grid,)

    def around(self, posterior: FloatArray, cell: int) -> FloatArray:
        """Return the mass within each radius of a cell, shape (n_radii,), from a posterior of shape (n_cells,)."""
        known = self._neighbours.get(cell)
        if known is None:
            known = self._found(cell)
            if len(self._neighbours) < self._most:
                self._neighbours[cell] = known
        cells, last = known
        return posterior.take(cells).cumsum().take(last)

    def _found(self, cell: int) -> _Neighbours:
        row, col = divmod(cell, self._cols)
        rows, cols = row + self._north, col + self._east
        inside = (rows >= 0) & (rows < self._rows) & (cols >= 0) & (cols < self._cols)
        cells = (rows * self._cols + cols)[inside]
        return cells, np.searchsorted(self._apart[inside], RADII_KM + BORDER_KM, side="right") - 1
