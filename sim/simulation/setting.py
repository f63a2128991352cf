"""The setting of a scenario: what is the same in every replication and for every LPPM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property

from sim.belief.home import HomeProfileParameters
from sim.components.files import parts_of
from sim.errors import InputError, input_errors
from sim.interfaces import Demand, Mobility, MobilityCapabilities
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.parameters import DemandParameters
from sim.mobility.demand.poisson import Poisson
from sim.mobility.gaps import Coverage, Schedule, count_gaps, schedule
from sim.mobility.recorded.replay import Replay, ReplayParameters
from sim.mobility.statistics import Statistics, statistics
from sim.mobility.traces import DAY_S, live
from sim.mobility.training.others import OthersParameters
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.scenario.people import UsersSpec
from sim.simulation.shifts import Shifts
from sim.world import World


class Setting:
    """The world of a scenario, its mobility and demand, and the training sets of other people; built on first use."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._others = cache(self._statistics_of_others)
        self._movers: dict[str, Mobility] = {}

    @cached_property
    def world(self) -> World:
        """The grid, the roads and the distances."""
        with input_errors("world"):
            return self.scenario.build_world()

    @cached_property
    def mobility(self) -> Mobility:
        """Where the users go."""
        users = self.scenario.users
        with input_errors("users.mobility"):
            mobility = users.mobility.build(self.world, self.scenario.seed, self.scenario.place)
            _require_times(mobility, users.demand, self.scenario, users.days, users.past_days)
        return mobility

    @cached_property
    def demand(self) -> Demand:
        """When the users query."""
        with input_errors("users.demand"):
            return self.scenario.users.demand.build()

    @cached_property
    def users(self) -> list[str]:
        """The ids of the test population."""
        with input_errors("users"):
            users = list(self.mobility.users(self.scenario.users.count))
        if not users:
            raise InputError("users: nobody is left to simulate: the selection is empty")
        return users

    @cached_property
    def shifts(self) -> Shifts:
        """The changes of the users' behaviour."""
        return Shifts(self.scenario, self.world, self.users, self.mobility, self.demand)

    def readings(self) -> dict[str, dict[str, int]]:
        """Return, for the users and each training set of others, what was read of their trace file and what it lacks.

        Rows outside the region, irregular times and, for demands that query between visits, where the positions of
        their queries come from: see `sim.mobility.gaps.Coverage`.
        """
        with input_errors("users"):
            found = {"users": self._reading(self.mobility, self.demand, self.scenario.users)}
        for name, spec in self.scenario.training.items():
            if isinstance(spec, OthersParameters):
                with input_errors(f"training.{name}"):
                    mobility, demand = self._mobility_of_others(spec), self._demand_of_others(spec)
                    found[f"training.{name}"] = self._reading(mobility, demand, spec)
        return {where: reading for where, reading in found.items() if reading}

    def _reading(self, mobility: Mobility, demand: Demand, spec: UsersSpec | OthersParameters) -> dict[str, int]:
        if not isinstance(mobility, Replay):
            return {}
        reading = {} if spec.mobility is None else mobility.report()
        if mobility.max_gap_s is None or (isinstance(demand, EveryVisit) and not self._adds_queries(spec)):
            return reading
        gap_s, users = mobility.max_gap_s, mobility.users(spec.count)
        reading["max_gap_s"] = int(gap_s)
        schedules = [schedule(demand, mobility.times_s(user), max_gap_s=gap_s) for user in users]
        counts = Coverage()
        for plan in schedules:
            if plan is None:  # a custom demand, or visits and the queries that a shift adds
                return reading | {"gaps": sum(count_gaps(mobility.times_s(user), max_gap_s=gap_s) for user in users)}
            counts += plan.coverage(self._taken(plan, spec))
        return (
            reading
            | {"queries_recorded": counts.recorded, "queries_carried": counts.carried, "queries_cut": counts.cut}
            | {"gaps": counts.gaps, "expected": int(isinstance(demand, Poisson))}
        )

    def _adds_queries(self, spec: UsersSpec | OthersParameters) -> bool:
        """Tell whether a shift makes these people query between their visits."""
        shifts = self.scenario.shifts if isinstance(spec, UsersSpec) else []
        return any(shift.adds_queries for shift in shifts)

    def _taken(self, plan: Schedule, spec: UsersSpec | OthersParameters) -> int:
        """Return how many of a recorded user's queries the past and the test take together."""
        origin_s = plan.first_s // DAY_S * DAY_S
        if isinstance(spec, OthersParameters):
            queries, days = self._limits_of_others(spec)
            past, until_s = 0, seconds(days)
        else:
            queries, past_s = spec.queries, seconds(spec.past_days) or 0
            past = max(spec.past_queries or 0, plan.before(origin_s + past_s), int(plan.total * (spec.past_share or 0)))
            until_s = None if spec.days is None else past_s + int(spec.days * DAY_S)
        most = plan.total if until_s is None else plan.before(origin_s + until_s)
        return most if queries is None else min(most, past + queries)

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
        """Return how many queries and days each of them has at most."""
        if spec.queries is not None or spec.days is not None or isinstance(spec.mobility, ReplayParameters):
            return spec.queries, spec.days
        return self.scenario.users.queries, self.scenario.users.days

    def _statistics_of_others(self, training: str) -> Statistics:
        spec, scenario = self.scenario.training[training], self.scenario
        if not isinstance(spec, OthersParameters):
            raise TypeError(f"{training} is not a training set of other people")
        mobility, demand = self._mobility_of_others(spec), self._demand_of_others(spec)
        queries, days = self._limits_of_others(spec)
        _require_times(mobility, spec.demand or scenario.users.demand, scenario, days)
        traces = []
        for user in mobility.users(spec.count):
            # A synthetic stranger has a name of her own, or she would be a test user under another roof.
            name = user if MobilityCapabilities.finite.of(mobility) else f"{training}/{user}"
            moves, moments = (stream(scenario.seed, role, name, "training") for role in ("moves", "moments"))
            life = live(mobility, demand, name, moves=moves, moments=moments, queries=queries, until_s=seconds(days))
            traces.append(life.test)
        if not sum(map(len, traces)):
            raise ValueError(
                f"none of these {len(traces)} people ever queries: give them more `queries` or `days`"
                f"{gaps_note(mobility, demand, [trace.user for trace in traces])}"
            )
        return statistics(traces, n_cells=self.world.grid.n_cells, restart_s=scenario.restart_s)


