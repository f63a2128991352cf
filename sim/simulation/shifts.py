"""Apply the shifts of a scenario to the users' lives.

Shifts that change times come first: other roads, then other query rates, each of which generates the rest of a life
again. Shifts of places follow: each has new cells for all queries, and replaces a share of the current cells by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from sim.errors import input_errors
from sim.interfaces import Demand, Mobility, MobilityCapabilities
from sim.mobility.shifts import detours
from sim.mobility.shifts.context import ShiftContext
from sim.mobility.shifts.life import ShiftedLife, Window
from sim.mobility.shifts.parameters import ShiftOfPlaces, ShiftOfRoads
from sim.mobility.shifts.places import mixed, share_of_new
from sim.mobility.shifts.rate import RateParameters
from sim.mobility.traces import Life
from sim.scenario.models import Scenario
from sim.simulation.shift_schedule import ShiftSchedule
from sim.world import World

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

LiveAgain = Callable[[str, Mobility, Demand], Life]
"""Generate a user's life of the scenario's length again, with another mobility or demand and the same randomness."""


class Shifts:
    """Shifts of a scenario, applied to the lives of a replication."""

    def __init__(
        self, scenario: Scenario, world: World, users: Sequence[str], mobility: Mobility, demand: Demand
    ) -> None:
        self._shifts, self._world, self._mobility = scenario.shifts, world, mobility
        self._context = ShiftContext(world, users, demand, scenario.seed)
        self._schedule = ShiftSchedule(scenario.shifts, scenario.users, mobility, self._context)
        self._changed_roads: dict[tuple[str, ...], Roads] = {}

    def shifted(self, user: str, replication: int, unshifted: Mapping[str, Life], live_again: LiveAgain) -> ShiftedLife:
        """Return a user's life in one replication with all shifts applied; `unshifted` are lives without shifts."""
        life = ShiftedLife(user, replication, unshifted, unshifted[user], self._mobility, lambda: self._context.demand)
        self._change_roads(life, live_again)
        self._change_rates(life, live_again)
        self._change_places(life)
        return life

    def require_effect(self, lives: Mapping[str, ShiftedLife], live: Callable[[str], ShiftedLife]) -> None:
        """Raise InputError if a shift changes neither one of these lives nor that of another user, given by `live`."""
        for spec in self._shifts:
            concerned = partial(self._schedule.concerns, spec)
            others = (live(user) for user in self._context.users if user not in lives and concerned(user))
            self._schedule.require_effect(spec, chain((lives[user] for user in filter(concerned, lives)), others))

    def _change_roads(self, life: ShiftedLife, live_again: LiveAgain) -> None:
        """Change the routes: with the mobility model if it supports rerouting, otherwise between the trace's cells."""
        usual, windows = self._world.roads, self._road_windows(life)
        if not windows:
            return
        assert usual is not None
        life.windows |= windows

        def roads_at(time_s: int) -> Roads:
            return self._roads(tuple(name for name, window in windows.items() if window.is_on(time_s)))

        reroute = MobilityCapabilities.rerouted.of(life.mobility)
        if reroute is not None:
            life.mobility = reroute(roads_at)
            life.life = live_again(life.user, life.mobility, life.demand())
            return
        life.replace_cells(
            detours.rerouted(life.times_s, life.cells, locations=self._world.locations, roads=usual, roads_at=roads_at)
        )

    def _road_windows(self, life: ShiftedLife) -> dict[str, Window]:
        windows = {
            spec.name: self._schedule.window(spec, life)
            for spec in self._shifts
            if isinstance(spec, ShiftOfRoads) and self._schedule.concerns(spec, life.user)
        }
        return {name: window for name, window in windows.items() if window is not None}

    def _roads(self, changes: tuple[str, ...]) -> Roads:
        """Return the roads with these changes applied, the same for all users."""
        assert self._world.roads is not None
        if not changes:
            return self._world.roads
        if changes not in self._changed_roads:
            before = self._roads(changes[:-1])
            spec = next(spec for spec in self._shifts if spec.name == changes[-1])
            assert isinstance(spec, ShiftOfRoads)
            with input_errors(f"shifts.{spec.name}"):
                changed = spec.changed(before, self._world.locations, self._context.stream(spec.name))
            self._changed_roads[changes] = changed
        return self._changed_roads[changes]

    def _change_rates(self, life: ShiftedLife, live_again: LiveAgain) -> None:
        """Change the query rate, one shift after another in the order of their starts."""
        rates = [
            spec
            for spec in self._shifts
            if isinstance(spec, RateParameters) and self._schedule.concerns(spec, life.user)
        ]
        while pending := [
            (spec, window) for spec in rates if (window := self._schedule.window(spec, life)) is not None
        ]:
            spec, window = min(pending, key=lambda item: item[1].from_s)
            rates.remove(spec)
            life.windows = {name: self._until_time(earlier, life) for name, earlier in life.windows.items()}
            life.windows[spec.name] = window
            life.demand = self._demand_with(spec, window, life)
            life.life = live_again(life.user, life.mobility, life.demand())

    def _until_time(self, window: Window, life: ShiftedLife) -> Window:
        """Convert a window that ends after a number of queries to one that ends at a time.

        Called before another shift changes the query rate.
        """
        if np.isinf(window.for_queries):
            return window
        start, count = int(life.times_s.searchsorted(window.from_s)), int(window.for_queries)
        queries = len(life.life.past) + start + count + 1
        times_s = self._context.relive(life, life.mobility, life.demand(), queries=queries).times_s
        end = int(times_s.searchsorted(window.from_s)) + count
        return Window(window.from_s, int(times_s[end]) if end < times_s.size else np.inf, np.inf)

    def _demand_with(self, spec: RateParameters, window: Window, life: ShiftedLife) -> Callable[[], Demand]:
        """Return a factory of the demand of one life; each demand it returns starts with the same random stream."""
        inner, user, replication = life.demand, life.user, life.replication
        return lambda: spec.build(inner(), window, self._context.stream(spec.name, user, replication))

    def _change_places(self, life: ShiftedLife) -> None:
        """Record all shifts and replace cells of queries, in the order of the shifts' starts."""
        pending = [
            (spec, queries)
            for spec in self._shifts
            if self._schedule.concerns(spec, life.user) and (queries := self._schedule.queries(spec, life)) is not None
        ]
        for spec, (start, stop) in sorted(pending, key=lambda item: item[1][0]):
            if isinstance(spec, ShiftOfPlaces):
                with input_errors(f"shifts.{spec.name}"):
                    self._mix(spec, start, stop, life)
            life.record(spec, start, stop)

    def _mix(self, spec: ShiftOfPlaces, start: int, stop: int, life: ShiftedLife) -> None:
        rng = self._context.stream(spec.name, life.user, life.replication)
        new = spec.new_cells(life, start, self._context, rng)
        share = share_of_new(len(new), start=start, stop=stop, over=spec.over_queries, weight=spec.weight)
        life.replace_cells(mixed(life.cells, new, share, rng))
