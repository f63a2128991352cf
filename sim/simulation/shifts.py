"""The shifts of a scenario, applied to the users' lives.

First comes what happens by time, to how people live: another rate of queries, other roads. Then what happens by query,
to where they are: each shift has another life ready for every query, and how much of it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sim.components.suggestions import suggestion
from sim.errors import InputError, input_errors
from sim.events import Shift
from sim.interfaces import Demand, FloatArray, Generator, IntArray, Mobility, MobilityCapabilities
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.rate import Rate
from sim.mobility.shifts import detours
from sim.mobility.shifts.places import (
    by_frequency,
    drawn,
    holiday,
    mixed,
    relocated,
    share_of_new,
    with_new_places,
)
from sim.mobility.synthetic.city import attraction
from sim.mobility.traces import DAY_S, Life, Trace, live
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.scenario.shifts import (
    AdoptParameters,
    AnyShift,
    CloseRoadsParameters,
    HolidayParameters,
    NewPlacesParameters,
    RateParameters,
    RelocateParameters,
    ReverseRoadsParameters,
    ShiftOfPeople,
    ShiftOfPlaces,
    ShiftOfRoads,
)
from sim.world import World

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

ENOUGH_QUERIES = 20
"""So many tell where somebody's home is."""

LiveAgain = Callable[[str, Mobility, Demand], Life]
"""Live through a user's days, as long as the scenario says, with the randomness that she always has."""


@dataclass(frozen=True, slots=True)
class _Window:
    """When a shift by time is on for one user."""

    from_s: int
    until_s: float
    for_queries: float

    def is_on(self, time_s: int) -> bool:
        return self.from_s <= time_s < self.until_s


@dataclass
class _Person:
    """A user whose life is being changed."""

    user: str
    replication: int
    base: Life
    """Her life without any shift."""
    life: Life
    mobility: Mobility
    demand: Callable[[], Demand]
    windows: dict[str, _Window] = field(default_factory=dict)
    shifts: list[Shift] = field(default_factory=list)
    borders: set[int] = field(default_factory=set)
    moved: set[int] = field(default_factory=set)
    """The queries, from 0, since which her places are others for good."""
    away: list[slice] = field(default_factory=list)
    """The queries, from 0, which she spends elsewhere for a while."""

    @property
    def cells(self) -> IntArray:
        return self.life.test.cells

    @property
    def times_s(self) -> IntArray:
        return self.life.test.times_s

    def note(self, spec: AnyShift, start: int, stop: int) -> None:
        """Take down that a shift reaches the queries from `start` up to and without `stop`, counted from 0."""
        begins = {start}
        if isinstance(spec, ShiftOfPlaces) and start + spec.over_queries < stop:
            begins.add(start + spec.over_queries)
        self.shifts.append(Shift(self.user, spec.name, start + 1))
        ends = {stop} if stop < len(self.cells) else set()
        if ends:
            self.shifts.append(Shift(self.user, spec.name, stop + 1, ends=True))
        if not (isinstance(spec, RateParameters) and spec.factor == 1):
            self.borders |= {query + 1 for query in begins | ends}
        if isinstance(spec, ShiftOfPlaces):
            if spec.for_good:
                self.moved |= begins
            else:
                self.away.append(slice(start, stop))

    def before(self, start: int) -> IntArray:
        """Return the cells since she last moved for good and before a query, without those elsewhere for a while.

        If they are few, those come with them that would follow; if there are none, all she has.
        """
        since = max((query for query in self.moved if query <= start), default=0)
        stays = np.ones(len(self.cells), dtype=bool)
        for stretch in self.away:
            stays[stretch] = False
        lately = self.cells[since:start][stays[since:start]]
        found = lately if since else np.concatenate([self.life.past.cells, lately])
        if found.size < ENOUGH_QUERIES:
            found = np.concatenate([found, self.cells[start:][stays[start:]][: ENOUGH_QUERIES - found.size]])
        return found if found.size else self.cells

    def changed(self) -> Life:
        """Return her life as it has become."""
        shifts = tuple(sorted(self.shifts, key=lambda shift: shift.index))
        return replace(self.life, shifts=shifts, borders=tuple(sorted(self.borders - {1})))


