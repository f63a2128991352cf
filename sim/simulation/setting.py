"""Setting of a scenario: world, mobility, demand and training sets, shared by all replications and LPPMs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, cached_property, reduce
from typing import Any

from sim.belief.home import HomeProfileParameters
from sim.components.files import parts_of
from sim.errors import InputError, InvalidValue, input_errors
from sim.interfaces import Demand, Mobility, MobilityCapabilities
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.parameters import DemandParameters
from sim.mobility.demand.poisson import Poisson
from sim.mobility.gaps import Coverage, Schedule, count_gaps, schedule
from sim.mobility.recorded.replay import Replay, ReplayParameters
from sim.mobility.statistics import Counts, Statistics, count
from sim.mobility.traces import DAY_S, Trace, live
from sim.mobility.training.others import OthersParameters
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.scenario.people import UsersSpec
from sim.simulation.shifts import Shifts
from sim.world import World

PEOPLE = 1_000
"""Number of people of a training set whose traces are in memory at the same time."""


class Setting:
    """World of a scenario, its mobility and demand, and its training sets of other people; built on first use."""

    def __init__(self, scenario: Scenario, counted: Callable[[str], Counts | None] = lambda _training: None) -> None:
        """Prepare the setting; `counted` returns known counts of a training set of other people, if there are any."""
        self.scenario = scenario
        self._counted = counted
        self._others = cache(self._statistics_of_others)
        self._movers: dict[str, Mobility] = {}

    @cached_property
    def world(self) -> World:
        """The grid, the roads and the distances."""
        with input_errors("world"):
            return self.scenario.build_world()

    @cached_property
    def mobility(self) -> Mobility:
        """The mobility model of the users: where they are at which time."""
        users = self.scenario.users
        with input_errors("users.mobility"):
            mobility = users.mobility.build(self.world, self.scenario.seed, self.scenario.place)
            _require_times(mobility, users.demand, self.scenario, users.days, users.past_days)
        return mobility

    @cached_property
    def demand(self) -> Demand:
        """The demand model of the users: when they query."""
        with input_errors("users.demand"):
            return self.scenario.users.demand.build()

    @cached_property
    def users(self) -> Sequence[str]:
        """The ids of the test population."""
        with input_errors("users"):
            users = self.mobility.users(self.scenario.users.count)
        if not users:
            raise InputError("users: no user to simulate: the selection is empty", code="no-users")
        return users

    @cached_property
    def shifts(self) -> Shifts:
        """The behaviour shifts of the users."""
        return Shifts(self.scenario, self.world, self.users, self.mobility, self.demand)

    def readings(self) -> dict[str, dict[str, Any]]:
        """Return statistics of the trace files read, for the users and for each training set of other people.

        They count rows, rows outside the region, irregular times, sessions and stay points. For demands that query
        between visits, and for resampled visits, they also count recorded, carried and cut queries of past and test
        together (see `sim.mobility.gaps.Coverage`), and those of the past.
        """
        with input_errors("users"):
            readings = {"users": self._reading(self.mobility, self.demand, self.scenario.users)}
        for name, spec in self.scenario.training.items():
            if isinstance(spec, OthersParameters):
                with input_errors(f"training.{name}"):
                    mobility, demand = self._mobility_of_others(spec), self._demand_of_others(spec)
                    readings[f"training.{name}"] = self._reading(mobility, demand, spec)
        return {where: reading for where, reading in readings.items() if reading}

    def _reading(self, mobility: Mobility, demand: Demand, spec: UsersSpec | OthersParameters) -> dict[str, Any]:
        if not isinstance(mobility, Replay):
            return {}
        reading = {} if spec.mobility is None else mobility.report()
        only_visits = isinstance(demand, EveryVisit) and mobility.resample_s is None
        if mobility.max_gap_s is None or (only_visits and not self._adds_queries(spec)):
            return reading
        gap_s, users = mobility.max_gap_s, mobility.users(spec.count)
        reading["max_gap_s"] = int(mobility.session_gap_s)
        schedules = [
            schedule(
                demand,
                mobility.times_s(user),
                max_gap_s=gap_s,
                carried=mobility.carried(user),
                resample_s=None if self._adds_queries(spec) else mobility.resample_s,
            )
            for user in users
        ]
        counts, past = Coverage(), 0
        for plan in schedules:
            if plan is None:  # a custom demand, or visits plus the queries that a shift adds
                return reading | {"gaps": sum(count_gaps(mobility.times_s(user), max_gap_s=gap_s) for user in users)}
            counts += plan.coverage(self._taken(plan, spec))
            past += 0 if isinstance(spec, OthersParameters) else min(self._past(plan, spec), plan.total)
        return (
            reading
            | ({"queries_past": past} if past else {})
            | {"queries_recorded": counts.recorded, "queries_carried": counts.carried, "queries_cut": counts.cut}
            | {"gaps": counts.gaps, "expected": int(isinstance(demand, Poisson))}
        )

    def _adds_queries(self, spec: UsersSpec | OthersParameters) -> bool:
        """Return whether a shift adds queries between the visits of these people."""
        shifts = self.scenario.shifts if isinstance(spec, UsersSpec) else []
        return any(shift.adds_queries for shift in shifts)

    def _taken(self, plan: Schedule, spec: UsersSpec | OthersParameters) -> int:
        """Return the number of a recorded user's queries that belong to the past or the test."""
        origin_s = _midnight_s(plan)
        if isinstance(spec, OthersParameters):
            queries, days = self._limits_of_others(spec)
            past, until_s = 0, seconds(days)
        else:
            queries, past = spec.queries, self._past(plan, spec)
            until_s = None if spec.days is None else (seconds(spec.past_days) or 0) + int(spec.days * DAY_S)
        most = plan.total if until_s is None else plan.before(origin_s + until_s)
        return most if queries is None else min(most, past + queries)

    @staticmethod
    def _past(plan: Schedule, spec: UsersSpec) -> int:
        """Return the number of a recorded user's queries that belong to the past."""
        before = plan.before(_midnight_s(plan) + (seconds(spec.past_days) or 0))
        return max(spec.past_queries or 0, before, int(plan.total * (spec.past_share or 0)))

    def others(self, training: str) -> Statistics:
        """Return the pooled statistics of other people, the same in every replication."""
        with input_errors(f"training.{training}"):
            return self._others(training)

    def _mobility_of_others(self, spec: OthersParameters) -> Mobility:
        if spec.mobility is None:
            return self.mobility
        key = spec.mobility.model_dump_json()
        if key not in self._movers:
            self._movers[key] = spec.mobility.build(self.world, self.scenario.seed, self.scenario.place)
        return self._movers[key]

    def _demand_of_others(self, spec: OthersParameters) -> Demand:
        return self.demand if spec.demand is None else spec.demand.build()

    def _limits_of_others(self, spec: OthersParameters) -> tuple[int | None, float | None]:
        """Return the maximum number of queries and of days of each person in a training set."""
        if spec.queries is not None or spec.days is not None or isinstance(spec.mobility, ReplayParameters):
            return spec.queries, spec.days
        return self.scenario.users.queries, self.scenario.users.days

    def people_in(self, training: str) -> int:
        """Return the number of people in a training set of other people."""
        spec = self._training_of_others(training)
        return len(self._mobility_of_others(spec).users(spec.count))

    def count_others(self, training: str, people: range) -> Counts:
        """Count the visits and transitions of some people of a training set of other people, given by position."""
        scenario, spec = self.scenario, self._training_of_others(training)
        mobility, demand = self._mobility_of_others(spec), self._demand_of_others(spec)
        queries, days = self._limits_of_others(spec)
        _require_times(mobility, spec.demand or scenario.users.demand, scenario, days)
        traces = (
            self._trace_of_other(training, user, mobility, demand, queries, days)
            for user in mobility.users(spec.count)[people.start : people.stop]
        )
        return count(traces, n_cells=self.world.n_cells, restart_s=scenario.restart_s)

    def _trace_of_other(
        self, training: str, user: str, mobility: Mobility, demand: Demand, queries: int | None, days: float | None
    ) -> Trace:
        # Synthetic people of a training set have other names than the test users: the name seeds their life.
        name = user if MobilityCapabilities.finite.of(mobility) else f"{training}/{user}"
        moves, moments = (stream(self.scenario.seed, role, name, "training") for role in ("moves", "moments"))
        return live(mobility, demand, name, moves=moves, moments=moments, queries=queries, until_s=seconds(days)).test

    def _training_of_others(self, training: str) -> OthersParameters:
        spec = self.scenario.training[training]
        if not isinstance(spec, OthersParameters):
            raise TypeError(f"{training} is not a training set of other people")
        return spec

    def _statistics_of_others(self, training: str) -> Statistics:
        if (counts := self._counted(training)) is None:
            people = self.people_in(training)
            blocks = (range(first, min(first + PEOPLE, people)) for first in range(0, people, PEOPLE))
            counts = reduce(operator.add, (self.count_others(training, block) for block in blocks))
        if not counts.visits.any():
            spec = self._training_of_others(training)
            mobility, demand = self._mobility_of_others(spec), self._demand_of_others(spec)
            people_of_set = mobility.users(spec.count)
            raise InvalidValue(
                f"none of the {len(people_of_set)} people ever queries: increase `queries` or `days`"
                f"{gaps_note(mobility, demand, people_of_set)}",
                code="no-queries",
            )
        return counts.statistics(pooled=True)


