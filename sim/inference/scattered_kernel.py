"""The exponential kernel exp(-rate |x - z|) between scattered locations, row by row, and a tree of the locations."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from sim.inference.bayes import read_only
from sim.interfaces import FloatArray, IntArray

_BLOCK_NUMBERS = 2**20  # entries of a block of rows: 8 MB


class Nodes(NamedTuple):
    """Sets of neighbouring locations, all on one level of the tree."""

    x_km: FloatArray
    """Centre of each set, shape (k,)."""
    y_km: FloatArray
    radius_km: FloatArray
    """Largest distance of a location from the centre; 0 for single locations."""
    first: IntArray
    """First and last place of the set in the order of the tree, the latter exclusive."""
    stop: IntArray

    def take(self, which: IntArray) -> Nodes:
        """Return some of the sets."""
        x_km, y_km, radius_km, first, stop = self
        return Nodes(x_km[which], y_km[which], radius_km[which], first[which], stop[which])


class ScatteredKernel:
    """Conditional probabilities f(z | x) ∝ exp(-rate |x - z|) between locations; `rate_per_km` is in [0, inf)."""

    def __init__(self, *, x_km: FloatArray, y_km: FloatArray, rate_per_km: float) -> None:
        self.x_km, self.y_km, self.rate_per_km = x_km, y_km, rate_per_km
        self.n_cells = x_km.size
        self.norm = read_only(self.sums(np.arange(self.n_cells), np.ones(self.n_cells)))

    def decay(self, x_km: FloatArray, y_km: FloatArray) -> FloatArray:
        """Return exp(-rate |x - p|) of points p and all locations x, shape (k, n_cells)."""
        east_km, north_km = x_km[:, None] - self.x_km, y_km[:, None] - self.y_km
        squares = np.add(east_km * east_km, north_km * north_km, out=north_km)  # `hypot` takes three times as long
        away_km = np.sqrt(squares, out=squares)
        return np.exp(np.multiply(away_km, -self.rate_per_km, out=away_km), out=away_km)

    def decay_from(self, cell: int) -> FloatArray:
        """Return exp(-rate |x - z|) of one location z and all locations x, shape (n_cells,)."""
        return np.asarray(self.decay(self.x_km[[cell]], self.y_km[[cell]])[0])

    def sums(self, cells: IntArray, weights: FloatArray) -> FloatArray:
        """Return the sums over locations z of weights(z) exp(-rate |x - z|), for some locations x, in blocks."""
        blocks = np.array_split(cells, max(1, -(-cells.size * self.n_cells // _BLOCK_NUMBERS)))
        return np.concatenate([self.decay(self.x_km[block], self.y_km[block]) @ weights for block in blocks])

    def column(self, outputs: IntArray) -> FloatArray:
        """Return the sum of f(z | .) over some outputs z, shape (n_cells,)."""
        blocks = np.array_split(outputs, max(1, -(-outputs.size * self.n_cells // _BLOCK_NUMBERS)))
        total = np.zeros(self.n_cells)
        for block in blocks:
            total += self.decay(self.x_km[block], self.y_km[block]).sum(axis=0)
        return np.asarray(total / self.norm)

    @property
    def order(self) -> IntArray:
        """The locations in the order of the tree, shape (n_cells,)."""
        return self._tree[0]

    @property
    def levels(self) -> list[Nodes]:
        """All sets of the tree by level: one set of all locations first, single locations last."""
        return self._tree[1]

    @cached_property
    def _tree(self) -> tuple[IntArray, list[Nodes]]:
        """Halve sets across their longer side until they are single locations."""
        order = np.arange(self.n_cells)
        bounds = np.array([[0, self.n_cells]])
        levels = [self._nodes(order, bounds)]
        while (np.diff(bounds) > 1).any():
            halves = []
            for first, stop in bounds.tolist():
                middle = (first + stop) // 2
                if stop - first > 1:
                    members = order[first:stop]
                    axis = max(self.x_km, self.y_km, key=lambda at_km: np.ptp(at_km[members]))
                    order[first:stop] = members[np.argpartition(axis[members], middle - first)]
                    halves += [(first, middle), (middle, stop)]
                else:
                    halves.append((first, stop))
            bounds = np.array(halves)
            levels.append(self._nodes(order, bounds))
        return order, levels

    def _nodes(self, order: IntArray, bounds: IntArray) -> Nodes:
        first, stop = bounds.T
        low_x, low_y = (np.minimum.reduceat(at[order], first) for at in (self.x_km, self.y_km))
        high_x, high_y = (np.maximum.reduceat(at[order], first) for at in (self.x_km, self.y_km))
        x_km, y_km = (low_x + high_x) / 2, (low_y + high_y) / 2
        owner = np.repeat(np.arange(first.size), stop - first)
        away_km = np.hypot(self.x_km[order] - x_km[owner], self.y_km[order] - y_km[owner])
        return Nodes(x_km, y_km, np.maximum.reduceat(away_km, first), first, stop)
