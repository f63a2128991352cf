"""Parameters that all beliefs share."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, cast

from pydantic import ConfigDict

from sim.components.custom import Custom
from sim.components.registry import Parameters, component
from sim.interfaces import Belief
from sim.mobility.statistics import Statistics
from sim.world import World


class BeliefParameters(Parameters):
    """Parameters of a belief."""

    short_name: ClassVar[str | None] = None
    """Its part of the short names of LPPMs, such as ``PEB`` of ``PEB-Exp``."""
    hardwired: ClassVar[bool] = False
    """Whether it holds given statistics and never learns others."""
    memoryless: ClassVar[bool] = False
    """Whether its prior never changes."""
    chained: ClassVar[bool] = False
    """Whether it follows the user from report to report by known transitions, so that an attack can look back."""

    @abstractmethod
    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> Belief:
        """Return a belief about one user, given the statistics that its holder has.

        With `restart_s`, transitions do not cross periods of this length.
        """


@component("belief")
class CustomBelief(Custom, BeliefParameters):
    """Custom belief, imported from `module`."""

    model_config = ConfigDict(extra="allow")

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> Belief:  # noqa: ARG002
        """Return an instance of the class, which is given the statistics and `restart_s`."""
        return cast(Belief, self.instance("belief", statistics=statistics, restart_s=restart_s))
