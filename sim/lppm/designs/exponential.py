"""The exponential mechanism (Oya et al. 2019, Sect. V)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import NonNegative
from sim.lppm.calibration import ByEpsilon
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.planar import require_table_of_outputs
from sim.lppm.parameters import CalibratedParameters, ShortNames, WorldSize
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
    """Decay rate of the report probability with distance, per km (default: 1)."""
    quality_budget_km: NonNegative | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `epsilon_per_km`, which is calibrated to
    this loss for each prior."""
    remap: bool = True
    """Replace each output by the cell with the smallest expected loss under its posterior. This never increases the
    expected loss and, as post-processing, does not reduce privacy."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.remap or self.budget_km is not None

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the distance needs a matrix that is too large, or a budget too many outputs."""
        size.require_dense_unless("manhattan", "euclidean")
        if size.quality == "euclidean" and self.remap and self.budget_km is not None:
            require_table_of_outputs(size.n_cells, size.quality)

    def build(self, world: World) -> Exponential:
        """Return the design for the quality distance of a world."""
        return Exponential(self, distance=world.quality_distance)


class Exponential(ByEpsilon):
    """The exponential mechanism f(z | x) ∝ exp(-epsilon d_Q(x, z)): Exp of Oya et al. 2019, Sect. V.

    `distance` is the quality distance d_Q. The mechanism is 2 epsilon-geo-indistinguishable in it, because each row has
    a separate normalising constant. If the budget exceeds the loss of revealing nothing, epsilon is 0.
    """

    def __init__(self, parameters: ExponentialParameters, *, distance: Distance) -> None:
        super().__init__(
            make=partial(exponential, distance),
            distance=distance,
            epsilon_per_km=parameters.strength,
            budget_km=parameters.budget_km,
            remap=parameters.remap,
        )
