"""Calibration: a base channel of given strength, or one that spends a quality budget under each prior.

With `quality_budget_km` the parameter is set for each prior so that the mechanism's expected loss on its own
model, sum_x prior(x) sum_z f(z | x) d_Q(x, z), equals the budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from sim.interfaces import Channel, FloatArray, has_own_outputs
from sim.lppm.channel import (
    BaseChannel,
    LocationHidingChannel,
    MatrixChannel,
    ProductChannel,
    RemappedChannel,
    identity,
)
from sim.lppm.remap import loss_matrix
from sim.world.distance import Distance

BUDGET_TOLERANCE_KM = 1e-5
_FIRST_EPSILON_PER_KM = 0.5


class BaseAndRemap(ABC):
    """Take a base channel, fixed or calibrated for the prior, and remap it for the prior if wanted."""

    def __init__(self, *, distance: Distance, base: BaseChannel | None, budget_km: float | None, remap: bool) -> None:
        self.uses_prior = remap or base is None
        self._distance = distance
        self._base = base
        self._budget_km = budget_km
        self._remap = remap

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        base = self._base if self._base is not None else self._calibrated(prior, self._budget_km or 0.0)
        return RemappedChannel(base, base.remap(prior, self._distance)) if self._remap else base

    @abstractmethod
    def _calibrated(self, prior: FloatArray, budget_km: float) -> BaseChannel:
        """Return the base channel that spends the budget under this prior."""

    def _loss_km(self, base: BaseChannel, prior: FloatArray) -> float:
        table = base.remap(prior, self._distance) if self._remap else None
        return base.loss_km(prior, self._distance, table)


class ByEpsilon(BaseAndRemap):
    """A base channel made of an epsilon, given or calibrated for each prior to spend a budget, and a remap.

    A budget beyond what is lost by revealing nothing (epsilon = 0) cannot be spent. `distance` is the quality distance
    d_Q. One of `epsilon_per_km` and `budget_km` is None.
    """

    def __init__(
        self,
        *,
        make: Callable[[float], BaseChannel],
        distance: Distance,
        epsilon_per_km: float | None,
        budget_km: float | None,
        remap: bool,
    ) -> None:
        base = None if epsilon_per_km is None else make(epsilon_per_km)
        super().__init__(distance=distance, base=base, budget_km=budget_km, remap=remap)
        self._make = make

    def _calibrated(self, prior: FloatArray, budget_km: float) -> BaseChannel:
        if budget_km <= BUDGET_TOLERANCE_KM:
            return identity(prior.size)
        return self._make(epsilon_that_loses(lambda epsilon: self._loss_km(self._make(epsilon), prior), budget_km))


def expected_loss_km(channel: Channel, prior: FloatArray, distance: Distance) -> float:
    """Return sum_x prior(x) sum_z f(z | x) d_Q(x, z), the loss Q-bar of a channel if the prior is right."""
    if has_own_outputs(channel):
        return float(prior @ [channel.expected_loss_of_km(cell) for cell in range(prior.size)])
    if isinstance(channel, ProductChannel | LocationHidingChannel | MatrixChannel | RemappedChannel):
        return channel.loss_km(prior, distance)
    return loss_matrix(channel.matrix(), prior, distance, np.arange(channel.n_outputs))


def epsilon_that_loses(loss_km: Callable[[float], float], budget_km: float) -> float:
    """Return the epsilon per km whose loss is the budget, or 0 where nothing loses as much; the loss falls with it."""

    def excess_km(epsilon_per_km: float) -> float:
        return loss_km(epsilon_per_km) - budget_km

    if excess_km(0.0) <= 0:
        return 0.0
    low, high = 0.0, _FIRST_EPSILON_PER_KM
    while excess_km(high) > 0:
        low, high = high, 2 * high
    return root(excess_km, low, high)


def root(excess_km: Callable[[float], float], low: float, high: float) -> float:
    """Return a parameter whose excess loss is zero within the tolerance, between a positive and a negative one."""
    from scipy.optimize import brentq  # takes long to import

    def rounded_km(parameter: float) -> float:
        excess = excess_km(parameter)
        return 0.0 if abs(excess) <= BUDGET_TOLERANCE_KM else excess  # a nought ends the search

    return float(brentq(rounded_km, low, high))
