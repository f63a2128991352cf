"""What stays the same whichever LPPM is carried: the world, the people of one replication, what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from sim.mobility.traces import DAY_S, Life, Trace, live
from sim.mobility.training import Statistics, check_cells, regimes, statistics
from sim.rng import stream
from sim.scenario import people
from sim.scenario.models import Scenario
from sim.scenario.people import (
    NothingParameters,
    OthersParameters,
    OtherUserParameters,
    OwnPastParameters,
    OwnTestParameters,
)
from sim.simulation.shifts import Shifts
from sim.world import World

StatisticsOf = Callable[[str], Statistics]


class Setting:
    """The world of a scenario and who could move in it; built when asked for and kept."""

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
            _need_times(mobility, users.demand, self.scenario, users.days, users.past_days)
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

    def _reading(self, mobility: Mobility, demand: Demand, spec: people.UsersSpec | OthersParameters) -> dict[str, int]:
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

    def _adds_queries(self, spec: people.UsersSpec | OthersParameters) -> bool:
        """Tell whether a shift makes these people query between their visits."""
        shifts = self.scenario.shifts if isinstance(spec, people.UsersSpec) else []
        return any(shift.adds_queries for shift in shifts)

    def _taken(self, plan: Schedule, spec: people.UsersSpec | OthersParameters) -> int:
        """Return how many of a recorded user's queries the past and the test take together."""
        origin_s = plan.first_s // DAY_S * DAY_S
        if isinstance(spec, OthersParameters):
            queries, days = self._limits_of_others(spec)
            past, until_s = 0, _seconds(days)
        else:
            queries, past_s = spec.queries, _seconds(spec.past_days) or 0
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
        _need_times(mobility, spec.demand or scenario.users.demand, scenario, days)
        traces = []
        for user in mobility.users(spec.count):
            # A synthetic stranger has a name of her own, or she would be a test user under another roof.
            name = user if MobilityCapabilities.finite.of(mobility) else f"{training}/{user}"
            moves, moments = (stream(scenario.seed, role, name, "training") for role in ("moves", "moments"))
            life = live(mobility, demand, name, moves=moves, moments=moments, queries=queries, until_s=_seconds(days))
            traces.append(life.test)
        if not sum(map(len, traces)):
            raise ValueError(
                f"none of these {len(traces)} people ever queries: give them more `queries` or `days`"
                f"{_why_cut(mobility, demand, [trace.user for trace in traces])}"
            )
        return statistics(traces, n_cells=self.world.grid.n_cells, restart_s=scenario.restart_s)


