"""Laws of a secret: a finite set of states, their probabilities, and how the secret changes between two queries."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Protocol

import numpy as np

from sim.inference.bayes import distribution, read_only
from sim.interfaces import FloatArray, Generator


class Law(Protocol):
    """A stationary law of a secret. `correlation` in [0, 1] is that of the secrets in two consecutive queries."""

    @property
    def weights(self) -> FloatArray:
        """Return the probability of each state, shape (n_states,); it is the same at all times."""
        ...

    def draw(self, rng: Generator) -> int:
        """Draw a state."""
        ...

    def step(self, state: int, correlation: float, rng: Generator) -> int:
        """Draw the next state."""
        ...

    def move(self, joint: FloatArray, correlation: float) -> FloatArray:
        """Return the weights at the next query, from those at the last one, shape (..., n_states)."""
        ...


class Redrawn:
    """A secret that is kept with probability `correlation` and otherwise drawn again.

    `weights` (shape (n_states,)) sum to 1. `displacements_km` are the offsets of the states to the east and north,
    shape (n_states, 2), if the secret is an offset.

    >>> law = Redrawn([0.5, 0.5])
    >>> law.move(np.array([1.0, 0.0]), 0.5).tolist()
    [0.75, 0.25]
    """

    def __init__(self, weights: FloatArray | list[float], displacements_km: FloatArray | None = None) -> None:
        self.weights = read_only(distribution(weights, "weights").copy())
        self.displacements_km = np.zeros((self.weights.size, 2)) if displacements_km is None else displacements_km
        if self.displacements_km.shape != (self.weights.size, 2):
            raise ValueError(
                f"displacements_km must have shape {(self.weights.size, 2)}, got {self.displacements_km.shape}"
            )
        self._cumulative = self.weights.cumsum()

    def draw(self, rng: Generator) -> int:
        """Draw a state."""
        place = self._cumulative.searchsorted(rng.random() * self._cumulative[-1], side="right")
        return min(int(place), self.weights.size - 1)

    def step(self, state: int, correlation: float, rng: Generator) -> int:
        """Draw the next state."""
        return state if rng.random() < correlation else self.draw(rng)

    def move(self, joint: FloatArray, correlation: float) -> FloatArray:
        """Return the weights at the next query."""
        if correlation == 1:
            return joint
        redrawn = joint.sum(axis=-1, keepdims=True) * self.weights
        return np.asarray(correlation * joint + (1 - correlation) * redrawn)


class GaussianOffsets:
    """A Gaussian offset in the plane, discretised, whose coordinates are independent and autoregressive.

    Each coordinate is the sum of `levels` (in [1, inf)) signs times `std_km` / sqrt(levels). Between two queries each
    sign is kept with probability (1 + correlation) / 2 and flipped otherwise: the Ehrenfest chain. Its law is binomial
    with standard deviation `std_km`, its correlation is exact, and so is composition: two steps with correlations a and
    b are one with a b. It tends to the Gaussian autoregressive process of order 1 as `levels` grows. There are
    (levels + 1)^2 states, up to `std_km` * sqrt(levels) from 0 in each coordinate.

    >>> law = GaussianOffsets(std_km=1.0, levels=4)
    >>> float(law.weights @ law.displacements_km[:, 0] ** 2)
    1.0
    >>> law.displacements_km[0].tolist(), law.weights.shape
    ([-2.0, -2.0], (25,))
    """

    def __init__(self, *, std_km: float, levels: int) -> None:
        if levels < 1:
            raise ValueError(f"levels must be in [1, inf), got {levels}")
        if not 0 < std_km < math.inf:
            raise ValueError(f"std_km must be in (0, inf), got {std_km}")
        self.levels = levels
        axis_km = std_km / math.sqrt(levels) * (2.0 * np.arange(levels + 1) - levels)
        along = ehrenfest(levels, 0.0)[0]
        self.weights = read_only(np.outer(along, along).ravel())
        self.displacements_km = np.stack([np.tile(axis_km, levels + 1), np.repeat(axis_km, levels + 1)], axis=1)

    def draw(self, rng: Generator) -> int:
        """Draw a state."""
        north, east = rng.binomial(self.levels, 0.5, size=2).tolist()
        return int(north * (self.levels + 1) + east)

    def step(self, state: int, correlation: float, rng: Generator) -> int:
        """Draw the next state: the positive signs that stay, and the negative ones that flip."""
        positive = np.array(divmod(state, self.levels + 1))
        stay = (1 + correlation) / 2
        north, east = (rng.binomial(positive, stay) + rng.binomial(self.levels - positive, 1 - stay)).tolist()
        return int(north * (self.levels + 1) + east)

    def move(self, joint: FloatArray, correlation: float) -> FloatArray:
        """Return the weights at the next query."""
        if correlation == 1:
            return joint
        kernel = ehrenfest(self.levels, correlation)
        square = joint.reshape(*joint.shape[:-1], self.levels + 1, self.levels + 1)
        return np.asarray(kernel.T @ square @ kernel).reshape(joint.shape)


@lru_cache(maxsize=256)
def ehrenfest(levels: int, correlation: float) -> FloatArray:
    """Return the kernel [from, to] of the number of positive signs among `levels`, shape (levels + 1, levels + 1).

    From k positive signs, the next number is Binomial(k, p) + Binomial(levels - k, 1 - p), p = (1 + correlation) / 2.

    >>> ehrenfest(1, 0.5).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    stay = (1 + correlation) / 2
    kept, flipped = [np.ones(1)], [np.ones(1)]
    for _ in range(levels):
        kept.append(np.convolve(kept[-1], [1 - stay, stay]))
        flipped.append(np.convolve(flipped[-1], [stay, 1 - stay]))
    return read_only(np.array([np.convolve(kept[k], flipped[levels - k]) for k in range(levels + 1)]))


def disc_offsets(radius_km: float, *, levels: int) -> Redrawn:
    """Return offsets uniform in a disc: the points of a square lattice with `levels` steps per diameter.

    >>> disc_offsets(1.0, levels=2).displacements_km.tolist()
    [[0.0, -1.0], [-1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    axis = (2.0 * np.arange(levels + 1) - levels) / levels
    north, east = (part.ravel() for part in np.meshgrid(axis, axis, indexing="ij"))
    inside = east**2 + north**2 <= 1 + 1e-12
    offsets_km = radius_km * np.stack([east[inside], north[inside]], axis=1)
    return Redrawn(np.full(len(offsets_km), 1 / len(offsets_km)), offsets_km)


def circle_offsets(radius_km: float, *, levels: int) -> Redrawn:
    """Return offsets of one length in 4 `levels` directions.

    >>> circle_offsets(1.0, levels=1).displacements_km.round(9).tolist()
    [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [-0.0, -1.0]]
    """
    angles = 2 * np.pi * np.arange(4 * levels) / (4 * levels)
    return Redrawn(
        np.full(angles.size, 1 / angles.size), radius_km * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    )
