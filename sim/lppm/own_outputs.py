"""Matrix channels whose outputs are not the cells of the grid."""

from __future__ import annotations

import numpy as np

from sim.interfaces import FloatArray, IntArray, OutputSpace
from sim.lppm.channels.matrix import MatrixChannel
from sim.world.distance import Distance


class OwnMatrixChannel(MatrixChannel):
    """A channel given as a matrix [cell, output] over a custom output space, with the quality loss of each entry in km.

    `losses_km` has the shape of `matrix`.
    """

    countless = False

    def __init__(self, matrix: FloatArray, *, space: OutputSpace, losses_km: FloatArray) -> None:
        super().__init__(matrix)
        if losses_km.shape != self._matrix.shape:
            raise ValueError(f"losses_km must have shape {self._matrix.shape}, got {losses_km.shape}")
        self.space = space
        self._losses_km = losses_km

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected loss in km, or the expected d_Q if outputs pass through a table of cells."""
        if table is not None:
            return super().loss_km(prior, distance, table)
        return float(prior @ np.einsum("xz,xz->x", self._matrix, self._losses_km))

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return the loss in km of an output in a cell."""
        return float(self._losses_km[cell, output])

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the expected loss in km in a cell."""
        return float(self._matrix[cell] @ self._losses_km[cell])
