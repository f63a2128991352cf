"""Base class of the parameters of mobility models."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, cast

from pydantic import ConfigDict

from sim.components.custom import Custom
from sim.components.files import Place
from sim.components.registry import OneOf, Parameters, component
from sim.interfaces import Mobility
from sim.world import World


class MobilityParameters(Parameters):
    """Parameters of a mobility model."""

    needs_roads: ClassVar[bool] = False
    """Whether the users move on roads."""
    recorded: ClassVar[bool] = False
    """Whether the users are recorded in a file, with finite traces."""
    endless: ClassVar[bool] = False
    """Whether the visits of every user are known to have no end."""

    @abstractmethod
    def build(self, world: World, seed: int, place: Place) -> Mobility:
        """Return the model; `place` resolves file names."""


@component("mobility")
class CustomMobility(Custom, MobilityParameters):
    """Custom mobility model, imported from `module`."""

    model_config = ConfigDict(extra="allow")

    def build(self, world: World, seed: int, place: Place) -> Mobility:  # noqa: ARG002
        """Return an instance of the class, constructed with the world and the seed."""
        return cast(Mobility, self.instance("mobility", world=world, seed=seed))


AnyMobility = Annotated[MobilityParameters, OneOf("mobility")]
