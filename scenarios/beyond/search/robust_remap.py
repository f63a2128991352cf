"""Adaptive mix with a remap that is robust to an error of the belief.

The remap minimises the largest expected distance over all distributions in a ball around the posterior, instead of the
expected distance under the posterior. For a chi-square ball of radius rho the largest mean is about E d + sqrt(rho Var
d); for the Kullback-Leibler divergence with multiplier tau it is tau log E exp(d / tau) (Ben-Tal et al., Management
Science 59, 2013; Hu and Hong, 2013).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sim import MatrixChannel
from sim.interfaces import Channel, FloatArray
from sim.lppm.channels.exponential import exponential


class RobustMix:
    """The adaptive mix of `coin_share` 0.5 with the robust remap; `radius` is rho, or 1 / tau in 1 / km."""

    def __init__(
        self, *, world: Any, epsilon_per_km: float = 1.0, ball: Literal["chi-square", "kl"], radius: float
    ) -> None:
        self._distance = world.quality_distance
        self._base = exponential(self._distance, epsilon_per_km).matrix()
        self._km = self._distance.matrix_km
        self._ball, self._radius = ball, radius
        self._further = self._km**2 if ball == "chi-square" else np.exp(self._km * radius)

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel: the true cell with probability a, otherwise the remapped output."""
        joint = (self._base * prior[:, None]).T  # [output, cell]
        posterior = joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        report = self._worst(posterior).argmin(axis=1)
        loss_km = float((joint * self._km[:, report].T).sum())
        without_km = float((prior @ self._km).min())
        reveal = 0.5 * max(0.0, 1 - loss_km / without_km) if without_km > 0 else 0.5
        matrix = np.zeros_like(self._base)
        np.add.at(matrix.T, report, (1 - reveal) * self._base.T)
        matrix[np.diag_indices(prior.size)] += reveal
        return MatrixChannel(matrix / matrix.sum(axis=1, keepdims=True))

    def _worst(self, posterior: FloatArray) -> FloatArray:
        """Return the largest expected distance [output, report] over the ball around each posterior."""
        further: FloatArray = posterior @ self._further
        if self._ball == "kl":
            return np.log(further) / self._radius
        mean: FloatArray = posterior @ self._km
        return mean + np.sqrt(self._radius * np.maximum(further - mean**2, 0))
