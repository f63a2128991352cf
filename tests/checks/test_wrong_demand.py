"""Each wrong demand fails the contract check that looks for it, and no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from sim.checks.bench import Bench
from sim.events import Visit
from sim.interfaces import DemandCapabilities, Generator
from tests.checks.contract import Make, Wrong, assert_fails, capabilities, failing, lying


class Every:
    """A good demand: at every visit."""

    def __init__(self, _bench: Bench) -> None: ...

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        yield from visits


class InventsCells(Every):
    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        return (Visit(visit.time_s, 7) for visit in visits)


class Foresees(Every):
    """From where she will be only later: a cell that no visit has brought yet."""

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        return (Visit(visit.time_s, 10 - visit.cell) for visit in visits)


class QueriesOutOfOrder(Every):
    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        for visit in visits:
            yield Visit(visit.time_s + 5000, visit.cell)
            yield visit


class WaitsForTheEnd(Every):
    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        yield from list(visits)


class ThrowsItsOwnDice(Every):
    def __init__(self, bench: Bench) -> None:
        self._own = np.random.default_rng(1)

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        return (visit for visit in visits if self._own.random() < 0.5)


WRONG: list[Wrong] = [
    (InventsCells, {"demand_uses_visited_cells": "is from cell 7, never visited"}),
    (Foresees, {"demand_uses_visited_cells": "never visited"}),
    (QueriesOutOfOrder, {"demand_is_in_order": "time went back from"}),
    (
        WaitsForTheEnd,
        dict.fromkeys(("demand_is_in_order", "demand_uses_visited_cells"), "visits were taken: lives are endless"),
    ),
    (ThrowsItsOwnDice, {"demand_is_in_order": "the same stream gave other queries"}),
]


@pytest.mark.parametrize("make", [Every])
def test_the_base_of_the_wrong_ones_is_right(make: Make) -> None:
    assert failing("demand", make) == {}


@pytest.mark.parametrize(("make", "problems"), WRONG)
def test_a_wrong_demand_fails_the_check_that_looks_for_it(make: Make, problems: dict[str, str]) -> None:
    assert_fails("demand", make, problems)


WRONG_CAPABILITIES: dict[str, list[Wrong]] = {
    "period_s": [
        (lying(Every, period_s=300.0), {"demand_describes_itself": "`period_s` must be a whole number, got 300.0"}),
        (lying(Every, period_s=True), {"demand_describes_itself": "`period_s` must be a whole number, got True"}),
        (lying(Every, period_s=-1), {"demand_describes_itself": "`period_s` must be in [0, inf), got -1"}),
    ],
}


def test_a_demand_with_capabilities_passes() -> None:
    assert failing("demand", lying(Every, period_s=300)) == {}


@pytest.mark.parametrize(("make", "problems"), [wrong for wrongs in WRONG_CAPABILITIES.values() for wrong in wrongs])
def test_a_wrong_capability_fails_its_check(make: Make, problems: dict[str, str]) -> None:
    assert_fails("demand", make, problems)


def test_every_capability_has_a_wrong_class() -> None:
    assert WRONG_CAPABILITIES.keys() == capabilities(DemandCapabilities)
