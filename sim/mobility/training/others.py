"""Training on the traces of other people."""

from __future__ import annotations

from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import Count, Days, PeopleCount
from sim.mobility.demand.parameters import AnyDemand
from sim.mobility.parameters import AnyMobility
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class OthersParameters(TrainingParameters):
    """The pooled traces of other people; their number makes the training scarce or rich."""

    by_user: ClassVar[bool] = False

    kind: Literal["others"] = "others"
    mobility: AnyMobility | None = None
    """Mobility of the people (default: that of `users`)."""
    demand: AnyDemand | None = None
    """Demand of the people (default: that of `users`)."""
    count: PeopleCount | None = None
    """Number of people (default: 10 synthetic people, or all people in a trace file)."""
    queries: Count | None = None
    """Maximum number of queries per person (default, without `days`: the same as `users`)."""
    days: Days | None = None
    """Maximum number of days per person (default, without `queries`: the same as `users`)."""

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:
        """Return the pooled statistics, the same for each user."""
        pooled = source.others(name)
        return lambda _user: pooled
