"""The remap of an exponential kernel between scattered locations, for single outputs: no table of all outputs.

An output z~ is replaced by the location with the smallest expected distance under its posterior,

    t(z~) = argmin_y g(y),    g(y) = sum_x q(x) k(x - z~) |x - y|,    q(x) = prior(x) / norm(x).

The probability of a report c needs the outputs that become c. Most outputs are excluded in groups: between a group's
centre and an output at most r from it, k changes by a factor in [exp(-rate r), exp(rate r)] at every x. If P and N are
the sums of the positive and the negative terms of g(c) - g(y) at the centre, c is not the best location for any output
of the group if exp(-rate r) P > exp(rate r) N for some y. Groups without such a y are divided (see
`ScatteredKernel.levels`). For single outputs, c is best if its own posterior weight is at least the slope of the other
terms. The few outputs without either proof are remapped themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sim.inference.scattered_kernel import Nodes, ScatteredKernel
from sim.inference.ties import MASS_FLOOR, TIE
from sim.interfaces import BoolArray, FloatArray, IntArray

_MARGIN = 3 * TIE
"""Costs closer than this share of the longest distance are left to the exact search, which breaks ties."""
_BLOCK = 2**20  # numbers in a temporary array
_MOST_GROWTH = 30.0
"""Logarithm of the change of the kernel within a group above which the group is divided without a test."""
_POSITION_ERROR = 16 * float(np.finfo(np.float32).eps)
"""Error of distances at single precision, as a share of the longest distance."""
_LEAST_LOG = np.float32(-85.0)  # of the kernel at single precision: no subnormal numbers
_UNDERFLOW = 1e-30
"""Error of sums at single precision by this least logarithm, if the largest term is 1, for up to 10^6 locations."""
_SECTORS = 8


class ScatteredRemap:
    """The remap of a kernel under a prior.

    `best_cell` returns the optimal estimate of weights over locations, or -1 without mass; `longest_km` is the longest
    distance, the scale of its ties.
    """

    def __init__(
        self, kernel: ScatteredKernel, prior: FloatArray, *, best_cell: Callable[[FloatArray], int], longest_km: float
    ) -> None:
        self._kernel = kernel
        self._best_cell = best_cell
        rounding = 2 * kernel.n_cells * float(np.finfo(np.float64).eps)
        self._margin_km = (_MARGIN + rounding) * longest_km
        self._weights = prior / kernel.norm
        self._support = np.flatnonzero(self._weights)
        self._middle_km = float(kernel.x_km.mean()), float(kernel.y_km.mean())
        self._x_km = (kernel.x_km[self._support] - self._middle_km[0]).astype(np.float32)
        self._y_km = (kernel.y_km[self._support] - self._middle_km[1]).astype(np.float32)
        self._longest_km = longest_km
        self._sum_error = 4 * (kernel.n_cells + 16) * float(np.finfo(np.float32).eps)
        self._cells: dict[int, int] = {}
        self.searched = 0
        """Number of outputs that were remapped by search so far."""

    def cell(self, output: int) -> int:
        """Return the location that replaces an output. An output without posterior mass stays unchanged."""
        cell = self._cells.get(output)
        if cell is None:
            cell = self._best_cell(self._weights * self._kernel.decay_from(output))
            cell = self._cells[output] = output if cell < 0 else cell
            self.searched += 1
        return cell

    def sources(self, cell: int) -> BoolArray:
        """Return which outputs become this location, shape (n_cells,)."""
        terms = self._terms(cell)
        answers = np.zeros(self._kernel.n_cells, dtype=np.bool_)
        nodes = self._kernel.levels[0]
        for level in range(len(self._kernel.levels)):
            nodes = nodes.take(np.flatnonzero(~self._excluded(nodes, terms)))
            if level + 1 < len(self._kernel.levels):
                nodes = _children(nodes, self._kernel.levels[level + 1])
        outputs = self._kernel.order[nodes.first]
        proven = self._proven(outputs, cell)
        answers[outputs[proven]] = True
        for output in {cell, *outputs[~proven].tolist()}:  # without mass, the cell is its own output
            answers[output] = self.cell(output) == cell
        return answers

    def _excluded(self, nodes: Nodes, terms: NDArray[np.float32]) -> BoolArray:
        """Return for which sets of outputs another location is better for all of them.

        Sums are at single precision. Their relative errors count as growth of the kernel: those of positions as a
        larger radius, those of sums of positive terms as `_sum_error`.
        """
        reach_km = nodes.radius_km + _POSITION_ERROR * self._longest_km
        growth = self._kernel.rate_per_km * reach_km + self._sum_error
        excluded = np.zeros(nodes.first.size, dtype=np.bool_)
        for block in _blocks(np.flatnonzero(growth < _MOST_GROWTH), self._x_km.size):
            sums = self._decay(nodes.x_km[block], nodes.y_km[block]) @ terms
            gain, loss = np.split(sums[:, 1:].astype(np.float64), 2, axis=1)
            factor = np.exp(growth[block])[:, None]
            lead = (gain - _UNDERFLOW) / factor - (loss + self._margin_km * sums[:, :1] + _UNDERFLOW) * factor
            excluded[block] = (lead > 0).any(axis=1)
        return excluded

    def _decay(self, x_km: FloatArray, y_km: FloatArray) -> NDArray[np.float32]:
        """Return exp(-rate |x - p|) of points p and the locations x with weight, times a constant of each point."""
        middle_x, middle_y = self._middle_km
        east_km = (x_km - middle_x).astype(np.float32)[:, None] - self._x_km
        north_km = (y_km - middle_y).astype(np.float32)[:, None] - self._y_km
        away_km = np.sqrt(east_km * east_km + north_km * north_km)
        away_km -= away_km.min(axis=1, keepdims=True)
        return np.asarray(np.exp(np.maximum(np.float32(-self._kernel.rate_per_km) * away_km, _LEAST_LOG)))

    def _terms(self, cell: int) -> NDArray[np.float32]:
        """Return, for each location x, its weight and those times the positive and negative parts of |x - c| - |x - y|.

        The shape is (support, 1 + 2 k) for k other locations y; the largest number is 1.
        """
        away_km = self._away_km(cell)
        closer_km = np.array([away_km - self._away_km(other) for other in self._others(cell).tolist()])
        closer = self._weights * closer_km.reshape(-1, away_km.size)
        terms = np.vstack([self._weights, np.maximum(closer, 0.0), np.maximum(-closer, 0.0)])[:, self._support]
        return np.ascontiguousarray((terms / terms.max()).T, dtype=np.float32)

    def _proven(self, outputs: IntArray, cell: int) -> BoolArray:
        """Return for which outputs the location is the best point of the plane, by more than a tie."""
        away_km = self._away_km(cell)
        apart = away_km > 0
        proven = np.zeros(outputs.size, dtype=np.bool_)
        if not apart[:cell].all() or not apart.any():  # a location at the same position has a lower number
            return proven
        per_km = np.divide(self._weights, away_km, out=np.zeros_like(away_km), where=apart)
        own = np.where(apart, 0.0, self._weights)
        x_km, y_km = self._kernel.x_km, self._kernel.y_km
        terms = np.vstack([per_km * (x_km - x_km[cell]), per_km * (y_km - y_km[cell]), own, self._weights]).T
        nearest_km = away_km[apart].min()
        for block in _blocks(np.arange(outputs.size), self._kernel.n_cells):
            at = outputs[block]
            slope_x, slope_y, weight, total = (self._kernel.decay(x_km[at], y_km[at]) @ terms).T
            lead_km = (weight - np.hypot(slope_x, slope_y)) * nearest_km
            proven[block] = (lead_km > self._margin_km * total) & (total > 2 * MASS_FLOOR)
        return proven

    def _others(self, cell: int) -> IntArray:
        """Return locations around one: the nearest in each direction, at distances that double."""
        away_km = self._away_km(cell)
        apart = np.flatnonzero(away_km > 0)
        if not apart.size:
            return apart
        away_km = away_km[apart]
        angle = np.arctan2(
            self._kernel.y_km[apart] - self._kernel.y_km[cell], self._kernel.x_km[apart] - self._kernel.x_km[cell]
        )
        sector = np.floor((angle / (2 * np.pi) + 0.5) * _SECTORS).astype(np.int64)
        ring = np.log2(away_km / away_km.min()).astype(np.int64)
        order = np.argsort(away_km, kind="stable")
        _, first = np.unique((ring * (_SECTORS + 1) + sector)[order], return_index=True)
        return np.asarray(apart[order[first]])

    def _away_km(self, cell: int) -> FloatArray:
        kernel = self._kernel
        return np.asarray(np.hypot(kernel.x_km - kernel.x_km[cell], kernel.y_km - kernel.y_km[cell]))


def _children(nodes: Nodes, below: Nodes) -> Nodes:
    """Return the sets of the next level that are parts of these sets."""
    parent = np.searchsorted(nodes.first, below.first, side="right") - 1
    inside = (parent >= 0) & (below.stop <= nodes.stop[np.maximum(parent, 0)]) if nodes.first.size else np.zeros(0)
    return below.take(np.flatnonzero(inside))


def _blocks(places: IntArray, n_cells: int) -> list[IntArray]:
    return np.array_split(places, max(1, -(-places.size * n_cells // _BLOCK)))
