"""Kernels of the gravity model, exp(-d(x, x') / reach), shared by the filters of all users."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sim.inference.exponential_kernel import smooth
from sim.inference.planar_grid import PlanarGrid
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import MATRIX_CELLS, Distance
from sim.world.distances.euclidean import EuclideanDistance
from sim.world.distances.manhattan import ManhattanDistance
from sim.world.distances.road import ByNode, RoadDistance

_MOST_CACHED = 16  # number of growths whose kernels are cached
_CACHED_BYTES = 10**9  # of their matrices, unless one growth takes more


class Kernels(Protocol):
    """The kernels exp(-d(x, x') / reach) for several reaches."""

    reaches_km: FloatArray
    nbytes: int
    """Memory of the kernels in bytes."""

    def from_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x' of exp(-d(x, x') / reach) weights(x') for each reach, shape (n_reaches, n_cells)."""
        ...

    def to_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x of weights(x) exp(-d(x, x') / reach) for each reach, shape (n_reaches, n_cells).

        `weights` has one row per reach.
        """
        ...


class MatrixKernels:
    """The kernels of any distance, as matrices."""

    def __init__(self, distance: Distance, reaches_km: FloatArray) -> None:
        self.reaches_km = reaches_km
        self._kernels = np.exp(-distance.matrix_km / reaches_km[:, None, None])
        self.nbytes = self._kernels.nbytes

    def from_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x' for each reach."""
        return np.asarray(self._kernels @ weights)

    def to_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x for each reach."""
        return np.asarray(weights[:, np.newaxis] @ self._kernels)[:, 0]


class ManhattanKernels:
    """The kernels of a Manhattan distance, by recursive filters along rows and columns in O(n_cells)."""

    def __init__(self, distance: ManhattanDistance, reaches_km: FloatArray) -> None:
        self.reaches_km = reaches_km
        self._shape = distance.shape
        self._decays = [
            [np.exp(-np.diff(at_km) / reach_km) for at_km in (distance.row_y_km, distance.col_x_km)]
            for reach_km in reaches_km
        ]
        self.nbytes = sum(decay.nbytes for decays in self._decays for decay in decays)

    def from_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x' for each reach."""
        return self.to_each(np.broadcast_to(weights, (len(self._decays), weights.size)))

    def to_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x for each reach; either sum is the same, since the distance is symmetric."""
        images = [smooth(own.reshape(self._shape), *decay) for own, decay in zip(weights, self._decays, strict=True)]
        return np.array(images).reshape(len(images), -1)


class EuclideanKernels:
    """The kernels of a Euclidean distance on a grid, by convolutions in O(n_cells log n_cells).

    Convolutions have an absolute rounding error of about 1e-15 of the largest sums. No sum is smaller than that of all
    weights at the longest distance, which replaces smaller results.
    """

    def __init__(self, grid: PlanarGrid, reaches_km: FloatArray, *, longest_km: float) -> None:
        self.reaches_km = reaches_km
        self._convolutions = [grid.convolution(np.exp(-grid.away_km / reach_km)) for reach_km in reaches_km]
        self._least = np.exp(-longest_km / reaches_km)
        self.nbytes = sum(convolution.nbytes for convolution in self._convolutions)

    def from_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x' for each reach."""
        return self.to_each(np.broadcast_to(weights, (len(self._convolutions), weights.size)))

    def to_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x for each reach; either sum is the same, since the distance is symmetric."""
        sums = np.array([convolve(own) for convolve, own in zip(self._convolutions, weights, strict=True)])
        return np.asarray(np.maximum(sums, (self._least * weights.sum(axis=1))[:, None]))


class RoadKernels:
    """The kernels of a road distance, as matrices between the nodes that are nearest to a cell."""

    def __init__(self, distance: RoadDistance, paths: ByNode, reaches_km: FloatArray) -> None:
        self.reaches_km = reaches_km
        self._node_of = paths.node_of
        self._n_nodes = len(paths.between_km)
        self._between = np.exp(-paths.between_km / reaches_km[:, None, None])
        self._access = np.exp(-paths.access_km / reaches_km[:, None])
        self._start, self._end = paths.start, paths.end
        straight_km = distance.between_km(paths.start, paths.end)
        self._off_path = np.exp(-straight_km / reaches_km[:, None]) - np.exp(-paths.path_km / reaches_km[:, None])
        """Difference of the kernel between the pairs of cells whose straight distance is longer than the path."""
        self.nbytes = self._between.nbytes + self._off_path.nbytes

    def from_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x' for each reach."""
        weights = np.broadcast_to(weights, self._access.shape)
        sums = self._sums(weights, [between @ own for between, own in self._at_nodes(weights)])
        return sums + self._corrections(self._start, weights[:, self._end])

    def to_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x for each reach."""
        sums = self._sums(weights, [own @ between for between, own in self._at_nodes(weights)])
        return sums + self._corrections(self._end, weights[:, self._start])

    def _corrections(self, cells: IntArray, weights: FloatArray) -> FloatArray:
        n_cells = self._node_of.size
        return np.array([np.bincount(cells, own, n_cells) for own in weights * self._off_path])

    def _at_nodes(self, weights: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return the matrix of each reach, and the weights of the cells at their nodes."""
        sums = np.array([np.bincount(self._node_of, own, self._n_nodes) for own in weights * self._access])
        return list(zip(self._between, sums, strict=True))

    def _sums(self, weights: FloatArray, at_nodes: list[FloatArray]) -> FloatArray:
        # A cell has no distance from itself, whereas the path to its node and back has twice the access.
        own = weights * (1 - self._access**2)
        return np.asarray(np.array(at_nodes)[:, self._node_of] * self._access + own)


class GravityKernels:
    """The kernels of a distance for each growth of reach, with a cache of the latest; all users share one object."""

    def __init__(self, distance: Distance, reaches_km: Sequence[float]) -> None:
        self.distance = distance
        self._reaches_km = np.array(reaches_km, dtype=np.float64)
        self._cached: OrderedDict[float, Kernels] = OrderedDict()

    def at(self, growth: float) -> Kernels:
        """Return the kernels for reaches multiplied by `growth`."""
        if growth not in self._cached:
            reaches_km = self._reaches_km * growth
            self._cached[growth] = kernels_of(self.distance, reaches_km)
        self._cached.move_to_end(growth)
        while len(self._cached) > 1 and self._too_many():
            self._cached.popitem(last=False)
        return self._cached[growth]

    def _too_many(self) -> bool:
        return len(self._cached) > _MOST_CACHED or sum(own.nbytes for own in self._cached.values()) > _CACHED_BYTES


def kernels_of(distance: Distance, reaches_km: FloatArray) -> Kernels:
    """Return the kernels of a distance: without a matrix between all cells if the distance allows it."""
    if isinstance(distance, ManhattanDistance):
        return ManhattanKernels(distance, reaches_km)
    if distance.n_cells > MATRIX_CELLS:
        if isinstance(distance, EuclideanDistance) and distance.planar is not None:
            return EuclideanKernels(distance.planar, reaches_km, longest_km=distance.longest_km)
        if isinstance(distance, RoadDistance) and distance.by_node is not None:
            return RoadKernels(distance, distance.by_node, reaches_km)
    return MatrixKernels(distance, reaches_km)
