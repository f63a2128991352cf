"""Designs: pure functions from a prior to a channel, with a fixed parameter or a budget of quality loss.

With `quality_budget_km` the parameter is set for each prior so that the mechanism's expected loss on its own
model, sum_x prior(x) sum_z f(z | x) d_Q(x, z), equals the budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.optimize import brentq

from sim.interfaces import Channel, FloatArray, has_own_outputs
from sim.lppm.channel import (
    BaseChannel,
    LocationHidingChannel,
    MatrixChannel,
    ProductChannel,
    RemappedChannel,
    exponential,
    identity,
    location_hiding,
)
from sim.lppm.remap import loss_matrix
from sim.world.distance import Distance

BUDGET_TOLERANCE_KM = 1e-5
_FIRST_EPSILON_PER_KM = 0.5


class BaseAndRemap(ABC):
    """Take a base channel, fixed or calibrated for the prior, and remap it for the prior if wanted."""

    def __init__(self, *, distance: Distance, base: BaseChannel | None, budget_km: float | None, remap: bool) -> None:
        require_budget(budget_km)
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
    """A base channel that `make` makes of an epsilon, given or set for each prior to spend a budget, and a remap.

    Give one of epsilon_per_km in [0, inf) and quality_budget_km in [0, inf). A budget beyond what is lost by
    revealing nothing (epsilon = 0) cannot be spent. `distance` is the quality distance d_Q.
    """

    def __init__(
        self,
        *,
        make: Callable[[float], BaseChannel],
        distance: Distance,
        epsilon_per_km: float | None,
        quality_budget_km: float | None,
        remap: bool,
    ) -> None:
        require_one("epsilon_per_km", epsilon_per_km, quality_budget_km)
        base = None if epsilon_per_km is None else make(epsilon_per_km)
        super().__init__(distance=distance, base=base, budget_km=quality_budget_km, remap=remap)
        self._make = make

    def _calibrated(self, prior: FloatArray, budget_km: float) -> BaseChannel:
        if budget_km <= BUDGET_TOLERANCE_KM:
            return identity(prior.size)
        return self._make(epsilon_that_loses(lambda epsilon: self._loss_km(self._make(epsilon), prior), budget_km))


class Exponential(ByEpsilon):
    """The exponential mechanism f(z | x) ∝ exp(-epsilon d_Q(x, z)), remapped: Exp of Oya et al. 2019, Sect. V.

    Give one of epsilon_per_km in [0, inf) and quality_budget_km in [0, inf). A budget beyond what is lost by
    revealing nothing (epsilon = 0) cannot be spent. `distance` is the quality distance d_Q, in which the mechanism is
    2 epsilon-geo-indistinguishable: every row has a normaliser of its own.
    """

    def __init__(
        self,
        *,
        distance: Distance,
        epsilon_per_km: float | None = None,
        quality_budget_km: float | None = None,
        remap: bool = True,
    ) -> None:
        super().__init__(
            make=partial(exponential, distance),
            distance=distance,
            epsilon_per_km=epsilon_per_km,
            quality_budget_km=quality_budget_km,
            remap=remap,
        )


class LocationHiding(BaseAndRemap):
    """Reveal the cell with probability alpha, else report another, remapped: LH of Oya et al. 2019, Sect. V.

    Give one of reveal_probability in [0, 1] and quality_budget_km in [0, inf). A budget beyond what is lost by
    revealing nothing cannot be spent. `distance` is the quality distance d_Q.
    """

    def __init__(
        self,
        *,
        distance: Distance,
        reveal_probability: float | None = None,
        quality_budget_km: float | None = None,
        remap: bool = True,
    ) -> None:
        require_one("reveal_probability", reveal_probability, quality_budget_km)
        base = None if reveal_probability is None else location_hiding(distance.n_cells, reveal_probability)
        super().__init__(distance=distance, base=base, budget_km=quality_budget_km, remap=remap)

    def _calibrated(self, prior: FloatArray, budget_km: float) -> BaseChannel:
        def excess_km(reveal_probability: float) -> float:
            return self._loss_km(location_hiding(prior.size, reveal_probability), prior) - budget_km

        if budget_km <= BUDGET_TOLERANCE_KM:
            return identity(prior.size)
        # The most is lost at alpha = 0 as it stands. But "never where I am" tells something, with two cells
        # everything, and a remap makes use of it: then the most is lost where all outputs are alike.
        lowest = 1 / prior.size if self._remap else 0.0
        if excess_km(lowest) <= 0:
            return location_hiding(prior.size, lowest)
        return location_hiding(prior.size, root(excess_km, lowest, 1.0))


class Identity:
    """Report the truth: the baseline without protection, whatever the prior."""

    uses_prior = False

    def __init__(self, *, n_cells: int) -> None:
        self._channel = identity(n_cells)

    def __call__(self, prior: FloatArray) -> Channel:  # noqa: ARG002 - the prior does not matter
        """Return the channel that tells the truth."""
        return self._channel


def expected_loss_km(channel: Channel, prior: FloatArray, distance: Distance) -> float:
    """Return sum_x prior(x) sum_z f(z | x) d_Q(x, z), the loss Q-bar of a channel if the prior is right."""
    if has_own_outputs(channel):
        return float(prior @ [channel.expected_loss_of_km(cell) for cell in range(prior.size)])
    if isinstance(channel, ProductChannel | LocationHidingChannel | MatrixChannel | RemappedChannel):
        return channel.loss_km(prior, distance)
    return loss_matrix(channel.matrix(), prior, distance, np.arange(channel.n_outputs))


def require_budget(budget_km: float | None) -> None:
    """Refuse a budget that is none."""
    if budget_km is not None and not 0 <= budget_km < np.inf:
        raise ValueError(f"quality_budget_km must be in [0, inf), got {budget_km}")


def require_one(name: str, parameter: float | None, budget_km: float | None) -> None:
    """Refuse a parameter beside a budget, and neither of them."""
    if (parameter is None) == (budget_km is None):
        raise ValueError(f"give one of {name} and quality_budget_km, got {parameter} and {budget_km}")


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
    """Return a parameter whose excess loss is nought within the tolerance, between a positive and a negative."""

    def rounded_km(parameter: float) -> float:
        excess = excess_km(parameter)
        return 0.0 if abs(excess) <= BUDGET_TOLERANCE_KM else excess  # a nought ends the search

    return float(brentq(rounded_km, low, high))
