"""Each incorrect mobility fails its contract check and no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from sim.checks.bench import Bench
from sim.events import Visit
from sim.interfaces import Generator, MobilityCapabilities
from tests.checks.contract import Incorrect, Make, assert_fails, capabilities, failing, with_attributes


class Walk:
    """A correct mobility: users who move to the next cell every minute."""

    names: Sequence[Any] = ("u1", "u2", "u3", "u4")
    step: Any = 60
    first = 0

    def __init__(self, _bench: Bench) -> None: ...

    def users(self, count: int | None) -> Sequence[str]:
        return self.names[:count]

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        cell = int(rng.integers(12))
        for index in range(300):
            yield Visit(self.step * index, (cell + index) % 12 + self.first)


class GoesBackInTime(Walk):
    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        for visit in super().visits(user, rng):
            yield Visit(visit.time_s - 600 * (visit.time_s > 3000), visit.cell)


class HalfSeconds(Walk):
    step = 0.5


class LeavesTheGrid(Walk):
    first = 1


class YieldsPairs(Walk):
    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        yield (0, 3)  # type: ignore[misc]


class IgnoresTheStream(Walk):
    def __init__(self, bench: Bench) -> None:
        self._rng = np.random.default_rng(1)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        return super().visits(user, self._rng)


class DuplicateIds(Walk):
    names = ("u1", "u1")


class NoUsers(Walk):
    names = ()


class NumericIds(Walk):
    names = (1, 2, 3)


class IgnoresTheCount(Walk):
    def users(self, count: int | None) -> Sequence[str]:
        return self.names


class RequiresACount(Walk):
    def users(self, count: int | None) -> Sequence[str]:
        return [f"u{i}" for i in range(count)]  # type: ignore[arg-type]


INCORRECT: list[Incorrect] = [
    (GoesBackInTime, {"mobility_is_in_order": "got 2460 after 3000"}),
    (HalfSeconds, {"mobility_is_in_order": "time_s must be an integer, got 0.5"}),
    (LeavesTheGrid, {"mobility_is_in_order": "cell must be an integer in [0, 12), got 12"}),
    (YieldsPairs, {"mobility_is_in_order": "must be a Visit, got (0, 3)"}),
    (IgnoresTheStream, {"mobility_is_reproducible": "two calls of visits"}),
    (DuplicateIds, {"mobility_ids_are_unique": "unique, got ['u1', 'u1']"}),
    (NumericIds, {"mobility_ids_are_unique": "strings, got [1, 2, 3]"}),
    (IgnoresTheCount, {"mobility_ids_are_unique": "at most 3 user ids, got 4"}),
    (RequiresACount, {"mobility_ids_are_unique": "raised TypeError: 'NoneType'"}),
]


@pytest.mark.parametrize("make", [Walk])
def test_correct_base_classes_pass_all_checks(make: Make) -> None:
    assert failing("mobility", make) == {}


@pytest.mark.parametrize(("make", "problems"), INCORRECT)
def test_incorrect_mobility_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("mobility", make, problems)


class Endless(Walk):
    """A mobility with endless visits that declares finite ones."""

    finite = True

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        while True:
            yield Visit(0, int(rng.integers(12)))


class Movable(Walk):
    """A correct mobility that supports other places and other roads."""

    def elsewhere(self, what: str, name: str) -> Any:
        return None if what == "work" else with_attributes(Walk, first=0)(Bench())

    def rerouted(self, roads_at: Any) -> Any:
        return self


class ChangesItself(Walk):
    def elsewhere(self, what: str, name: str) -> Any:
        self.step = 30
        return self


class MovesOnUnchangedRoads(Movable):
    def rerouted(self, roads_at: Any) -> Any:
        return with_attributes(Walk, step=30)(Bench())


class CannotBeRead(Walk):
    """A mobility whose property `finite` raises AttributeError."""

    @property
    def finite(self) -> bool:
        return bool(self.table.finite)  # type: ignore[attr-defined]


def elsewhere(result: Any) -> Make:
    return with_attributes(Walk, elsewhere=lambda _self, _what, _name: result)


def rerouted(result: Any) -> Make:
    return with_attributes(Walk, rerouted=lambda _self, _roads_at: result)


def invalid(part: str) -> dict[str, str]:
    return {"mobility_capabilities_are_valid": part}


def changing(part: str) -> dict[str, str]:
    return {"mobility_can_change": part}


other_users = with_attributes(Walk, names=("v1", "v2", "v3"))(Bench())
off_the_grid = with_attributes(Walk, first=1)(Bench())

INVALID_CAPABILITIES: dict[str, list[Incorrect]] = {
    "finite": [
        (with_attributes(Walk, finite="no"), invalid("`finite` must be True or False, got 'no'")),
        (Endless, invalid("`finite` is True, but u1 has more than 2,000 visits")),
        (CannotBeRead, invalid("reading it raises AttributeError")),
    ],
    "timed": [(with_attributes(Walk, timed=None), invalid("`timed` must be True or False, got None"))],
    "max_gap_s": [
        (
            with_attributes(Walk, max_gap_s="1 h"),
            invalid("None or a number of seconds in (0, inf), got '1 h'"),
        ),
        (with_attributes(Walk, max_gap_s=0), invalid("in (0, inf), got 0")),
    ],
    "elsewhere": [
        (with_attributes(Walk, elsewhere=True), changing("`elsewhere` must be a method, got True")),
        (elsewhere(7), changing("elsewhere('home', name) must return a mobility, got 7")),
        (elsewhere(other_users), changing("must have the users ['u1', 'u2', 'u3'], got ['v1', 'v2', 'v3']")),
        (elsewhere(off_the_grid), changing("cell must be an integer in [0, 12), got 12")),
        (ChangesItself, changing("changed the original visits of u1")),
    ],
    "rerouted": [
        (with_attributes(Walk, rerouted="roads"), changing("`rerouted` must be a method, got 'roads'")),
        (rerouted(None), changing("rerouted(roads_at) must return a mobility, got None")),
        (MovesOnUnchangedRoads, changing("rerouted(roads_at) changes the visits of u1")),
    ],
}


def test_mobility_with_all_capabilities_passes() -> None:
    assert failing("mobility", with_attributes(Movable, finite=True, timed=False, max_gap_s=3600.0)) == {}


@pytest.mark.parametrize(("make", "problems"), [case for cases in INVALID_CAPABILITIES.values() for case in cases])
def test_invalid_capability_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("mobility", make, problems)


def test_every_capability_has_an_incorrect_example() -> None:
    assert INVALID_CAPABILITIES.keys() == capabilities(MobilityCapabilities)
