"""Each wrong mobility fails the contract check that looks for it, and no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from sim.checks.bench import Bench
from sim.events import Visit
from sim.interfaces import Generator, MobilityCapabilities
from tests.checks.contract import Make, Wrong, assert_fails, capabilities, failing, lying


class Walk:
    """A good mobility: two users who step to the next cell every minute."""

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


class ForgetsTheStream(Walk):
    def __init__(self, bench: Bench) -> None:
        self._own = np.random.default_rng(1)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        return super().visits(user, self._own)


class TwoOfOneName(Walk):
    names = ("u1", "u1")


class NumbersForNames(Walk):
    names = (1, 2, 3)


class MoreThanAskedFor(Walk):
    def users(self, count: int | None) -> Sequence[str]:
        return self.names


class NeedsACount(Walk):
    def users(self, count: int | None) -> Sequence[str]:
        return [f"u{i}" for i in range(count)]  # type: ignore[arg-type]


WRONG: list[Wrong] = [
    (GoesBackInTime, {"mobility_is_in_order": "time went back from 3000 to 2460 s"}),
    (HalfSeconds, {"mobility_is_in_order": "time_s must be a whole number of seconds, got 0.5"}),
    (LeavesTheGrid, {"mobility_is_in_order": "cell must be a cell, a whole number in [0, 12), got 12"}),
    (YieldsPairs, {"mobility_is_in_order": "must be a Visit, got (0, 3)"}),
    (ForgetsTheStream, {"mobility_repeats": "the same stream gave other visits"}),
    (TwoOfOneName, {"mobility_names_differ": "user ids must differ and be one or more"}),
    (NumbersForNames, {"mobility_names_differ": "user ids must be texts, got [1, 2, 3]"}),
    (MoreThanAskedFor, {"mobility_names_differ": "users(3) must be three or fewer, got 4"}),
    (NeedsACount, {"mobility_names_differ": "raised TypeError: 'NoneType'"}),
]


@pytest.mark.parametrize("make", [Walk])
def test_the_base_of_the_wrong_ones_is_right(make: Make) -> None:
    assert failing("mobility", make) == {}


@pytest.mark.parametrize(("make", "problems"), WRONG)
def test_a_wrong_mobility_fails_the_check_that_looks_for_it(make: Make, problems: dict[str, str]) -> None:
    assert_fails("mobility", make, problems)


class Endless(Walk):
    """Visits that never end, of a mobility that says otherwise."""

    finite = True

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        while True:
            yield Visit(0, int(rng.integers(12)))


class Movable(Walk):
    """A good mobility with other places and other roads."""

    def elsewhere(self, what: str, name: str) -> Any:
        return None if what == "work" else lying(Walk, first=0)(Bench())

    def rerouted(self, roads_at: Any) -> Any:
        return self


class ChangesItself(Walk):
    def elsewhere(self, what: str, name: str) -> Any:
        self.step = 30
        return self


class DrivesElsewhere(Movable):
    def rerouted(self, roads_at: Any) -> Any:
        return lying(Walk, step=30)(Bench())


class CannotBeRead(Walk):
    """Its `finite` is meant to be True, but the property fails, and the default would be used."""

    @property
    def finite(self) -> bool:
        return bool(self.table.finite)  # type: ignore[attr-defined]


def elsewhere(result: Any) -> Make:
    return lying(Walk, elsewhere=lambda _self, _what, _name: result)


def rerouted(result: Any) -> Make:
    return lying(Walk, rerouted=lambda _self, _roads_at: result)


def describing(words: str) -> dict[str, str]:
    return {"mobility_describes_itself": words}


def changing(words: str) -> dict[str, str]:
    return {"mobility_can_change": words}


other_users = lying(Walk, names=("v1", "v2", "v3"))(Bench())
off_the_grid = lying(Walk, first=1)(Bench())

WRONG_CAPABILITIES: dict[str, list[Wrong]] = {
    "finite": [
        (lying(Walk, finite="no"), describing("`finite` must be True or False, got 'no'")),
        (Endless, describing("it says finite = True, but u1 has more than 2,000 visits")),
        (CannotBeRead, describing("`finite` is defined, but reading it raises AttributeError")),
    ],
    "timed": [(lying(Walk, timed=None), describing("`timed` must be True or False, got None"))],
    "max_gap_s": [
        (
            lying(Walk, max_gap_s="1 h"),
            describing("None or a number of seconds in (0, inf), got '1 h'"),
        ),
        (lying(Walk, max_gap_s=0), describing("in (0, inf), got 0")),
    ],
    "elsewhere": [
        (lying(Walk, elsewhere=True), changing("`elsewhere` must be a method, got True")),
        (elsewhere(7), changing("elsewhere('home', name) must return a mobility, got 7")),
        (elsewhere(other_users), changing("must have the users ['u1', 'u2', 'u3'], got ['v1', 'v2', 'v3']")),
        (elsewhere(off_the_grid), changing("cell must be a cell, a whole number in [0, 12), got 12")),
        (ChangesItself, changing("the visits of u1 have changed by elsewhere or rerouted")),
    ],
    "rerouted": [
        (lying(Walk, rerouted="roads"), changing("`rerouted` must be a method, got 'roads'")),
        (rerouted(None), changing("rerouted(roads_at) must return a mobility, got None")),
        (DrivesElsewhere, changing("rerouted(roads_at) moves u1 though no road has changed")),
    ],
}


def test_a_mobility_with_capabilities_passes() -> None:
    assert failing("mobility", lying(Movable, finite=True, timed=False, max_gap_s=3600.0)) == {}


@pytest.mark.parametrize(("make", "problems"), [wrong for wrongs in WRONG_CAPABILITIES.values() for wrong in wrongs])
def test_a_wrong_capability_fails_its_check(make: Make, problems: dict[str, str]) -> None:
    assert_fails("mobility", make, problems)


def test_every_capability_has_a_wrong_class() -> None:
    assert WRONG_CAPABILITIES.keys() == capabilities(MobilityCapabilities)
