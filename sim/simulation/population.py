"""Users of one replication: their lives (past and test traces), pseudonyms and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property

from sim.errors import InputError, InvalidValue, input_errors
from sim.interfaces import Demand, Mobility
from sim.mobility.shifts.life import ShiftedLife
from sim.mobility.statistics import Counts, Statistics, check_cells, count, regimes, statistics
from sim.mobility.traces import DAY_S, Life, Trace, live
from sim.mobility.training.nothing import NothingParameters
from sim.mobility.training.parameters import StatisticsOf
from sim.rng import stream
from sim.simulation.setting import Setting, gaps_note, seconds

SAMPLED_USERS = 100
"""Maximum number of users whose queries are counted one by one; more are estimated from a sample of this size."""


class Population:
    """Users of one replication, all or a block: past and test trace of each user, and the statistics of both.

    Lives are generated when they are first needed. The life of a user does not depend on the block.
    """

    def __init__(self, setting: Setting, replication: int, block: range | None = None) -> None:
        self.setting = setting
        self.scenario = setting.scenario
        self.replication = replication
        self.block = block
        """Positions of the simulated users in `setting.users`; None: all users."""
        self._test = cache(self._statistics_of_test)
        self._past = cache(self._statistics_of_past)
        self._pasts_of_others = cache(self._statistics_of_others)
        self._all_pasts = cache(self._count_all_pasts)
        self._knowledge: dict[str, StatisticsOf] = {}
        self._regimes = cache(self._statistics_of_regimes)
        self._unshifted = LivesOnDemand(self._live_unshifted)

    @property
    def members(self) -> Sequence[str]:
        """The ids of the simulated users."""
        return self.users if self.block is None else self.users[self.block.start : self.block.stop]

    @cached_property
    def lives(self) -> dict[str, Life]:
        """The past and the test trace of each simulated user, with all shifts applied."""
        if not self.scenario.shifts:
            return {user: self._unshifted[user] for user in self.members}
        shifted = {user: self._shifted(user, self._unshifted) for user in self.members}
        # A shift may affect only users of other blocks, whose lives are not kept in memory.
        self.setting.shifts.require_effect(
            shifted, lambda user: self._shifted(user, LivesOnDemand(self._live_unshifted))
        )
        return {user: life.changed() for user, life in shifted.items()}

    def _life(self, user: str) -> Life:
        """Return the life of a user, who need not be in the block."""
        if user in self.lives:
            return self.lives[user]
        return self._shifted(user, self._unshifted).changed() if self.scenario.shifts else self._unshifted[user]

    def _shifted(self, user: str, unshifted: Mapping[str, Life]) -> ShiftedLife:
        """Return the life of a user with all shifts applied."""

        def live_again(user: str, mobility: Mobility, demand: Demand) -> Life:
            return self._live(user, mobility, demand, past=len(unshifted[user].past))

        return self.setting.shifts.shifted(user, self.replication, unshifted, live_again)

    def _live_unshifted(self, user: str) -> Life:
        return self._live(user, self.setting.mobility, self.setting.demand)

    @cached_property
    def pseudonyms(self) -> dict[str, str] | None:
        """The pseudonym of each user, numbered in random order; None if the adversary knows the names."""
        if self.scenario.names == "known":
            return None
        users = self.setting.users
        drawn = stream(self.scenario.seed, "pseudonyms", self.replication).permutation(len(users)) + 1
        return {user: f"p{number}" for user, number in zip(users, drawn, strict=True)}

    @cached_property
    def candidates(self) -> list[str]:
        """The users in random order: an adversary breaks ties by the first, so the order must not reveal the user."""
        users = self.setting.users
        drawn = stream(self.scenario.seed, "candidates", self.replication).permutation(len(users))
        return [users[place] for place in drawn]

    @property
    def traces(self) -> list[Trace]:
        """The test traces, which are simulated."""
        return [life.test for life in self.lives.values()]

    def count_queries(self) -> int:
        """Return the number of queries of all users, estimated from `SAMPLED_USERS` if there are more users.

        The estimate depends on scenario and seed alone. It is exact if every user makes the same number of queries.
        """
        users = self.users
        if len(users) <= SAMPLED_USERS:
            return sum(map(len, self.traces))
        if (each := self.scenario.users.queries_each) is not None:
            return each * len(users)
        places = [len(users) * number // SAMPLED_USERS for number in range(SAMPLED_USERS)]
        counted = sum(len(self._live_unshifted(users[place]).test) for place in places)
        return max(round(counted * len(users) / SAMPLED_USERS), 1)

    def _live(self, user: str, mobility: Mobility, demand: Demand, past: int | None = None) -> Life:
        """Return a user's life; `past` is the number of queries in the past, if already known."""
        spec = self.scenario.users
        share = spec.past_share if past is None else None
        past_s = seconds(spec.past_days) or 0
        with input_errors("users"):
            life = live(
                mobility,
                demand,
                user,
                moves=stream(self.scenario.seed, "moves", user, self.replication),
                moments=stream(self.scenario.seed, "moments", user, self.replication),
                queries=spec.queries if share is None else None,
                until_s=None if spec.days is None else past_s + int(spec.days * DAY_S),
                past_queries=spec.past_queries or 0 if past is None else past,
                past_s=past_s,
            )
            if share is not None:
                life = life.cut(share, spec.queries)
            for trace in (life.past, life.test):
                check_cells(trace, self.setting.world.n_cells)
            if not len(life.test):
                raise InvalidValue(
                    f"{user} never queries in the test (queries in the past: {len(life.past)})"
                    f"{gaps_note(mobility, demand, [user])}",
                    code="no-queries",
                )
        return life

    @property
    def users(self) -> Sequence[str]:
        """The ids of all users, also of those outside the block."""
        return self.setting.users

    def knowledge(self, training: str | None) -> StatisticsOf:
        """Return the statistics of each user from a training set.

        The default is the first training set of the scenario, or no data if the scenario has none.
        """
        name = self.scenario.training_set(training)
        if name is None:
            return NothingParameters().statistics("", self)
        if name not in self._knowledge:
            self._knowledge[name] = self.scenario.training[name].statistics(name, self)
        return self._knowledge[name]

    def untrained(self) -> Statistics:
        """Return the statistics without any data."""
        return statistics([], n_cells=self.setting.world.n_cells)

    def others(self, training: str) -> Statistics:
        """Return the pooled statistics of the other people of a training set, the same in every replication."""
        return self.setting.others(training)

    def past(self, user: str, *, queries: int | None, days: float | None) -> Statistics:
        """Return the statistics of a user's past, or of its first queries or days."""
        return self._past(user, queries, days)

    def pasts_of_others(self, user: str, *, queries: int | None, days: float | None) -> Statistics:
        """Return the pooled statistics of the pasts of all other users, or of their first queries or days."""
        return self._pasts_of_others(user, queries, days)

    def truth(self, user: str) -> Statistics:
        """Return the statistics of a user's whole test trace, which the paper's worst-case adversary knows."""
        return self._test(user)

    def regimes(self, user: str) -> list[tuple[int, Statistics]]:
        """Return a user's statistics between shifts, each with the index of its first query (from 1).

        Without shifts these are the statistics of the whole test, from query 1.
        """
        return self._regimes(user)

    def _statistics_of_regimes(self, user: str) -> list[tuple[int, Statistics]]:
        life = self.lives[user]
        if not life.borders:
            return [(1, self.truth(user))]
        n_cells = self.setting.world.n_cells
        return regimes(life.test, life.borders, n_cells=n_cells, restart_s=self.scenario.restart_s)

    def _statistics_of_test(self, user: str) -> Statistics:
        return self._count(self.lives[user].test).statistics()

    def _statistics_of_past(self, user: str, queries: int | None, days: float | None) -> Statistics:
        past = self._first_of_past(user, queries, days)
        if not len(past):
            raise InputError(
                f"training: {user} has no query in the past to train on: give the users a longer past, such as "
                "`past_queries: 100`, or leave this user out",
                code="no-past",
            )
        return self._count(past).statistics()

    def _statistics_of_others(self, user: str, queries: int | None, days: float | None) -> Statistics:
        counts = self._all_pasts(queries, days).without(self._count(self._first_of_past(user, queries, days)))
        if not counts.visits.any():
            raise InputError(
                f"training: no other user than {user} has a query in the past to train on: add users, or give them a "
                "longer past, such as `past_queries: 100`",
                code="no-past",
            )
        return counts.statistics(pooled=True)

    def _count_all_pasts(self, queries: int | None, days: float | None) -> Counts:
        return self._count(*(self._first_of_past(user, queries, days) for user in self.users))

    def _first_of_past(self, user: str, queries: int | None, days: float | None) -> Trace:
        """Return a user's past, or its first queries or days."""
        life = self._life(user)
        past = life.past
        until = len(past) if days is None else int(past.times_s.searchsorted(life.origin_s + int(days * DAY_S)))
        return past.part(0, until if queries is None else min(until, queries))

    def _count(self, *traces: Trace) -> Counts:
        return count(traces, n_cells=self.setting.world.n_cells, restart_s=self.scenario.restart_s)


class LivesOnDemand(Mapping[str, Life]):
    """Lives of users without shifts, each generated when it is first read."""

    def __init__(self, live: Callable[[str], Life]) -> None:
        self._live = live
        self._lives: dict[str, Life] = {}

    def __getitem__(self, user: str) -> Life:
        if user not in self._lives:
            self._lives[user] = self._live(user)
        return self._lives[user]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lives)

    def __len__(self) -> int:
        return len(self._lives)
