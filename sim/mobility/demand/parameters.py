"""Base class of the parameters of demands."""

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
    """Whether the times of queries are random."""
    between_visits: ClassVar[bool] = True
    """Whether queries may fall between visits, at the cell of the last visit."""
    endless: ClassVar[bool] = False
    """Whether users with endless visits are known to have endless queries."""

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
