"""The exponential mechanism (Oya et al. 2019, Sect. V)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import NonNegative
from sim.lppm.calibration import ByEpsilon
from sim.lppm.channel import exponential
from sim.lppm.parameters import CalibratedParameters, ShortNames
from sim.world import World
from sim.world.distance import Distance


@component("design")
class ExponentialParameters(CalibratedParameters):
    """Exponential mechanism: reports z with a probability proportional to exp(-epsilon d_Q(x, z))."""

    short_names: ClassVar = ShortNames(
        design="Exp", beliefs=("SP", "MK", "PEB", "RPEB", "PEB-MK"), full=True, alone={"remap": False}
    )
    strength_name: ClassVar = "epsilon_per_km"
    default_strength: ClassVar = 1.0

    kind: Literal["exponential"] = "exponential"
    epsilon_per_km: NonNegative | None = None
    """Decay of the probability with distance; 1 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of epsilon: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    remap: bool = True
    """Replace each output by the best one for its posterior: never worse for the user, no worse for privacy."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.remap or self.budget_km is not None

    def build(self, world: World) -> Exponential:
        """Return the design for the quality distance of a world."""
        return Exponential(self, distance=world.quality_distance)


class Exponential(ByEpsilon):
    """The exponential mechanism f(z | x) ∝ exp(-epsilon d_Q(x, z)), remapped: Exp of Oya et al. 2019, Sect. V.

    A budget beyond what is lost by revealing nothing (epsilon = 0) cannot be spent. `distance` is the quality distance
    d_Q, in which the mechanism is 2 epsilon-geo-indistinguishable: every row has a normaliser of its own.
    """

    def __init__(self, parameters: ExponentialParameters, *, distance: Distance) -> None:
        super().__init__(
            make=partial(exponential, distance),
            distance=distance,
            epsilon_per_km=parameters.strength,
            budget_km=parameters.budget_km,
            remap=parameters.remap,
        )
