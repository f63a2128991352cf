"""Kernels of the gravity model, exp(-d(x, x') / reach), shared by the filters of all users."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sim.inference.exponential_kernel import smooth
from sim.interfaces import FloatArray
from sim.world.distance import Distance
from sim.world.distances.manhattan import ManhattanDistance

_MOST_CACHED = 16  # number of growths whose kernels are cached


class Kernels(Protocol):
    """The kernels exp(-d(x, x') / reach) for several reaches."""

    reaches_km: FloatArray

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

    def from_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x' for each reach."""
        return self.to_each(np.broadcast_to(weights, (len(self._decays), weights.size)))

    def to_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x for each reach; either sum is the same, since the distance is symmetric."""
        images = [smooth(own.reshape(self._shape), *decay) for own, decay in zip(weights, self._decays, strict=True)]
        return np.array(images).reshape(len(images), -1)


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
            self._cached[growth] = (
                ManhattanKernels(self.distance, reaches_km)
                if isinstance(self.distance, ManhattanDistance)
                else MatrixKernels(self.distance, reaches_km)
            )
        self._cached.move_to_end(growth)
        if len(self._cached) > _MOST_CACHED:
            self._cached.popitem(last=False)
        return self._cached[growth]
