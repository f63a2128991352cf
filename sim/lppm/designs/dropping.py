"""Dropping: report the true cell, or nothing."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sim.components.registry import component
from sim.components.spec import NonNegative, Share
from sim.interfaces import Channel, FloatArray
from sim.lppm.outputs import CellsOrNothing
from sim.lppm.own_outputs import OwnMatrixChannel
from sim.lppm.parameters import CalibratedParameters, ShortNames, WorldSize
from sim.lppm.strength import RealisedBudget, StrengthRange
from sim.world import World
from sim.world.distance import Distance


@component("design")
class DroppingParameters(CalibratedParameters):
    """Dropping: reports the true cell, or nothing with a given probability."""

    short_names: ClassVar = ShortNames(design="Drop", alone={})
    strength_name: ClassVar = "drop_probability"
    default_strength: ClassVar = 0.5

    kind: Literal["dropping"] = "dropping"
    drop_probability: Share | None = None
    """Probability of reporting nothing (default: 0.5)."""
    quality_budget_km: NonNegative | RealisedBudget | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `drop_probability`, which is calibrated
    to this loss for each prior. `{realised: 0.3}` refers to the mean loss of the users in the run instead; with `at:
    0.95`, to that of 95 % of them."""
    drop_loss_km: NonNegative | None = None
    """Quality loss in km of a query without a report. By default the service answers for the best cell under the
    belief, and the loss is the quality distance to that cell."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.drop_loss_km is None

    @property
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""
        return StrengthRange(name="drop_probability", least=0, most=1, loss_rises=True)

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the matrix of the channel is too large."""
        size.require_dense()

    def build(self, world: World) -> Dropping:
        """Return the design for the quality distance of a world."""
        return Dropping(self, distance=world.quality_distance)


class Dropping:
    """Report the true cell, or nothing with a given probability.

    Without a report the service answers for the best cell under the belief, at a loss of d_Q between the true cell and
    that cell. If `drop_loss_km` is given, the user gets no answer and loses that much instead. A missing report carries
    no information: the adversary's posterior equals the prior. If the budget exceeds the loss of never reporting,
    nothing is ever reported.
    """

    def __init__(self, parameters: DroppingParameters, *, distance: Distance) -> None:
        self.uses_prior = parameters.uses_prior
        self.space = CellsOrNothing(distance.n_cells)
        self._distance = distance
        self._drop_probability = parameters.strength
        self._budget_km = parameters.budget_km
        self._drop_loss_km = parameters.drop_loss_km

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        n_cells = prior.size
        without_km = self._without_report_km(prior)
        drop = self._drop_probability
        if drop is None:
            most_km = float(prior @ without_km) if self._drop_loss_km is None else self._drop_loss_km
            drop = _share(self._budget_km or 0.0, most_km)
        matrix = np.column_stack([(1 - drop) * np.eye(n_cells), np.full(n_cells, drop)])
        losses_km = np.column_stack([self._distance.matrix_km, without_km])
        return OwnMatrixChannel(matrix, space=self.space, losses_km=losses_km)

    def _without_report_km(self, prior: FloatArray) -> FloatArray:
        """Return the loss in km without a report in each cell, shape (n_cells,)."""
        if self._drop_loss_km is not None:
            return np.full(prior.size, self._drop_loss_km)
        return self._distance.column_km(self._distance.best_cell(prior))


def _share(budget_km: float, most_km: float) -> float:
    """Return the ratio of the budget to the largest possible loss, clipped to [0, 1]; 0 for a budget of 0.

    >>> _share(1.0, 4.0), _share(5.0, 4.0), _share(0.0, 0.0)
    (0.25, 1.0, 0.0)
    """
    if budget_km <= 0:
        return 0.0
    return min(1.0, budget_km / most_km) if most_km > 0 else 1.0
