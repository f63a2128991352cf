"""Coin: report the true cell, or the best guess without any report.

Oya et al., Back to the Drawing Board: Revisiting the Design of Optimal Location Privacy-preserving Mechanisms, CCS
2017, give this mechanism as a warning: its average error is as high as that of any mechanism of the same loss, although
it often reveals the exact cell.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import NonNegative, Share
from sim.interfaces import Channel, FloatArray
from sim.lppm.calibration import revealed_share
from sim.lppm.channels.constant import ConstantChannel
from sim.lppm.channels.hiding import identity
from sim.lppm.channels.mix import MixChannel
from sim.lppm.parameters import CalibratedParameters, ShortNames
from sim.lppm.strength import RealisedBudget, StrengthRange
from sim.world import World
from sim.world.distance import Distance


@component("design")
class CoinParameters(CalibratedParameters):
    """Coin: reports the true cell or the best guess. Its high average error misleads: read the entropy too (CCS 2017).

    Among mechanisms of the same loss its average error is the highest, but it reveals the exact cell with a fixed
    probability, so that the conditional entropy is low (Oya et al., Back to the Drawing Board, CCS 2017).
    """

    short_names: ClassVar = ShortNames(design="Coin", beliefs=("SP", "MK", "PEB", "RPEB", "PEB-MK"))
    strength_name: ClassVar = "reveal_probability"
    default_strength: ClassVar = 0.5

    kind: Literal["coin"] = "coin"
    reveal_probability: Share | None = None
    """Probability of reporting the true cell (default: 0.5)."""
    quality_budget_km: NonNegative | RealisedBudget | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `reveal_probability`, which is
    calibrated to this loss for each prior. `{realised: 0.3}` refers to the mean loss of the users in the run
    instead; with `at: 0.95`, to that of 95 % of them."""

    @property
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""
        return StrengthRange(name="reveal_probability", least=0, most=1, loss_rises=False)

    def build(self, world: World) -> Coin:
        """Return the design for the quality distance of a world."""
        return Coin(self, distance=world.quality_distance)


class Coin:
    """Report the true cell with probability a, otherwise the cell h = argmin_y sum_x prior(x) d_Q(x, y).

    It is the mix (`exponential` with `reveal_probability`) at epsilon 0. With a budget Q, a = max(0, 1 - Q / P0), where
    P0 = sum_x prior(x) d_Q(x, h) is the loss of revealing nothing. `distance` is the quality distance d_Q.
    """

    uses_prior = True

    def __init__(self, parameters: CoinParameters, *, distance: Distance) -> None:
        self._distance = distance
        self._reveal_probability, self._budget_km = parameters.strength, parameters.budget_km

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        best = ConstantChannel(n_cells=prior.size, output=self._distance.best_cell(prior))
        reveal = self._reveal_probability
        if reveal is None:
            reveal = revealed_share(best.loss_km(prior, self._distance), self._budget_km or 0.0)
        if reveal == 1:
            return identity(prior.size)
        return best if reveal == 0 else MixChannel(best, reveal_probability=reveal)
