"""Distances between cells: d_P and d_Q of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sim.errors import InvalidValue
from sim.interfaces import FloatArray
from sim.world.grid import Grid


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distance:
    """Distances in km from every cell to every other cell.

    >>> from sim.world.distances.manhattan import manhattan
    >>> manhattan(Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0)).matrix_km[0].tolist()
    [0.0, 1.0, 2.0]
    """

    kind: str
    """Kind of the distance, such as ``manhattan``."""
    matrix_km: FloatArray = field(repr=False)
    """[from cell, to cell], shape (n_cells, n_cells), in [0, inf), 0 on the diagonal; read-only."""
    shape: tuple[int, int] | None = None
    """(rows, cols) for the Manhattan distance on a full grid, which allows remapping by two weighted medians; None for
    any other distance."""

    def __post_init__(self) -> None:
        matrix_km = np.array(self.matrix_km, dtype=np.float64)
        if matrix_km.ndim != 2 or matrix_km.shape[0] != matrix_km.shape[1]:
            raise ValueError(f"matrix_km must have shape (n_cells, n_cells), got {matrix_km.shape}")
        _check_values(matrix_km)
        if (self.kind == "manhattan") != (self.shape is not None):
            raise ValueError(
                f"shape must be given for kind 'manhattan' and no other, got {self.kind!r} with shape {self.shape}"
            )
        if self.shape is not None and self.shape[0] * self.shape[1] != len(matrix_km):
            raise ValueError(f"shape must have the {len(matrix_km)} cells of matrix_km, got {self.shape}")
        matrix_km.flags.writeable = False
        object.__setattr__(self, "matrix_km", matrix_km)

    @property
    def n_cells(self) -> int:
        """Return the number of cells."""
        return len(self.matrix_km)

    @property
    def axes_km(self) -> tuple[FloatArray, FloatArray]:
        """Return the distances between rows, shape (rows, rows), and columns, (cols, cols), of a Manhattan grid."""
        if self.shape is None:
            raise ValueError(f"distance must be Manhattan on a full grid, got kind {self.kind!r} without shape")
        cols = self.shape[1]
        return self.matrix_km[::cols, ::cols], self.matrix_km[:cols, :cols]


def _check_values(matrix_km: FloatArray) -> None:
    bad = ~(np.isfinite(matrix_km) & (matrix_km >= 0.0))
    off_diagonal = np.diag(np.diag(matrix_km) != 0.0)
    for fault, rule in ((bad, "be in [0, inf)"), (off_diagonal, "be 0 on the diagonal")):
        if fault.any():
            start, end = np.argwhere(fault)[0]
            value = matrix_km[start, end]
            others = f", and {fault.sum() - 1:,} more" if fault.sum() > 1 else ""
            raise InvalidValue(
                f"distances must {rule}, found {value} from cell {start} to cell {end}{others}",
                code="invalid-distance",
            )


def east_km(grid: Grid) -> FloatArray:
    """Return the displacement to the east in km, [from cell, to cell], shape (n_cells, n_cells)."""
    return grid.x_km[None, :] - grid.x_km[:, None]


def north_km(grid: Grid) -> FloatArray:
    """Return the displacement to the north in km, [from cell, to cell], shape (n_cells, n_cells)."""
    return grid.y_km[None, :] - grid.y_km[:, None]


def smoothing_kernel(distance_km: FloatArray, smooth_km: float) -> FloatArray | None:
    """Return the kernel exp(-distance / smooth_km), [to cell, from cell], with columns that sum to 1; None for 0.

    >>> smoothing_kernel(np.array([[0.0, 1.0], [1.0, 0.0]]), 1 / np.log(3)).round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    if smooth_km == 0:
        return None
    kernel = np.exp(-distance_km.T / smooth_km)
    kernel = np.ascontiguousarray(kernel / kernel.sum(axis=0))
    kernel.flags.writeable = False
    return kernel
