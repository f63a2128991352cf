"""Each incorrect demand fails its contract check and no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from sim.checks.bench import Bench
from sim.events import Visit
from sim.interfaces import DemandCapabilities, Generator
from tests.checks.contract import Incorrect, Make, assert_fails, capabilities, failing, with_attributes


class Every:
    """A correct demand: a query at every visit."""

    def __init__(self, _bench: Bench) -> None: ...

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        yield from visits


class InventsCells(Every):
    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        return (Visit(visit.time_s, 7) for visit in visits)


class Foresees(Every):
    """Queries in cells that are visited only later."""

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        return (Visit(visit.time_s, 10 - visit.cell) for visit in visits)


class QueriesOutOfOrder(Every):
    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        for visit in visits:
            yield Visit(visit.time_s + 5000, visit.cell)
            yield visit


class IsNotLazy(Every):
    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        yield from list(visits)


class IgnoresTheStream(Every):
    def __init__(self, bench: Bench) -> None:
        self._rng = np.random.default_rng(1)

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        return (visit for visit in visits if self._rng.random() < 0.5)


INCORRECT: list[Incorrect] = [
    (InventsCells, {"demand_uses_visited_cells": "cell 7, not visited before"}),
    (Foresees, {"demand_uses_visited_cells": "not visited before"}),
    (QueriesOutOfOrder, {"demand_is_in_order": "time_s must not decrease"}),
    (
        IsNotLazy,
        dict.fromkeys(("demand_is_in_order", "demand_uses_visited_cells"), "2,000 visits"),
    ),
    (IgnoresTheStream, {"demand_is_in_order": "two calls of queries"}),
]


@pytest.mark.parametrize("make", [Every])
def test_correct_base_classes_pass_all_checks(make: Make) -> None:
    assert failing("demand", make) == {}


@pytest.mark.parametrize(("make", "problems"), INCORRECT)
def test_incorrect_demand_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("demand", make, problems)


INVALID_CAPABILITIES: dict[str, list[Incorrect]] = {
    "period_s": [
        (
            with_attributes(Every, period_s=300.0),
            {"demand_capabilities_are_valid": "`period_s` must be an integer, got 300.0"},
        ),
        (
            with_attributes(Every, period_s=True),
            {"demand_capabilities_are_valid": "`period_s` must be an integer, got True"},
        ),
        (
            with_attributes(Every, period_s=-1),
            {"demand_capabilities_are_valid": "`period_s` must be in [0, inf), got -1"},
        ),
    ],
}


def test_demand_with_all_capabilities_passes() -> None:
    assert failing("demand", with_attributes(Every, period_s=300)) == {}


@pytest.mark.parametrize(("make", "problems"), [case for cases in INVALID_CAPABILITIES.values() for case in cases])
def test_invalid_capability_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("demand", make, problems)


def test_every_capability_has_an_incorrect_example() -> None:
    assert INVALID_CAPABILITIES.keys() == capabilities(DemandCapabilities)
