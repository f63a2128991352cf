"""Contract checks of mobility models."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from sim.checks.bench import Bench
from sim.checks.requirements import require, require_callable, require_flag, require_in_order, value_of
from sim.events import Visit
from sim.interfaces import Mobility, MobilityCapabilities
from sim.rng import stream


def mobility_is_in_order(mobility: Mobility, bench: Bench) -> None:
    """Visits are in order of time, at integer seconds, in cells of the grid."""
    for user in mobility.users(3):
        require_in_order(islice(mobility.visits(user, stream(5, "moves", user)), 200), bench.n_cells)


def mobility_ids_are_unique(mobility: Mobility, _bench: Bench) -> None:
    """User ids are unique and the same at each call."""
    users = list(mobility.users(3))
    require(all(isinstance(user, str) for user in users), f"user ids must be strings, got {users!r}")
    require(len(users) > 0, "users(3) must return at least one user id, got none")
    require(len(set(users)) == len(users), f"user ids must be unique, got {users!r}")
    require(len(users) <= 3, f"users(3) must return at most 3 user ids, got {len(users)}")
    require(users == list(mobility.users(3)), "two calls of users(3) differ")
    require(users == list(mobility.users(None))[:3], "users(3) must return the first 3 of users(None)")


def mobility_is_reproducible(mobility: Mobility, _bench: Bench) -> None:
    """The same random stream yields the same visits, regardless of other users simulated before."""
    user, *others = mobility.users(2)
    first = _visits(mobility, user)
    for other in others:
        list(islice(mobility.visits(other, stream(7, "moves")), 50))
    require(first == _visits(mobility, user), "two calls of visits with the same random stream differ")


def _visits(mobility: Mobility, user: str) -> list[Visit]:
    return list(islice(mobility.visits(user, stream(6, "moves")), 100))


def mobility_capabilities_are_valid(mobility: Mobility, bench: Bench) -> None:
    """The optional `finite`, `timed` and `max_gap_s` are valid, and the visits of a finite mobility end."""
    require_flag(MobilityCapabilities.finite, mobility)
    require_flag(MobilityCapabilities.timed, mobility)
    max_gap_s: Any = value_of(MobilityCapabilities.max_gap_s, mobility)
    is_number = isinstance(max_gap_s, int | float | np.number) and not isinstance(max_gap_s, bool)
    valid = max_gap_s is None or (is_number and max_gap_s > 0)
    require(valid, f"`max_gap_s` must be None or a number of seconds in (0, inf), got {max_gap_s!r}")
    if MobilityCapabilities.finite.of(mobility):
        user = mobility.users(1)[0]
        endless = next(islice(mobility.visits(user, stream(5, "moves", user)), bench.longest_trace, None), None)
        require(endless is None, f"`finite` is True, but {user} has more than {bench.longest_trace:,} visits")


def mobility_can_change(mobility: Mobility, bench: Bench) -> None:
    """The optional `elsewhere` and `rerouted` return the same users with valid visits; the original does not change."""
    elsewhere = require_callable(MobilityCapabilities.elsewhere, mobility)
    rerouted = require_callable(MobilityCapabilities.rerouted, mobility)
    if elsewhere is None and rerouted is None:
        return
    before = {user: _visits(mobility, user) for user in mobility.users(3)}
    for what in ("home", "work", "places"):
        moved = None if elsewhere is None else elsewhere(what, "bench")
        if moved is not None:
            _require_same_users(moved, list(before), bench, f"elsewhere({what!r}, name)")
    if rerouted is not None:
        same_roads = rerouted(lambda _departure_s: bench.world.roads)
        _require_same_users(same_roads, list(before), bench, "rerouted(roads_at)")
        for user, visits in before.items():
            same = _visits(same_roads, user) == visits
            require(same, f"rerouted(roads_at) changes the visits of {user} on unchanged roads")
    for user, visits in before.items():
        require(_visits(mobility, user) == visits, f"elsewhere or rerouted changed the original visits of {user}")


def _require_same_users(changed: Any, users: list[str], bench: Bench, call: str) -> None:
    is_mobility = hasattr(changed, "users") and hasattr(changed, "visits")
    require(is_mobility, f"{call} must return a mobility, got {changed!r}")
    require(list(changed.users(3)) == users, f"{call} must have the users {users}, got {list(changed.users(3))}")
    mobility_is_in_order(changed, bench)
