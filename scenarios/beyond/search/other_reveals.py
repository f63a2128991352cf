"""Adaptive mixes whose probability of sending the true cell, or whose epsilon, depends on the belief in another way."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from sim.interfaces import Channel, FloatArray
from sim.lppm.channels.mix import MixChannel
from sim.lppm.designs.exponential import Exponential, ExponentialParameters


class OtherReveal:
    """Send the true cell with probability a = share u, where u is another function of the belief than 1 - L / P0.

    L is the expected loss of the exponential mechanism, P0 that of revealing nothing. `by` chooses u: power, (1 - L /
    P0)^`power`; entropy, (1 - L / P0) times the entropy of the prior relative to that of the uniform distribution.
    """

    def __init__(
        self,
        *,
        world: Any,
        epsilon_per_km: float = 1.0,
        by: Literal["power", "entropy"],
        share: float = 0.5,
        power: float = 1.0,
    ) -> None:
        self._distance = world.quality_distance
        self._exponential = Exponential(ExponentialParameters(epsilon_per_km=epsilon_per_km), distance=self._distance)
        self._by, self._share, self._power = by, share, power

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior."""
        channel: Any = self._exponential(prior)
        without_km = float((prior @ self._distance.matrix_km).min())
        saved = max(0.0, 1 - channel.loss_km(prior, self._distance) / without_km) if without_km > 0 else 1.0
        entropy = -float(prior @ np.log(np.maximum(prior, 1e-300))) / math.log(prior.size)
        reveal = self._share * (saved**self._power if self._by == "power" else saved * entropy)
        return MixChannel(channel, reveal_probability=reveal) if reveal > 0 else channel


class RelativeBudget:
    """The adaptive mix with an epsilon that is calibrated to a loss of `share_of_prior_error` P0 for each prior."""

    def __init__(self, *, world: Any, share_of_prior_error: float = 0.5, coin_share: float = 0.5) -> None:
        self._distance = world.quality_distance
        self._share, self._coin_share = share_of_prior_error, coin_share

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior."""
        budget_km = self._share * float((prior @ self._distance.matrix_km).min())
        parameters = ExponentialParameters(quality_budget_km=budget_km, coin_share=self._coin_share)
        return Exponential(parameters, distance=self._distance)(prior)
