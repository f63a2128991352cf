"""The baseline without protection."""

from __future__ import annotations

from typing import ClassVar, Literal

from sim.components.registry import component
from sim.interfaces import Channel, FloatArray
from sim.lppm.channels.hiding import identity
from sim.lppm.parameters import DesignParameters, ShortNames
from sim.world import World


@component("design")
class IdentityParameters(DesignParameters):
    """No protection: reports the true cell."""

    short_names: ClassVar = ShortNames(design="identity", alone={})

    kind: Literal["identity"] = "identity"

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return False

    def build(self, world: World) -> Identity:
        """Return the design for the cells of a world."""
        return Identity(n_cells=world.n_cells)


class Identity:
    """Report the true cell under any prior: the baseline without protection."""

    uses_prior = False

    def __init__(self, *, n_cells: int) -> None:
        self._channel = identity(n_cells)

    def __call__(self, prior: FloatArray) -> Channel:  # noqa: ARG002 - the channel does not depend on it
        """Return the channel that reports the true cell."""
        return self._channel