def _require_times(mobility: Mobility, demand: DemandParameters, scenario: Scenario, *days: float | None) -> None:
    """Refuse to count seconds in a trace file that tells an order of visits but no times."""
    if MobilityCapabilities.timed.of(mobility):
        return
    daily = scenario.markov_restart == "daily"
    if any(isinstance(part, HomeProfileParameters) for part in parts_of(scenario)):
        raise ValueError(
            "the trace file tells the order of visits but no times, found the belief home, which asks for the hours "
            "of the night: take another belief"
        )
    if demand.kind in ("periodic", "poisson") or any(length is not None for length in days) or daily:
        raise ValueError(
            "the trace file tells the order of visits but no times: allowed are `demand: every_visit`, `queries`, "
            f"`past_queries` and `markov_restart: never`, found {demand.kind}"
            f"{', a length in days' if any(days) else ''}{', markov_restart: daily' if daily else ''}"
        )


def gaps_note(mobility: Mobility, demand: Demand, users: Sequence[str]) -> str:
    """Return a note that queries in gaps between recorded visits are cut, with the remedy; empty without gaps."""
    if not isinstance(mobility, Replay) or mobility.max_gap_s is None or isinstance(demand, EveryVisit):
        return ""
    gap_s = mobility.max_gap_s
    gaps = sum(count_gaps(mobility.times_s(user), max_gap_s=gap_s) for user in users)
    if not gaps:
        return ""
    return (
        f"; no queries are asked in {gaps:,} gap{'s' if gaps > 1 else ''} of over {gap_s:g} s between visits: raise "
        "`max_gap_s` of the replay, use `demand: every_visit`, or leave out users with few visits by `select`"
    )


def seconds(days: float | None) -> int | None:
    """Return a number of days in seconds."""
    return None if days is None else int(days * DAY_S)
