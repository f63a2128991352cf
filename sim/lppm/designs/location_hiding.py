"""Location hiding: report the true cell, or another cell drawn uniformly (Oya et al. 2019, Sect. V)."""

from __future__ import annotations

from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import NonNegative, Share
from sim.interfaces import FloatArray
from sim.lppm.calibration import BUDGET_TOLERANCE_KM, BaseAndRemap, root
from sim.lppm.channels.base import BaseChannel
from sim.lppm.channels.hiding import identity, location_hiding
from sim.lppm.parameters import CalibratedParameters, ShortNames, WorldSize
from sim.lppm.strength import RealisedBudget, StrengthRange
from sim.world import World
from sim.world.distance import Distance
from sim.world.locations import Locations


@component("design")
class LocationHidingParameters(CalibratedParameters):
    """Location hiding: reports the true cell with probability alpha, otherwise another cell drawn uniformly."""

    short_names: ClassVar = ShortNames(
        design="LH", beliefs=("SP", "MK", "PEB", "RPEB", "PEB-MK"), full=True, alone={"remap": False}
    )
    strength_name: ClassVar = "reveal_probability"
    default_strength: ClassVar = 0.5

    kind: Literal["location_hiding"] = "location_hiding"
    reveal_probability: Share | None = None
    """Probability alpha of reporting the true cell (default: 0.5)."""
    quality_budget_km: NonNegative | RealisedBudget | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `reveal_probability`, which is
    calibrated to this loss for each prior. `{realised: 0.3}` refers to the mean loss of the users in the run
    instead; with `at: 0.95`, to that of 95 % of them."""
    remap: bool | Literal["plane"] = True
    """Replace each output by the cell with the smallest expected loss under its posterior. This never increases the
    expected loss and, as post-processing, does not reduce privacy. `plane`: by the best point of the plane, rounded to
    metres, which loses even less between scattered locations; requires a Euclidean or Manhattan quality distance."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return bool(self.remap) or self.budget_km is not None

    @property
    def countless(self) -> bool:
        """Whether there are too many outputs to enumerate: those in the plane."""
        return self.remap == "plane"

    @property
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""
        return StrengthRange(name="reveal_probability", least=0, most=1, loss_rises=False)

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if outputs are remapped to points and the distance is not defined for them."""
        if self.remap == "plane":
            size.require_plane()

    def build(self, world: World) -> LocationHiding:
        """Return the design for the quality distance of a world."""
        plane = world.locations if self.remap == "plane" else None
        return LocationHiding(self, distance=world.quality_distance, plane=plane)


class LocationHiding(BaseAndRemap):
    """Report the true cell with probability alpha, otherwise another cell: LH of Oya et al. 2019, Sect. V.

    `distance` is the quality distance d_Q. If the budget exceeds the loss of revealing nothing, the channel that loses
    most is used.
    """

    def __init__(
        self, parameters: LocationHidingParameters, *, distance: Distance, plane: Locations | None = None
    ) -> None:
        reveal = parameters.strength
        base = None if reveal is None else location_hiding(distance.n_cells, reveal)
        remap = bool(parameters.remap)
        super().__init__(distance=distance, base=base, budget_km=parameters.budget_km, remap=remap, plane=plane)

    def _calibrated(self, prior: FloatArray, budget_km: float) -> BaseChannel:
        def excess_km(reveal_probability: float) -> float:
            return self._loss_km(location_hiding(prior.size, reveal_probability), prior) - budget_km

        if budget_km <= BUDGET_TOLERANCE_KM:
            return identity(prior.size)
        # Without remap the loss is largest at alpha = 0. With remap it is largest if all outputs are equally likely: a
        # report that is never the true cell carries information (with two cells, all of it), which the remap exploits.
        lowest = 1 / prior.size if self._remap else 0.0
        if excess_km(lowest) <= 0:
            return location_hiding(prior.size, lowest)
        return location_hiding(prior.size, root(excess_km, lowest, 1.0))
