"""Snapping: report the centre of a block of cells."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sim.components.registry import component
from sim.components.spec import Count, NonNegative
from sim.interfaces import FloatArray
from sim.lppm.calibration import BUDGET_TOLERANCE_KM, BaseAndRemap, root
from sim.lppm.centre import centre_of
from sim.lppm.channels.base import BaseChannel
from sim.lppm.channels.hiding import identity
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.parameters import CalibratedParameters, ShortNames, WorldSize
from sim.lppm.strength import RealisedBudget, StrengthRange
from sim.world import World
from sim.world.distance import Distance
from sim.world.grid import Grid

_MOST_CELLS = 1024
"""Largest block side that a search tries."""


@component("design")
class SnappingParameters(CalibratedParameters):
    """Snapping: reports the centre of the block of cells that contains the user, as rounding coordinates does."""

    short_names: ClassVar = ShortNames(design="Snap", beliefs=("SP",), alone={"remap": False})
    strength_name: ClassVar = "cells_per_side"
    default_strength: ClassVar = 2

    kind: Literal["snapping"] = "snapping"
    cells_per_side: Count | None = None
    """Number of rows and of columns of a block (default: 2)."""
    quality_budget_km: NonNegative | RealisedBudget | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `cells_per_side`: two neighbouring block
    sizes are mixed at random to reach this loss for each prior. `{realised: 0.3}` refers to the mean loss of the
    users in the run instead; with `at: 0.95`, to that of 95 % of them."""
    remap: bool = True
    """Replace the centre of a block by the cell with the smallest expected loss under its posterior. This never
    increases the expected loss."""

    @property
    def needs_grid(self) -> bool:
        """Whether the design needs the cells of a grid: yes."""
        return True

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.remap or self.budget_km is not None

    @property
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""
        return StrengthRange(name="cells_per_side", least=1, most=_MOST_CELLS, loss_rises=True, whole=True)

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the matrix of the channel is too large."""
        size.require_dense()

    def build(self, world: World) -> Snapping:
        """Return the design for the grid and the quality distance of a world."""
        return Snapping(self, grid=world.grid, distance=world.quality_distance)


class Snapping(BaseAndRemap):
    """Report the centre of a block of `cells_per_side` x `cells_per_side` cells: a coarser grid, without randomness.

    Blocks start at the south-west corner; those at the other borders may be smaller. The centre is the cell of a block
    with the smallest sum of d_Q from all of its cells; with `remap` it is the best cell under the prior restricted to
    the block. Rounding coordinates has the same effect.

    With a budget, two neighbouring block sizes are mixed for each prior so that the expected loss is the budget. If the
    budget exceeds the loss with a single block, a single block is used. `distance` is the quality distance d_Q.
    """

    def __init__(self, parameters: SnappingParameters, *, grid: Grid, distance: Distance) -> None:
        size = parameters.strength
        self._shape = grid.shape
        self._sizes: dict[int, FloatArray] = {}
        """Cache of matrices by cells per side."""
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
        """Return the mixture of a block size and the next smaller one whose loss is the budget."""
        finer, coarser = self._blocks(size - 1), self._blocks(size)

        def mixture(share: float) -> MatrixChannel:
            return MatrixChannel((1 - share) * finer + share * coarser)

        return mixture(root(lambda share: self._loss_km(mixture(share), prior) - budget_km, 0.0, 1.0))

    def _blocks(self, size: int) -> FloatArray:
        if size not in self._sizes:
            self._sizes[size] = _snapped(self._shape, size, self._distance)
        return self._sizes[size]


def _snapped(shape: tuple[int, int], size: int, distance: Distance) -> FloatArray:
    """Return the matrix that maps each cell to the centre of its block."""
    rows, cols = shape
    row, col = np.divmod(np.arange(rows * cols), cols)
    block = row // size * cols + col // size
    matrix = np.zeros((rows * cols, rows * cols))
    for one in np.unique(block):
        cells = np.flatnonzero(block == one)
        matrix[cells, centre_of(cells, distance)] = 1.0
    return matrix
