"""Snapping: report the centre of a block of cells."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sim.components.registry import component
from sim.components.spec import Count, NonNegative
from sim.interfaces import FloatArray
from sim.lppm.calibration import BUDGET_TOLERANCE_KM, BaseAndRemap, root
from sim.lppm.centre import centre_of
from sim.lppm.channel import BaseChannel, MatrixChannel, identity
from sim.lppm.parameters import CalibratedParameters, ShortNames
from sim.world import World
from sim.world.distance import Distance
from sim.world.grid import Grid


@component("design")
class SnappingParameters(CalibratedParameters):
    """Snapping: reports the centre of a block of cells, as rounding does."""

    short_names: ClassVar = ShortNames(design="Snap", beliefs=("SP",), alone={"remap": False})
    strength_name: ClassVar = "cells_per_side"
    default_strength: ClassVar = 2

    kind: Literal["snapping"] = "snapping"
    cells_per_side: Count | None = None
    """Rows and columns of a block; 2 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of a size: mix two neighbouring ones, for each prior, to this expected loss on the mechanism's model."""
    remap: bool = True
    """Replace the centre of a block by the best cell for its posterior: never worse for the user."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.remap or self.budget_km is not None

    def build(self, world: World) -> Snapping:
        """Return the design for the grid and the quality distance of a world."""
        return Snapping(self, grid=world.grid, distance=world.quality_distance)


class Snapping(BaseAndRemap):
    """Report the centre of a block of `cells_per_side` x `cells_per_side` cells: a coarser grid, no randomness.

    Blocks are laid from the south-west; those at the other borders may be cut. The centre is the cell of a block that
    has the least sum of d_Q from all of its cells; with `remap` it is the best cell of the block under the prior. This
    is what rounding coordinates does.

    With a budget, two neighbouring sizes are
    mixed, for each prior, so that the expected loss is the budget. A budget beyond what is lost with one block cannot
    be spent. `distance` is the quality distance d_Q.
    """

    def __init__(self, parameters: SnappingParameters, *, grid: Grid, distance: Distance) -> None:
        size = parameters.strength
        self._shape = grid.shape
        self._sizes: dict[int, FloatArray] = {}
        """The matrices that were asked for, by cells per side."""
        base = None if size is None else MatrixChannel(_snapped(self._shape, int(size), distance))
        super().__init__(distance=distance, base=base, budget_km=parameters.budget_km, remap=parameters.remap)

    def _calibrated(self, prior: FloatArray, budget_km: float) -> BaseChannel:
        if budget_km <= BUDGET_TOLERANCE_KM:
            return identity(prior.size)
        for size in range(2, max(self._shape) + 1):
            coarser = MatrixChannel(self._blocks(size))
            if self._loss_km(coarser, prior) > budget_km:
                return self._mixed(size, prior, budget_km)
        return MatrixChannel(self._blocks(max(self._shape)))

    def _mixed(self, size: int, prior: FloatArray, budget_km: float) -> BaseChannel:
        """Return the mixture of a size and the next smaller one that spends the budget."""
        finer, coarser = self._blocks(size - 1), self._blocks(size)

        def mixture(share: float) -> MatrixChannel:
            return MatrixChannel((1 - share) * finer + share * coarser)

        return mixture(root(lambda share: self._loss_km(mixture(share), prior) - budget_km, 0.0, 1.0))

    def _blocks(self, size: int) -> FloatArray:
        if size not in self._sizes:
            self._sizes[size] = _snapped(self._shape, size, self._distance)
        return self._sizes[size]


def _snapped(shape: tuple[int, int], size: int, distance: Distance) -> FloatArray:
    """Return the matrix that sends each cell to the centre of its block."""
    rows, cols = shape
    row, col = np.divmod(np.arange(rows * cols), cols)
    block = row // size * cols + col // size
    matrix = np.zeros((rows * cols, rows * cols))
    for one in np.unique(block):
        cells = np.flatnonzero(block == one)
        matrix[cells, centre_of(cells, distance)] = 1.0
    return matrix
