"""The users of a scenario: how they move, when they query, and which of their queries are their past."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from sim.components.spec import Count, Days, Spec
from sim.errors import InvalidValue
from sim.mobility.demand.every_visit import EveryVisitParameters
from sim.mobility.demand.parameters import AnyDemand
from sim.mobility.parameters import AnyMobility
from sim.mobility.recorded.replay import ReplayParameters

MOST_QUERIES = 100_000_000


class UsersSpec(Spec):
    """The test population: who is protected and attacked."""

    mobility: AnyMobility
    """Where they go."""
    demand: AnyDemand = EveryVisitParameters()
    """When they query."""
    count: Count | None = None
    """How many users: 10 synthetic ones, or all of a trace file, unless said."""
    queries: Count | None = None
    """At most so many queries each."""
    days: Days | None = None
    """At most so many days, after those of the past."""
    past_queries: Count | None = None
    """So many first queries are the user's past: not simulated, there to be trained on."""
    past_days: Days | None = None
    """So many first days are the user's past: not simulated, there to be trained on."""
    past_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """This share of each recorded trace, such as its first half, is the user's past."""

    @property
    def same_each_time(self) -> bool:
        """Whether every replication has the same queries, in whatever order: none of them is drawn at random."""
        if not isinstance(self.mobility, ReplayParameters):
            return False
        cuts = (self.queries, self.days, self.past_queries, self.past_days, self.past_share)
        if self.mobility.shuffle and any(cut is not None for cut in cuts):
            return False  # what comes first, and is kept, is another part of the trace each time
        if self.demand.random:
            return False
        return not (self.demand.between_visits and self.mobility.shuffle)

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.queries is None and self.days is None and not self.mobility.recorded:
            message = "synthetic users need a number of `queries` or `days`, found neither: add one of them"
            raise InvalidValue(message, code="missing-duration")
        pasts = [name for name in ("past_queries", "past_days", "past_share") if vars(self)[name] is not None]
        if len(pasts) > 1:
            message = f"`{'` and `'.join(pasts)}` exclude each other: keep one of them"
            raise InvalidValue(message, code="exclusive-keys")
        if self.past_share is not None and (self.days is not None or not self.mobility.recorded):
            message = "`past_share` is a share of a recorded trace: it needs `mobility: replay` and excludes `days`"
            raise InvalidValue(message, code="needs-recorded-traces")
        if self.past_queries is not None and self.days is not None:
            message = (
                "`days` and `past_queries` exclude each other: days are counted from the end of `past_days`; "
                "use `past_days` and `days`, or `past_queries` and `queries`"
            )
            raise InvalidValue(message, code="exclusive-keys")
        total = (self.count or 1) * ((self.queries or 0) + (self.past_queries or 0))
        if total > MOST_QUERIES:
            message = f"`count` users x `queries` must be at most {MOST_QUERIES:,}, found {total:,}"
            raise InvalidValue(message, code="too-many-queries")
        return self
