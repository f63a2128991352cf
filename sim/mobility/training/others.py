"""Training on other people's traces."""

from __future__ import annotations

from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import Count, Days
from sim.mobility.demand.parameters import AnyDemand
from sim.mobility.parameters import AnyMobility
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class OthersParameters(TrainingParameters):
    """Other people's traces, pooled: scarce or rich by their number."""

    by_user: ClassVar[bool] = False

    kind: Literal["others"] = "others"
    mobility: AnyMobility | None = None
    """Mobility (default: that of the users)."""
    demand: AnyDemand | None = None
    """Demand (default: that of the users)."""
    count: Count | None = None
    """Number of people (default: 10 synthetic people, or all of a trace file)."""
    queries: Count | None = None
    """Maximum number of queries of each (default, without `days`: as the users)."""
    days: Days | None = None
    """Maximum number of days (default, without `queries`: as the users)."""

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:
        """Return the pooled statistics, the same for each user."""
        pooled = source.others(name)
        return lambda _user: pooled
