"""Channels as matrices whose outputs are not the cells."""

from __future__ import annotations

import numpy as np

from sim.interfaces import FloatArray, IntArray, OutputSpace
from sim.lppm.channel import MatrixChannel
from sim.world.distance import Distance


class OwnMatrixChannel(MatrixChannel):
    """A matrix [cell, output] whose outputs are no cells, with the loss of each of its entries in km."""

    countless = False

    def __init__(self, matrix: FloatArray, *, space: OutputSpace, losses_km: FloatArray) -> None:
        super().__init__(matrix)
        if losses_km.shape != self._matrix.shape:
            raise ValueError(f"losses_km must have shape {self._matrix.shape}, got {losses_km.shape}")
        self.space = space
        self._losses_km = losses_km

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected loss, or d_Q if all outputs go through a table of cells."""
        if table is not None:
            return super().loss_km(prior, distance, table)
        return float(prior @ np.einsum("xz,xz->x", self._matrix, self._losses_km))

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return what an output costs in a cell."""
        return float(self._losses_km[cell, output])

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the loss to expect in a cell."""
        return float(self._matrix[cell] @ self._losses_km[cell])
