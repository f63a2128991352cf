"""Parameters of designs that add a secret offset to the true location."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sim.components.spec import Positive
from sim.lppm.hidden.clocks import Clock
from sim.lppm.hidden.laws import GaussianOffsets, Redrawn, circle_offsets, disc_offsets
from sim.lppm.hidden.secret import SecretChannel, SecretDesign, SecretState, displaced, require_pairs
from sim.lppm.parameters import DesignParameters, WorldSize
from sim.world import World

Levels = Annotated[int, Field(ge=1, le=64)]
Shape = Literal["gaussian", "disc", "circle"]


class SecretParameters(DesignParameters):
    """Parameters of a design with a hidden state and a channel that does not depend on the prior."""

    levels: Levels = 16
    """Resolution of the offset: its number of steps from one side to the other in each direction. Adversaries track the
    offset exactly, at a cost that grows with the square of this number."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return False

    @property
    def has_memory(self) -> bool:
        """Whether outputs depend on a secret of the mechanism."""
        return True

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if a matrix of the channel or the pairs of cell and state are too many."""
        size.require_dense()
        require_pairs(size.n_cells, (self.levels + 1) ** 2)


class ShapedOffset(SecretParameters):
    """Parameters of an offset of a given shape."""

    shape: Shape = "gaussian"
    """Distribution of the offset. gaussian: normal in each coordinate; disc: uniform in a disc; circle: of one length,
    in a random direction."""
    scale_km: Positive = 0.5
    """Size of the offset in km: standard deviation of each coordinate (gaussian), or radius (disc, circle)."""


def offsets(shape: Shape, scale_km: float, levels: int) -> GaussianOffsets | Redrawn:
    """Return the law of an offset."""
    match shape:
        case "gaussian":
            return GaussianOffsets(std_km=scale_km, levels=levels)
        case "disc":
            return disc_offsets(scale_km, levels=levels)
        case "circle":
            return circle_offsets(scale_km, levels=levels)


def offset_design(world: World, law: GaussianOffsets | Redrawn, clock: Clock) -> SecretDesign:
    """Return the design that reports the cell of the displaced centre, or the nearest cell outside the grid."""
    emission = displaced(world.locations, law.displacements_km)
    return SecretDesign(SecretChannel(SecretState(emission, law=law, clock=clock)))