class Stage:
    """One replication of a setting: every user's past and test trace, and the statistics of both."""

    def __init__(self, setting: Setting, replication: int) -> None:
        self.setting = setting
        self.scenario = setting.scenario
        self.replication = replication
        self._test = cache(self._statistics_of_test)
        self._past = cache(self._statistics_of_past)
        self._regimes = cache(self._statistics_of_regimes)

    @cached_property
    def lives(self) -> dict[str, Life]:
        """The past and the test of each user, with what shifts in it."""
        setting = self.setting
        lives = {user: self._live(user, setting.mobility, setting.demand) for user in setting.users}
        if not self.scenario.shifts:
            return lives

        def live_again(user: str, mobility: Mobility, demand: Demand) -> Life:
            return self._live(user, mobility, demand, past=len(lives[user].past))

        return setting.shifts.lives(self.replication, lives, live_again)

    @cached_property
    def pseudonyms(self) -> dict[str, str] | None:
        """What adversaries call each user, where names are hidden: numbers that were drawn from a hat."""
        if self.scenario.names == "known":
            return None
        users = self.setting.users
        drawn = stream(self.scenario.seed, "pseudonyms", self.replication).permutation(len(users)) + 1
        return {user: f"p{number}" for user, number in zip(users, drawn, strict=True)}

    @cached_property
    def candidates(self) -> list[str]:
        """The users in an order that tells nothing: among equals an adversary names the first, who must be anybody."""
        users = self.setting.users
        drawn = stream(self.scenario.seed, "candidates", self.replication).permutation(len(users))
        return [users[place] for place in drawn]

    @property
    def traces(self) -> list[Trace]:
        """The test traces, which are simulated."""
        return [life.test for life in self.lives.values()]

    def _live(self, user: str, mobility: Mobility, demand: Demand, past: int | None = None) -> Life:
        """Live through a user's days; `past` is how many queries her past has, where that is known already."""
        said = self.scenario.users
        share = said.past_share if past is None else None
        past_s = _seconds(said.past_days) or 0
        with input_errors("users"):
            life = live(
                mobility,
                demand,
                user,
                moves=stream(self.scenario.seed, "moves", user, self.replication),
                moments=stream(self.scenario.seed, "moments", user, self.replication),
                queries=said.queries if share is None else None,
                until_s=None if said.days is None else past_s + int(said.days * DAY_S),
                past_queries=said.past_queries or 0 if past is None else past,
                past_s=past_s,
            )
            if share is not None:
                life = life.cut(share, said.queries)
            for trace in (life.past, life.test):
                check_cells(trace, self.setting.world.grid.n_cells)
            if not len(life.test):
                raise ValueError(
                    f"{user} never queries in the test; in her past she does {len(life.past)} times"
                    f"{_why_cut(mobility, demand, [user])}"
                )
        return life

    def knowledge(self, training: str | None) -> StatisticsOf:
        """Return what a training set tells about each user; without a name the first set, without any nothing."""
        name = self.scenario.training_set(training)
        spec = NothingParameters() if name is None else self.scenario.training[name]
        match spec:
            case NothingParameters():
                nothing = statistics([], n_cells=self.setting.world.grid.n_cells)
                return lambda _user: nothing
            case OthersParameters():
                assert name is not None
                pooled = self.setting.others(name)
                return lambda _user: pooled
            case OwnPastParameters():
                return lambda user: self._past(user, spec.queries, spec.days)
            case OwnTestParameters():
                return self.truth
            case _:
                assert isinstance(spec, OtherUserParameters)
                users = self.setting.users
                if len(users) < 2:
                    raise InputError(f"training.{name}: the past of another user needs two users or more, found one")
                following = dict(zip(users, users[1:] + users[:1], strict=True))
                return lambda user: self._past(following[user], spec.queries, spec.days)

    def truth(self, user: str) -> Statistics:
        """Return the user's own statistics in the whole test: what the paper's worst-case adversary has."""
        return self._test(user)

    def regimes(self, user: str) -> list[tuple[int, Statistics]]:
        """Return the user's own statistics in force, each with the first query (from 1) from which on they are.

        Without shifts they are those of the whole test, from query 1 on.
        """
        return self._regimes(user)

    def _statistics_of_regimes(self, user: str) -> list[tuple[int, Statistics]]:
        life = self.lives[user]
        if not life.borders:
            return [(1, self.truth(user))]
        n_cells = self.setting.world.grid.n_cells
        return regimes(life.test, life.borders, n_cells=n_cells, restart_s=self.scenario.restart_s)

    def _statistics_of_test(self, user: str) -> Statistics:
        return self._count(self.lives[user].test)

    def _statistics_of_past(self, user: str, queries: int | None, days: float | None) -> Statistics:
        life = self.lives[user]
        past = life.past
        until = len(past) if days is None else int(past.times_s.searchsorted(life.origin_s + int(days * DAY_S)))
        if not until:
            raise InputError(
                f"training: {user} has no past to learn from: give the users a longer one, such as "
                "`past_queries: 100`, or leave her out"
            )
        return self._count(past.part(0, until if queries is None else min(until, queries)))

    def _count(self, trace: Trace) -> Statistics:
        return statistics([trace], n_cells=self.setting.world.grid.n_cells, restart_s=self.scenario.restart_s)


def _need_times(mobility: Mobility, demand: DemandParameters, scenario: Scenario, *days: float | None) -> None:
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


def _why_cut(mobility: Mobility, demand: Demand, users: Sequence[str]) -> str:
    """Say that gaps between recorded visits are cut, and what to do; empty where none is."""
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


def _seconds(days: float | None) -> int | None:
    return None if days is None else int(days * DAY_S)
