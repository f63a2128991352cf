"""Adaptive mix with a remap that is robust to an error of the belief.

The remap minimises the largest expected distance over all distributions in a ball around the posterior, instead of the
expected distance under the posterior. For a chi-square ball of radius rho the largest mean is about E d + sqrt(rho Var
d); for the Kullback-Leibler divergence with multiplier tau it is tau log E exp(d / tau) (Ben-Tal et al., Management
Science 59, 2013). The distance is Manhattan, so that its moments follow from those along rows and columns.
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
        self._base = exponential(world.quality_distance, epsilon_per_km).matrix()
        self._km = world.quality_distance.matrix_km
        self._shape = world.grid.shape
        y_km, x_km = world.grid.y_km.reshape(self._shape)[:, 0], world.grid.x_km.reshape(self._shape)[0]
        self._apart_km = np.abs(y_km[:, None] - y_km), np.abs(x_km[:, None] - x_km)
        self._ball, self._radius = ball, radius

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel: the true cell with probability a, otherwise the remapped output."""
        joint = (self._base * prior[:, None]).T  # [output, cell]
        posterior = joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        report = self._worst(posterior).argmin(axis=1)
        loss_km = float((joint * self._km[report]).sum())
        without_km = float((prior @ self._km).min())
        reveal = 0.5 * max(0.0, 1 - loss_km / without_km) if without_km > 0 else 0.5
        order = report.argsort(kind="stable")
        reports, first = np.unique(report[order], return_index=True)
        matrix = np.zeros_like(self._base)
        matrix[:, reports] = (1 - reveal) * np.add.reduceat(self._base[:, order], first, axis=1)
        matrix[np.diag_indices(prior.size)] += reveal
        return MatrixChannel(matrix / matrix.sum(axis=1, keepdims=True))

    def _worst(self, posterior: FloatArray) -> FloatArray:
        """Return the largest expected distance [output, report] over the ball around each posterior."""
        mass = posterior.reshape(-1, *self._shape)
        south_km, west_km = self._apart_km
        if self._ball == "kl":
            further = np.exp(self._radius * south_km) @ mass @ np.exp(self._radius * west_km)
            return np.asarray(np.log(further) / self._radius).reshape(len(mass), -1)
        rows, cols = mass.sum(axis=2), mass.sum(axis=1)
        mean = (rows @ south_km)[:, :, None] + (cols @ west_km)[:, None]
        square = (rows @ south_km**2)[:, :, None] + (cols @ west_km**2)[:, None] + 2 * (south_km @ mass @ west_km)
        worst = mean + np.sqrt(self._radius * np.maximum(square - mean**2, 0))
        return np.asarray(worst).reshape(len(mass), -1)