class Shifting:
    """Changes lives as a scenario's shifts say."""

    def __init__(
        self, scenario: Scenario, world: World, users: Sequence[str], mobility: Mobility, demand: Demand
    ) -> None:
        self._scenario, self._world, self._users = scenario, world, list(users)
        self._mobility, self._demand = mobility, demand
        self._changed_roads: dict[tuple[str, ...], Roads] = {}
        self._whom = {spec.name: self._concerned(spec) for spec in scenario.shifts}

    def lives(self, replication: int, lives: Mapping[str, Life], live_again: LiveAgain) -> dict[str, Life]:
        """Return the lives of one replication with all shifts in them."""
        people = {}
        for user, base in lives.items():
            people[user] = _Person(user, replication, base, base, self._mobility, lambda: self._demand)
            self._by_time(people[user], live_again)
            self._by_query(people[user], lives)
        for spec in self._scenario.shifts:
            self._refuse_in_vain(spec, [people[user] for user in lives if user in self._whom[spec.name]])
        return {user: person.changed() for user, person in people.items()}

    def _stream(self, name: str, *key: str | int) -> Generator:
        return stream(self._scenario.seed, "shift", name, *key)

    # Who and when ------------------------------------------------------------------------------------------------

    def _concerned(self, spec: AnyShift) -> frozenset[str]:
        """Return the users whose lives a shift changes, if they last so long."""
        with input_errors(f"shifts.{spec.name}"):
            if not MobilityCapabilities.timed.of(self._mobility):
                _refuse_days(spec)
            users = self._users
            if isinstance(spec, ShiftOfPeople) and spec.users is not None:
                for user in spec.users:
                    self._known(user, "users")
                users = spec.users
            elif isinstance(spec, ShiftOfPeople) and spec.share is not None:
                count = max(1, round(spec.share * len(users)))
                users = sorted(users, key=lambda user: self._stream(spec.name, user, "share").random())[:count]
            if isinstance(spec, AdoptParameters):
                if len(self._users) < 2:
                    raise ValueError("to adopt the life of another user needs two users or more, found one")
                if spec.of is not None:
                    self._known(spec.of, "of")
                    users = [user for user in users if user != spec.of]
                if not users:
                    raise ValueError(f"it concerns nobody but {spec.of}, who has that life already")
            return frozenset(users)

    def _known(self, user: str, key: str) -> None:
        if user not in self._users:
            few = ", ".join(self._users[:5]) + (f" and {len(self._users) - 5} more" if len(self._users) > 5 else "")
            raise ValueError(f"`{key}`: no such user, found {user!r}{suggestion(user, self._users)}; there are {few}")

    def _begins_s(self, life: Life) -> int:
        """Return when the test begins; where the past is counted in queries, the midnight before its first query."""
        said = self._scenario.users
        if said.past_queries is not None or said.past_share is not None:
            return int(life.test.times_s[0]) // DAY_S * DAY_S
        return life.origin_s + int((said.past_days or 0) * DAY_S)

    def _window(self, spec: AnyShift, person: _Person) -> _Window | None:
        """Return when a shift is on, None if the user's test ends before."""
        if spec.at_query is not None and spec.at_query > len(person.cells):
            return None
        if spec.at_query is not None:
            from_s = int(person.times_s[spec.at_query - 1])
        else:
            from_s = self._begins_s(person.base) + int((spec.at_day or 0) * DAY_S)
        until_s = np.inf if spec.for_days is None else from_s + int(spec.for_days * DAY_S)
        from_s = max(from_s, int(person.base.test.times_s[0]))  # the past stays as it was
        return _Window(from_s, until_s, np.inf if spec.for_queries is None else spec.for_queries)

    def _stretch(self, spec: AnyShift, window: _Window, person: _Person) -> tuple[int, int] | None:
        """Return the queries, from 0, with which a shift begins and is over; None if the test ends before."""
        n_queries = len(person.cells)
        if spec.at_query is not None and isinstance(spec, ShiftOfPlaces):
            start = spec.at_query - 1
        else:
            start = int(person.times_s.searchsorted(window.from_s))
        if start >= n_queries:
            return None
        stop = n_queries if np.isinf(window.until_s) else int(person.times_s.searchsorted(window.until_s))
        stop = int(min(stop, start + window.for_queries))
        return (start, stop) if stop > start else None

    def _refuse_in_vain(self, spec: AnyShift, people: Sequence[_Person]) -> None:
        if any(shift.name == spec.name for person in people for shift in person.shifts):
            return
        if spec.at_query is not None:
            begins = f"begins with query {spec.at_query}"
            ends = f"ends with query {max(len(person.cells) for person in people)}"
        else:
            days = [(person.times_s[-1] - self._begins_s(person.base)) / DAY_S for person in people]
            begins, ends = f"begins after {spec.at_day:g} days", f"ends after {max(days):.1f}"
        why = f"it {begins}, the longest test of its users {ends}"
        windows = [(person, self._window(spec, person)) for person in people if spec.for_days is not None]
        if any(window is not None and window.from_s <= person.times_s[-1] for person, window in windows):
            why = (
                f"it {begins} and lasts {spec.for_days:g} days, in which none of its users has a query; "
                "give it more `for_days`"
            )
        raise InputError(f"shifts.{spec.name}: it reaches nobody: {why}")

    # By time: how people live --------------------------------------------------------------------------------------

    def _by_time(self, person: _Person, live_again: LiveAgain) -> None:
        """Change the roads and then the rate of queries, in the order in which they begin."""
        own = [spec for spec in self._scenario.shifts if person.user in self._whom[spec.name]]
        changes = {spec.name: window for spec in own if (window := self._road_window(spec, person)) is not None}
        if changes:
            self._reroute(person, changes, live_again)
        rates = [spec for spec in own if isinstance(spec, RateParameters)]
        while found := [(spec, window) for spec in rates if (window := self._window(spec, person)) is not None]:
            spec, window = min(found, key=lambda one: one[1].from_s)
            rates.remove(spec)
            person.windows = {name: self._by_the_clock(last, person) for name, last in person.windows.items()}
            person.windows[spec.name] = window
            person.demand = self._demand_of(spec, window, person, person.demand)
            person.life = live_again(person.user, person.mobility, person.demand())

    def _by_the_clock(self, window: _Window, person: _Person) -> _Window:
        """Say when a window of so many queries ends, before others come in between or some are left out."""
        if np.isinf(window.for_queries):
            return window
        start, count = int(person.times_s.searchsorted(window.from_s)), int(window.for_queries)
        queries = len(person.life.past) + start + count + 1
        times_s = self._through(person.mobility, person.demand(), person, queries=queries).times_s
        ends = int(times_s.searchsorted(window.from_s)) + count
        return _Window(window.from_s, int(times_s[ends]) if ends < times_s.size else np.inf, np.inf)

    def _road_window(self, spec: AnyShift, person: _Person) -> _Window | None:
        return self._window(spec, person) if isinstance(spec, ShiftOfRoads) else None

    def _demand_of(
        self, spec: RateParameters, window: _Window, person: _Person, inner: Callable[[], Demand]
    ) -> Callable[[], Demand]:
        """Return what makes the demand of one life: its draws start anew each time."""
        return lambda: Rate(
            inner(),
            factor=spec.factor,
            from_s=window.from_s,
            until_s=window.until_s,
            for_queries=window.for_queries,
            rng=self._stream(spec.name, person.user, person.replication),
        )

    def _reroute(self, person: _Person, changes: dict[str, _Window], live_again: LiveAgain) -> None:
        """Let her take other ways: as she lives, if her model can, else by what her cells tell."""
        roads = self._world.roads
        assert roads is not None
        person.windows |= changes

        def roads_at(time_s: int) -> Roads:
            return self._roads(tuple(name for name, window in changes.items() if window.is_on(time_s)))

        reroute = MobilityCapabilities.rerouted.of(person.mobility)
        if reroute is not None:
            person.mobility = reroute(roads_at)
            person.life = live_again(person.user, person.mobility, person.demand())
            return
        test = person.life.test
        cells = detours.rerouted(test.times_s, test.cells, grid=self._world.grid, roads=roads, roads_at=roads_at)
        person.life = replace(person.life, test=Trace(person.user, test.times_s, cells))

    def _roads(self, changes: tuple[str, ...]) -> Roads:
        """Return the roads with some changes in force, the same for everybody."""
        assert self._world.roads is not None
        if not changes:
            return self._world.roads
        if changes not in self._changed_roads:
            spec = next(spec for spec in self._scenario.shifts if spec.name == changes[-1])
            with input_errors(f"shifts.{spec.name}"):
                self._changed_roads[changes] = self._change(self._roads(changes[:-1]), spec)
        return self._changed_roads[changes]

    def _change(self, roads: Roads, spec: AnyShift) -> Roads:
        from sim.world.roads.closures import close, reverse

        grid, rng = self._world.grid, self._stream(spec.name)
        match spec:
            case CloseRoadsParameters():
                if outside := [cell for cell in spec.cells or () if cell >= grid.n_cells]:
                    raise ValueError(f"`cells` must be below {grid.n_cells}, found {outside[0]}")
                return close(roads, grid, share=spec.share, cells=spec.cells, rng=rng)
            case ReverseRoadsParameters():
                return reverse(roads, grid, share=spec.share, rng=rng)
        raise TypeError(f"{spec.kind} changes no roads")

    # By query: where people are ------------------------------------------------------------------------------------

    def _by_query(self, person: _Person, lives: Mapping[str, Life]) -> None:
        """Take down the shifts by time, and put other lives in the place of hers, in the order in which they begin."""
        found = []
        for spec in self._scenario.shifts:
            if person.user in self._whom[spec.name]:
                window = person.windows.get(spec.name) or self._window(spec, person)
                if window is not None and (stretch := self._stretch(spec, window, person)) is not None:
                    found.append((spec, *stretch))
        for spec, start, stop in sorted(found, key=lambda one: one[1]):
            if isinstance(spec, ShiftOfPlaces):
                with input_errors(f"shifts.{spec.name}"):
                    self._mix(spec, start, stop, person, lives)
            person.note(spec, start, stop)

    def _mix(self, spec: ShiftOfPlaces, start: int, stop: int, person: _Person, lives: Mapping[str, Life]) -> None:
        rng = self._stream(spec.name, person.user, person.replication)
        new = self._other_life(spec, start, person, lives, rng)
        share = share_of_new(len(new), start=start, stop=stop, over=spec.over_queries, weight=spec.weight)
        cells = mixed(person.cells, new, share, rng)
        person.life = replace(person.life, test=Trace(person.user, person.times_s, cells))

    def _other_life(
        self, spec: ShiftOfPlaces, start: int, person: _Person, lives: Mapping[str, Life], rng: Generator
    ) -> IntArray:
        """Return the cells that the queries would have in the new life alone."""
        grid, n_queries = self._world.grid, len(person.cells)
        match spec:
            case RelocateParameters() | NewPlacesParameters():
                return self._other_places(spec, start, person)
            case AdoptParameters():
                following = self._users[(self._users.index(person.user) + 1) % len(self._users)]
                other = lives[spec.of or following].test.cells
                if spec.what == "trace":
                    return np.resize(other, n_queries)
                return drawn(np.bincount(other, minlength=grid.n_cells).astype(np.float64), n_queries, rng)
            case HolidayParameters():
                there = holiday(
                    grid=grid,
                    attraction=self._attraction,
                    home=int(by_frequency(person.before(start))[0]),
                    away_km=spec.away_km,
                    spread_km=spec.spread_km,
                    rng=self._stream(spec.name, person.user),
                )
                return drawn(there, n_queries, rng)
        raise TypeError(f"{spec.kind} is no other life")

    def _other_places(self, spec: RelocateParameters | NewPlacesParameters, start: int, person: _Person) -> IntArray:
        """Return her life with other places: lived through, if her model has places, else by moving her cells."""
        what = spec.what if isinstance(spec, RelocateParameters) else "places"
        elsewhere = MobilityCapabilities.elsewhere.of(person.mobility)
        if elsewhere is not None and (moved := elsewhere(what, spec.name)) is not None:
            if spec.for_good:
                person.mobility = moved  # what changes later changes this life
            return self._lived(moved, start, person)
        grid, life, rng = self._world.grid, self._attraction, self._stream(spec.name, person.user)
        ranked = by_frequency(person.before(start))
        home = int(ranked[0])
        if what == "places":
            return with_new_places(person.cells, grid=grid, attraction=life, home=home, rng=rng)
        place, apart_from = home, None
        if what == "work":
            others = [cell for cell in (*ranked.tolist(), *by_frequency(person.cells).tolist()) if cell != home]
            if not others:
                raise ValueError(f"{person.user} is always in cell {home} and has no second place that could be work")
            place, apart_from = others[0], home
        return relocated(person.cells, grid=grid, attraction=life, place=place, apart_from=apart_from, rng=rng)

    def _lived(self, mobility: Mobility, start: int, person: _Person) -> IntArray:
        """Return where another way of living has her at the time of each query, from a shift on.

        Who queries at every visit may have other visits there: she is where the last of them put her.
        """
        times_s = person.times_s
        demand = self._demand if isinstance(self._demand, EveryVisit) else person.demand()
        other = self._through(mobility, demand, person, until_s=int(times_s[-1]) - person.life.origin_s + 1)
        if not len(other):
            raise ValueError(f"{person.user} never queries in her new life")
        # The first query of a second goes with the first visit in it, the next one with the next.
        all_s = np.concatenate([person.life.past.times_s, times_s])
        nth = np.arange(all_s.size) - all_s.searchsorted(all_s)
        last = other.times_s.searchsorted(all_s, side="right") - 1
        there = other.cells[np.maximum(np.minimum(other.times_s.searchsorted(all_s) + nth, last), 0)]
        return np.concatenate([person.cells[:start], there[len(person.life.past) + start :]])

    def _through(self, mobility: Mobility, demand: Demand, person: _Person, **limit: int) -> Trace:
        """Return all queries of a life, her past too, with the randomness that she always has."""
        moves, moments = (
            stream(self._scenario.seed, role, person.user, person.replication) for role in ("moves", "moments")
        )
        return live(mobility, demand, person.user, moves=moves, moments=moments, **limit).test

    @cached_property
    def _attraction(self) -> FloatArray:
        return attraction(self._world.grid, seed=self._scenario.seed, roads=self._world.roads)


def _refuse_days(spec: AnyShift) -> None:
    """Refuse to count days in a trace file that tells an order of visits but no times."""
    for key in ("at_day", "for_days"):
        if getattr(spec, key) is not None:
            raise ValueError(
                "the trace file tells the order of visits but no times: allowed are `at_query` and `for_queries`, "
                f"found `{key}`"
            )
