"""Designs that say less instead of something else: a region, the centre of a block, nothing at all."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sim.inference.bayes import cheapest, decide, read_only
from sim.interfaces import Channel, FloatArray, IntArray, OutputSpace
from sim.lppm.channel import BaseChannel, MatrixChannel, identity
from sim.lppm.designs import BUDGET_TOLERANCE_KM, BaseAndRemap, require_budget, require_one, root
from sim.lppm.outputs import CellsOrNothing, Regions
from sim.world.distance import Distance
from sim.world.grid import Grid

_ROUNDING = 1e-12
"""A mass that is short of a threshold by no more reaches it."""


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


class Cloaking:
    """Report a region with enough people in it: k-anonymous cloaking of Gruteser and Grunwald 2003.

    The plane is halved in both directions again and again, down to single cells. Reported is the smallest part around
    the user in which at least k of `population` people are to be expected, N prior(part) >= k, if all of them are
    spread as the belief says. The service answers for the centre of the region: the cell of it that has the least sum
    of d_Q from all of its cells.

    This is k-anonymity in expectation and against whoever shares the belief: nobody counts who is really there. Known
    weaknesses: k people in one place, or who are all known to be elsewhere, hide nobody; and who knows the algorithm
    rules out the parts of a region that would have been reported by themselves.

    Give one of k in [1, population] and quality_budget_km in [0, inf). With a budget the least mass of a region is set
    for each prior: two neighbouring thresholds are mixed so that the expected loss is the budget. A budget beyond what
    the whole plane costs cannot be spent.
    """

    uses_prior = True

    def __init__(
        self,
        *,
        grid: Grid,
        distance: Distance,
        k: int | None = None,
        population: int = 1000,
        quality_budget_km: float | None = None,
    ) -> None:
        require_one("k", k, quality_budget_km)
        require_budget(quality_budget_km)
        if population < 1:
            raise ValueError(f"population must be in [1, inf), got {population}")
        if k is not None and not 1 <= k <= population:
            raise ValueError(
                f"k must be in [1, {population}], as many as there are people, got {k}: "
                "take a smaller `k` or a larger `population`"
            )
        self._tree = Quadtree(grid.shape)
        self._distance = distance
        self._least_mass = None if k is None else k / population
        self._budget_km = quality_budget_km
        self.space = Regions(self._tree.regions, tuple(map(self._centre, self._tree.regions)))
        self._losses_km = distance.matrix_km[:, list(self.space.centres)]

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        if self._least_mass is not None:
            matrix = self._matrix(self._tree.smallest(self._tree.masses(prior), self._least_mass))
        else:
            matrix = self._calibrated(prior, self._budget_km or 0.0)
        return OwnMatrixChannel(matrix, space=self.space, losses_km=self._losses_km)

    def _calibrated(self, prior: FloatArray, budget_km: float) -> FloatArray:
        """Return the mixture of two thresholds that spends the budget: losses change at the masses of regions alone."""
        cells, masses = np.arange(prior.size), self._tree.masses(prior)
        finer, finer_km = self._tree.smallest(masses, 0.0), 0.0
        for least_mass in (*np.unique(masses), np.inf):  # the last is the whole plane
            coarser = self._tree.smallest(masses, least_mass)
            coarser_km = float(prior @ self._losses_km[cells, coarser])
            if coarser_km > budget_km:
                share = (budget_km - finer_km) / (coarser_km - finer_km)
                return (1 - share) * self._matrix(finer) + share * self._matrix(coarser)
            finer, finer_km = coarser, coarser_km
        return self._matrix(finer)

    def _matrix(self, region_of: IntArray) -> FloatArray:
        matrix = np.zeros((region_of.size, len(self.space.regions)))
        matrix[np.arange(region_of.size), region_of] = 1.0
        return matrix

    def _centre(self, cells: tuple[int, ...]) -> int:
        return centre_of(cells, self._distance)


class Quadtree:
    """The parts that come of halving a grid in both directions again and again, from the whole to single cells.

    >>> Quadtree((1, 3)).regions
    ((0, 1, 2), (0, 1), (2,), (0,), (1,))
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        rows, cols = shape
        parts, parents = [(0, rows, 0, cols)], [0]
        for place, (south, north, west, east) in enumerate(parts):
            if (north - south) * (east - west) > 1:
                halves = [
                    (low, high, left, right)
                    for low, high in _halves(south, north)
                    for left, right in _halves(west, east)
                ]
                parts += halves  # this is the list that is gone through: small ones come after large ones
                parents += [place] * len(halves)
        number = np.arange(rows * cols).reshape(shape)
        self.regions = tuple(
            tuple(number[south:north, west:east].ravel().tolist()) for south, north, west, east in parts
        )
        """The cells of each part, the whole first."""
        self._parents = np.array(parents)
        self._members = np.zeros((len(parts), rows * cols))
        self._leaf = np.empty(rows * cols, dtype=np.int64)
        for place, cells in enumerate(self.regions):
            self._members[place, list(cells)] = 1.0
            self._leaf[list(cells)] = place

    @cached_property
    def around(self) -> IntArray:
        """The parts around each cell, from itself up to the whole, shape (n_cells, depth)."""
        chain = [self._leaf]
        while chain[-1].any():
            chain.append(self._parents[chain[-1]])
        return read_only(np.column_stack(chain))

    def masses(self, prior: FloatArray) -> FloatArray:
        """Return the mass of each part, shape (n_parts,)."""
        return np.asarray(self._members @ prior)

    def smallest(self, masses: FloatArray, least_mass: float) -> IntArray:
        """Return the smallest part around each cell that has such a mass or more, shape (n_cells,); or the whole."""
        short = (masses[self.around] < least_mass - _ROUNDING).sum(axis=1)
        return np.asarray(self.around[np.arange(len(short)), np.minimum(short, self.around.shape[1] - 1)])


