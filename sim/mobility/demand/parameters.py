"""Parameters that all demands share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, cast

from pydantic import ConfigDict

from sim.components.custom import Custom
from sim.components.registry import OneOf, Parameters, component
from sim.interfaces import Demand


class DemandParameters(Parameters):
    """Parameters of a demand."""

    random: ClassVar[bool] = True
    """Whether queries come at random moments."""
    between_visits: ClassVar[bool] = True
    """Whether queries may come between visits, at a cell that is carried over."""

    @abstractmethod
    def build(self) -> Demand:
        """Return the demand."""


@component("demand")
class CustomDemand(Custom, DemandParameters):
    """Custom demand, imported from `module`."""

    model_config = ConfigDict(extra="allow")

    def build(self) -> Demand:
        """Return an instance of the class."""
        return cast(Demand, self.instance("demand"))


AnyDemand = Annotated[DemandParameters, OneOf("demand")]
