"""Calibration: base channels of fixed strength, or of a strength that meets a quality budget under each prior.

With `quality_budget_km`, the strength is chosen for each prior so that the expected quality loss under that prior,
sum_x prior(x) sum_z f(z | x) d_Q(x, z), equals the budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from sim.interfaces import Channel, FloatArray, has_own_outputs
from sim.lppm.channels.base import BaseChannel
from sim.lppm.channels.constant import ConstantChannel
from sim.lppm.channels.hiding import LocationHidingChannel, identity
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.mix import MixChannel
from sim.lppm.channels.planar import PlanarExponentialChannel, PlanarRemappedChannel
from sim.lppm.channels.plane import PlaneRemappedChannel
from sim.lppm.channels.product import ProductChannel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.channels.scattered import ScatteredExponentialChannel
from sim.lppm.outputs import Points
from sim.lppm.remap import loss_matrix
from sim.world.distance import Distance
from sim.world.distances.euclidean import EuclideanDistance
from sim.world.locations import Locations

BUDGET_TOLERANCE_KM = 1e-5
_WITH_LOSS = (
    ProductChannel
    | LocationHidingChannel
    | MatrixChannel
    | RemappedChannel
    | PlanarExponentialChannel
    | ScatteredExponentialChannel
    | PlanarRemappedChannel
    | MixChannel
    | ConstantChannel
)
_FIRST_EPSILON_PER_KM = 0.5


class BaseAndRemap(ABC):
    """Design with a base channel, fixed or calibrated for each prior, and an optional remap.

    `distance` is the quality distance d_Q. Exactly one of `base` and `budget_km` is None. `remap` replaces outputs by
    the best locations; with `plane`, the locations of the world, by the best points of the plane.
    """

    def __init__(
        self,
        *,
        distance: Distance,
        base: BaseChannel | None,
        budget_km: float | None,
        remap: bool,
        plane: Locations | None = None,
    ) -> None:
        self.uses_prior = remap or base is None
        self.space = None if plane is None else Points(plane)
        """Output space if outputs are points; None if they are cells."""
        self._plane = plane
        self._distance = distance
        self._base = base
        self._budget_km = budget_km
        self._remap = remap

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        base = self._base if self._base is not None else self._calibrated(prior, self._budget_km or 0.0)
        if self._plane is not None:
            return PlaneRemappedChannel(base, prior, locations=self._plane, distance=self._distance)
        return remapped(base, prior, self._distance) if self._remap else base

    @abstractmethod
    def _calibrated(self, prior: FloatArray, budget_km: float) -> BaseChannel:
        """Return the base channel whose expected loss under this prior is the budget."""

    def _loss_km(self, base: BaseChannel, prior: FloatArray) -> float:
        if self._plane is not None:
            return PlaneRemappedChannel(base, prior, locations=self._plane, distance=self._distance).loss_km(prior)
        table = base.remap(prior, self._distance) if self._remap else None
        return base.loss_km(prior, self._distance, table)


class ByEpsilon(BaseAndRemap):
    """Design whose base channel depends on an epsilon, fixed or calibrated for each prior, with an optional remap.

    `make` builds the base channel of an epsilon per km. `distance` is the quality distance d_Q. Exactly one of
    `epsilon_per_km` and `budget_km` is None. If the budget exceeds the loss of revealing nothing, epsilon is 0.
    """

    def __init__(
        self,
        *,
        make: Callable[[float], BaseChannel],
        distance: Distance,
        epsilon_per_km: float | None,
        budget_km: float | None,
        remap: bool,
        plane: Locations | None = None,
    ) -> None:
        base = None if epsilon_per_km is None else make(epsilon_per_km)
        super().__init__(distance=distance, base=base, budget_km=budget_km, remap=remap, plane=plane)
        self._make = make

    def _calibrated(self, prior: FloatArray, budget_km: float) -> BaseChannel:
        if budget_km <= BUDGET_TOLERANCE_KM:
            return identity(prior.size)
        return self._make(epsilon_for_loss(lambda epsilon: self._loss_km(self._make(epsilon), prior), budget_km))


def remapped(base: BaseChannel, prior: FloatArray, distance: Distance) -> RemappedChannel | PlanarRemappedChannel:
    """Return a channel whose outputs are replaced by the optimal cells under a prior."""
    if isinstance(base, PlanarExponentialChannel | ScatteredExponentialChannel) and isinstance(
        distance, EuclideanDistance
    ):
        return PlanarRemappedChannel(base, prior, distance)
    return RemappedChannel.optimal(base, prior, distance)


def expected_loss_km(channel: Channel, prior: FloatArray, distance: Distance) -> float:
    """Return sum_x prior(x) sum_z f(z | x) d_Q(x, z), the expected quality loss Q-bar of a channel under a prior."""
    if has_own_outputs(channel):
        return float(prior @ [channel.expected_loss_of_km(cell) for cell in range(prior.size)])
    if isinstance(channel, _WITH_LOSS):
        return channel.loss_km(prior, distance)
    return loss_matrix(channel.matrix(), prior, distance, np.arange(channel.n_outputs))


def revealed_share(nothing_revealed_km: float, budget_km: float) -> float:
    """Return the probability of revealing the cell that meets a budget, given the loss of revealing nothing.

    >>> revealed_share(2.0, 0.5), revealed_share(2.0, 3.0), revealed_share(0.0, 0.0)
    (0.75, 0.0, 1.0)
    """
    if budget_km <= BUDGET_TOLERANCE_KM:
        return 1.0
    return max(0.0, 1 - budget_km / nothing_revealed_km) if nothing_revealed_km > 0 else 0.0


def epsilon_for_loss(loss_km: Callable[[float], float], budget_km: float) -> float:
    """Return the epsilon per km whose loss is the budget, or 0 if no epsilon loses as much.

    `loss_km` is a decreasing function of epsilon.
    """

    def excess_km(epsilon_per_km: float) -> float:
        return loss_km(epsilon_per_km) - budget_km

    if excess_km(0.0) <= 0:
        return 0.0
    low, high = 0.0, _FIRST_EPSILON_PER_KM
    while excess_km(high) > 0:
        low, high = high, 2 * high
    return root(excess_km, low, high)


def root(excess_km: Callable[[float], float], low: float, high: float) -> float:
    """Return a parameter in [low, high] whose excess loss is zero within the tolerance.

    The excess loss is positive at one end of the interval and negative at the other.
    """
    from scipy.optimize import brentq  # slow to import

    def rounded_km(parameter: float) -> float:
        excess = excess_km(parameter)
        return 0.0 if abs(excess) <= BUDGET_TOLERANCE_KM else excess  # zero ends the search

    return float(brentq(rounded_km, low, high))