def _halves(low: int, high: int) -> list[tuple[int, int]]:
    """Cut a range into two, the first no shorter than the second; one that cannot be cut stays."""
    middle = (low + high + 1) // 2
    return [(low, middle), (middle, high)] if high - low > 1 else [(low, high)]


class Snapping(BaseAndRemap):
    """Report the centre of a block of `cells_per_side` x `cells_per_side` cells: a coarser grid, no randomness.

    Blocks are laid from the south-west; those at the other borders may be cut. The centre is the cell of a block that
    has the least sum of d_Q from all of its cells; with `remap` it is the best cell of the block under the prior. This
    is what rounding coordinates does.

    Give one of cells_per_side in [1, inf) and quality_budget_km in [0, inf). With a budget, two neighbouring sizes are
    mixed, for each prior, so that the expected loss is the budget. A budget beyond what is lost with one block cannot
    be spent. `distance` is the quality distance d_Q.
    """

    def __init__(
        self,
        *,
        grid: Grid,
        distance: Distance,
        cells_per_side: int | None = None,
        quality_budget_km: float | None = None,
        remap: bool = True,
    ) -> None:
        require_one("cells_per_side", cells_per_side, quality_budget_km)
        if cells_per_side is not None and cells_per_side < 1:
            raise ValueError(f"cells_per_side must be in [1, inf), got {cells_per_side}")
        self._shape = grid.shape
        self._sizes: dict[int, FloatArray] = {}
        """The matrices that were asked for, by cells per side."""
        base = None if cells_per_side is None else MatrixChannel(_snapped(self._shape, cells_per_side, distance))
        super().__init__(distance=distance, base=base, budget_km=quality_budget_km, remap=remap)

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


def centre_of(cells: IntArray | tuple[int, ...], distance: Distance) -> int:
    """Return which of these cells, in order, has the least sum of distances from all of them; of equals, the lowest."""
    own = np.asarray(cells)
    km = distance.matrix_km[np.ix_(own, own)]
    best = cheapest(km.sum(axis=0)[None], np.array([float(own.size)]), longest_km=float(km.max()))
    return int(own[best[0]])


class Dropping:
    """Report the true cell, or with some probability nothing at all.

    Without a report the service answers for the cell that is best under the belief, at a loss of d_Q from the true cell
    to it, or the user goes without an answer, which costs her `drop_loss_km` if that is said. That nothing came tells
    nothing: an adversary is left with what she believed before.

    Give one of drop_probability in [0, 1] and quality_budget_km in [0, inf). A budget beyond what is lost by never
    reporting cannot be spent.
    """

    def __init__(
        self,
        *,
        distance: Distance,
        drop_probability: float | None = None,
        quality_budget_km: float | None = None,
        drop_loss_km: float | None = None,
    ) -> None:
        require_one("drop_probability", drop_probability, quality_budget_km)
        require_budget(quality_budget_km)
        if drop_probability is not None and not 0 <= drop_probability <= 1:
            raise ValueError(f"drop_probability must be in [0, 1], got {drop_probability}")
        if drop_loss_km is not None and not 0 <= drop_loss_km < np.inf:
            raise ValueError(f"drop_loss_km must be in [0, inf), got {drop_loss_km}")
        self.uses_prior = drop_loss_km is None
        self.space = CellsOrNothing(distance.n_cells)
        self._distance = distance
        self._drop_probability = drop_probability
        self._budget_km = quality_budget_km
        self._drop_loss_km = drop_loss_km

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        n_cells = prior.size
        without_km = self._without_report_km(prior)
        drop = self._drop_probability
        if drop is None:
            most_km = float(prior @ without_km) if self._drop_loss_km is None else self._drop_loss_km
            drop = _share(self._budget_km or 0.0, most_km)
        matrix = np.column_stack([(1 - drop) * np.eye(n_cells), np.full(n_cells, drop)])
        losses_km = np.column_stack([self._distance.matrix_km, without_km])
        return OwnMatrixChannel(matrix, space=self.space, losses_km=losses_km)

    def _without_report_km(self, prior: FloatArray) -> FloatArray:
        """Return what no report costs in each cell, shape (n_cells,)."""
        if self._drop_loss_km is not None:
            return np.full(prior.size, self._drop_loss_km)
        return np.array(self._distance.matrix_km[:, decide(prior, self._distance.matrix_km, self._distance.shape)])


def _share(budget_km: float, most_km: float) -> float:
    """Return which share of the most that can be lost is the budget; nothing is spent of a budget of nought.

    >>> _share(1.0, 4.0), _share(5.0, 4.0), _share(0.0, 0.0)
    (0.25, 1.0, 0.0)
    """
    if budget_km <= 0:
        return 0.0
    return min(1.0, budget_km / most_km) if most_km > 0 else 1.0