def _require_times(mobility: Mobility, demand: DemandParameters, scenario: Scenario, *days: float | None) -> None:
    """Raise InvalidValue if the scenario needs times and the trace file has only an order of visits."""
    if MobilityCapabilities.timed.of(mobility):
        return
    daily = scenario.markov_restart == "daily"
    if any(isinstance(part, HomeProfileParameters) for part in parts_of(scenario)):
        raise InvalidValue(
            "the trace file has an order of visits but no times, and the belief `home` needs the hours of the night: "
            "choose another belief",
            code="times-missing",
        )
    if demand.kind in ("periodic", "poisson") or any(length is not None for length in days) or daily:
        raise InvalidValue(
            "the trace file has an order of visits but no times: allowed are `demand: every_visit`, `queries`, "
            f"`past_queries` and `markov_restart: never`, got demand {demand.kind}"
            f"{', a length in days' if any(days) else ''}{', markov_restart: daily' if daily else ''}",
            code="times-missing",
        )


def gaps_note(mobility: Mobility, demand: Demand, users: Sequence[str]) -> str:
    """Return a note that queries in gaps between recorded visits are omitted, with the remedy; empty without gaps."""
    if not isinstance(mobility, Replay) or mobility.max_gap_s is None or isinstance(demand, EveryVisit):
        return ""
    gaps = sum(count_gaps(mobility.times_s(user), max_gap_s=mobility.max_gap_s) for user in users)
    if not gaps:
        return ""
    return (
        f"; queries in {gaps:,} gap{'s' if gaps > 1 else ''} of over {mobility.session_gap_s:g} s between visits are "
        "omitted: increase `max_gap_s` of the replay, use `demand: every_visit`, or exclude users with few visits with "
        "`select`"
    )


def _midnight_s(plan: Schedule) -> int:
    """Return the start of the day of the first query in s."""
    return plan.first_s // DAY_S * DAY_S


def seconds(days: float | None) -> int | None:
    """Convert a number of days to seconds; None stays None."""
    return None if days is None else int(days * DAY_S)
