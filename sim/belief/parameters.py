"""Parameters that all beliefs share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from pydantic import ConfigDict

from sim.components.custom import Custom
from sim.components.registry import Parameters, component
from sim.interfaces import Belief
from sim.mobility.statistics import Statistics
from sim.world import World


class BeliefParameters(Parameters):
    """Parameters of a belief."""

    short_name: ClassVar[str | None] = None
    """The belief's part in short names of LPPMs, such as ``PEB`` in ``PEB-Exp``; None if it has none."""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Further such parts, with the parameters in which each differs from the defaults."""
    hardwired: ClassVar[bool] = False
    """Whether the belief uses given statistics and never learns."""
    memoryless: ClassVar[bool] = False
    """Whether the prior never changes."""
    chained: ClassVar[bool] = False
    """Whether known transitions link consecutive reports, so that an attack can smooth past estimates."""

    @abstractmethod
    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> Belief:
        """Return a belief about one user from the statistics that its holder has.

        With `restart_s`, transitions do not cross periods of this length in seconds.
        """


@component("belief")
class CustomBelief(Custom, BeliefParameters):
    """Custom belief, imported from `module`."""

    model_config = ConfigDict(extra="allow")

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> Belief:  # noqa: ARG002
        """Return an instance of the class, constructed with `statistics` and `restart_s`."""
        return cast(Belief, self.instance("belief", statistics=statistics, restart_s=restart_s))
