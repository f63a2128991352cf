"""Kernels of the gravity model, exp(-d(x, x') / reach), shared by the filters of all users."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from sim.interfaces import FloatArray
from sim.world.distance import Distance

_MOST_CACHED = 16  # number of growths whose kernels are cached


class Kernels:
    """Matrices exp(-d(x, x') / reach) for several reaches; for a Manhattan distance, factors by row and column."""

    def __init__(self, distance: Distance, reaches_km: FloatArray) -> None:
        self.reaches_km = reaches_km
        self._shape = distance.shape
        axes_km = (distance.matrix_km,) if distance.shape is None else distance.axes_km
        self._kernels = [np.exp(-axis_km / reaches_km[:, None, None]) for axis_km in axes_km]

    def from_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x' of exp(-d(x, x') / reach) weights(x') for each reach, shape (n_reaches, n_cells)."""
        return self._by_axis(weights) if self._shape is not None else np.asarray(self._kernels[0] @ weights)

    def to_each(self, weights: FloatArray) -> FloatArray:
        """Return the sum over x of weights(x) exp(-d(x, x') / reach) for each reach, shape (n_reaches, n_cells).

        `weights` has one row per reach.
        """
        if self._shape is not None:
            return self._by_axis(weights)
        return np.asarray(weights[:, np.newaxis] @ self._kernels[0])[:, 0]

    def _by_axis(self, weights: FloatArray) -> FloatArray:
        """Return either sum; they are equal, since distances along an axis are symmetric."""
        assert self._shape is not None
        by_row, by_col = self._kernels
        return np.asarray(by_row @ weights.reshape(-1, *self._shape) @ by_col).reshape(len(by_row), -1)


class GravityKernels:
    """The kernels of a distance for each growth of reach, with a cache of the latest; all users share one object."""

    def __init__(self, distance: Distance, reaches_km: Sequence[float]) -> None:
        self.distance = distance
        self._reaches_km = np.array(reaches_km, dtype=np.float64)
        self._cached: OrderedDict[float, Kernels] = OrderedDict()

    def at(self, growth: float) -> Kernels:
        """Return the kernels for reaches multiplied by `growth`."""
        if growth not in self._cached:
            self._cached[growth] = Kernels(self.distance, self._reaches_km * growth)
        self._cached.move_to_end(growth)
        if len(self._cached) > _MOST_CACHED:
            self._cached.popitem(last=False)
        return self._cached[growth]
