"""Dropping: report the true cell or nothing."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sim.components.registry import component
from sim.components.spec import NonNegative, Share
from sim.inference.bayes import decide
from sim.interfaces import Channel, FloatArray
from sim.lppm.outputs import CellsOrNothing
from sim.lppm.own_outputs import OwnMatrixChannel
from sim.lppm.parameters import CalibratedParameters, ShortNames
from sim.world import World
from sim.world.distance import Distance


@component("design")
class DroppingParameters(CalibratedParameters):
    """Dropping: reports the true cell, or with some probability nothing at all."""

    short_names: ClassVar = ShortNames(design="Drop", alone={})
    strength_name: ClassVar = "drop_probability"
    default_strength: ClassVar = 0.5

    kind: Literal["dropping"] = "dropping"
    drop_probability: Share | None = None
    """Probability of reporting nothing; 0.5 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of the probability: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    drop_loss_km: NonNegative | None = None
    """Loss without an answer; by default the service answers for the best cell under the belief, and d_Q counts."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.drop_loss_km is None

    def build(self, world: World) -> Dropping:
        """Return the design for the quality distance of a world."""
        return Dropping(self, distance=world.quality_distance)


class Dropping:
    """Report the true cell, or with some probability nothing at all.

    Without a report the service answers for the cell that is best under the belief, at a loss of d_Q from the true cell
    to it, or the user goes without an answer, which costs her `drop_loss_km` if that is said. That nothing came tells
    nothing: an adversary is left with what she believed before.

    A budget beyond what is lost by never
    reporting cannot be spent.
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
        """Return what no report costs in each cell, shape (n_cells,)."""
        if self._drop_loss_km is not None:
            return np.full(prior.size, self._drop_loss_km)
        return np.array(self._distance.matrix_km[:, decide(prior, self._distance.matrix_km, self._distance.shape)])


def _share(budget_km: float, most_km: float) -> float:
    """Return which share of the most that can be lost is the budget; nothing is spent of a budget of nought.

    >>> _share(1.0, 4.0), _share(5.0, 4.0), _share(0.0, 0.0)
    (0.25, 1.0, 0.0)
    """
    if budget_km <= 0:
        return 0.0
    return min(1.0, budget_km / most_km) if most_km > 0 else 1.0
