"""The users of a scenario: their mobility, when they query, and which of their queries belong to their past."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from sim.components.spec import Count, Days, PeopleCount, Spec
from sim.errors import InvalidValue
from sim.mobility.demand.every_visit import EveryVisitParameters
from sim.mobility.demand.parameters import AnyDemand
from sim.mobility.parameters import AnyMobility
from sim.mobility.recorded.replay import ReplayParameters

MOST_QUERIES = 10_000_000_000


class UsersSpec(Spec):
    """Test population: the users who are protected and attacked."""

    mobility: AnyMobility
    """Mobility model: a synthetic one, or recorded traces (replay)."""
    demand: AnyDemand = EveryVisitParameters()
    """Times at which users query the service."""
    count: PeopleCount | None = None
    """Number of users; default: 10 synthetic users, or all users of a trace file."""
    queries: Count | None = None
    """Largest number of queries per user, not counting `past_queries`; synthetic users need `queries` or `days`."""
    days: Days | None = None
    """Largest number of days per user, counted from the end of `past_days`; synthetic users need `queries` or
    `days`."""
    past_queries: Count | None = None
    """Number of first queries that form the user's past: available as training data (own_past, other_user), not
    simulated. Default: no past."""
    past_days: Days | None = None
    """Number of first days that form the user's past: available as training data (own_past, other_user), not
    simulated. Default: no past."""
    past_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of each recorded trace, from its start, that forms the user's past: available as training data, not
    simulated. Default: no past."""

    @property
    def same_each_time(self) -> bool:
        """Whether every replication has the same queries, possibly in another order: none is drawn at random."""
        if not isinstance(self.mobility, ReplayParameters):
            return False
        cuts = (self.queries, self.days, self.past_queries, self.past_days, self.past_share)
        if self.mobility.shuffle and any(cut is not None for cut in cuts):
            return False  # each replication keeps another part of the trace
        if self.demand.random:
            return False
        return not (self.demand.between_visits and self.mobility.shuffle)

    @property
    def queries_each(self) -> int | None:
        """The number of queries of every user, if the parameters determine it; otherwise None.

        The lives of synthetic users are endless: with `queries` and without `days` each makes exactly that many.
        """
        endless = self.mobility.endless and self.demand.endless
        return self.queries if endless and self.days is None else None

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
