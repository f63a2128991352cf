"""Each incorrect attack fails its contract check and no other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sim.checks import CHECKS
from sim.checks.bench import Bench
from sim.events import Guess, Report
from sim.interfaces import AttackCapabilities
from tests.checks.contract import Incorrect, Make, assert_fails, capabilities, failing


def observing(observe: Callable[[Report], Any]) -> Callable[[Bench], Any]:
    """Return a factory of attacks with this method `observe`."""
    return lambda _bench: SimpleNamespace(observe=observe)


def dropping(share: Any) -> Callable[[Bench], Any]:
    """Return a factory of attacks with this share of dropped states."""
    return lambda _bench: SimpleNamespace(observe=lambda report: Guess(report.user, report.index, 0), dropped=share)


def concluding(guesses: Any) -> Callable[[Bench], Any]:
    """Return a factory of attacks with these final guesses."""
    return lambda _bench: SimpleNamespace(
        observe=lambda report: Guess(report.user, report.index, 0), conclude=lambda: guesses
    )


def changes_the_channel(report: Report) -> Guess:
    assert report.channel is not None
    matrix = report.channel.matrix()
    matrix.flags.writeable = True
    matrix[0, 0] += 0.1
    return Guess(report.user, report.index, 0)


def asserts(report: Report) -> Guess:
    assert report.index > 1, "no first report"
    return Guess(report.user, report.index, 0)


def is_misspelled(report: Report) -> Guess:
    return Gess(report.user, report.index, 0)  # type: ignore[name-defined, no-any-return] # noqa: F821


zero = observing(lambda report: Guess(report.user, report.index, 0))
wrong_index = observing(lambda report: Guess(report.user, report.index - 1, 0))
wrong_user = observing(lambda report: Guess("ann", report.index, 0))
outside_the_grid = observing(lambda report: Guess(report.user, report.index, 12))
fractional_cell = observing(lambda report: Guess(report.user, report.index, 1.5))  # type: ignore[arg-type]
revises_the_current_query = observing(lambda report: Guess(report.user, report.index, 0, revised=[(report.index, 0)]))
revises_query_zero = observing(lambda report: Guess(report.user, report.index, 0, revised=[(report.index - 1, 0)]))
revises_outside_the_grid = observing(
    lambda report: Guess(report.user, report.index, 0, revised=[(1, 12)][: report.index - 1])
)
contradicts_itself = observing(lambda report: Guess(report.user, report.index, 0, np.ones(12, dtype=np.int64)))


ALL_CHECKS = tuple(check.__name__ for check in CHECKS["attack"])


INCORRECT: list[Incorrect] = [
    (wrong_index, {"attack_estimates_cells": "guess.index must be the index of the report, 1, got 0"}),
    (wrong_user, {"attack_estimates_cells": "guess.user must be the user of the report, 'bob', got 'ann'"}),
    (outside_the_grid, {"attack_estimates_cells": "estimate must be an integer in [0, 12), got 12"}),
    (fractional_cell, {"attack_estimates_cells": "estimate must be an integer in [0, 12), got 1.5"}),
    (observing(lambda _report: 0), dict.fromkeys(ALL_CHECKS, "observe must return a Guess, got 0")),
    (revises_the_current_query, {"attack_revises_earlier_queries_only": "must be in [1, 1), got 1"}),
    (revises_query_zero, {"attack_revises_earlier_queries_only": "must be in [1, 1), got 0"}),
    (
        revises_outside_the_grid,
        {"attack_revises_earlier_queries_only": "the estimate of query 1 must be an integer in [0, 12), got 12"},
    ),
    (concluding([0]), {"attack_revises_earlier_queries_only": "conclude must yield guesses, got 0"}),
    (
        concluding([Guess("bob", 12, 0)]),
        {"attack_revises_earlier_queries_only": "got 'bob'"},
    ),
    (concluding([Guess("ann", 12, 0, revised=[(12, 0)])]), {"attack_revises_earlier_queries_only": "got 12"}),
    (contradicts_itself, {"attack_estimates_cells": "estimate_by_output[0] must be the estimate, 0, got 1"}),
    (observing(changes_the_channel), {"attack_estimates_cells": "changed the channel"}),
    (observing(asserts), dict.fromkeys(ALL_CHECKS, "raised AssertionError: no first report")),
    (observing(is_misspelled), dict.fromkeys(ALL_CHECKS, "raised NameError: name 'Gess' is not defined")),
]


@pytest.mark.parametrize("make", [zero])
def test_correct_base_classes_pass_all_checks(make: Make) -> None:
    assert failing("attack", make) == {}


@pytest.mark.parametrize(("make", "problems"), INCORRECT)
def test_incorrect_attack_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("attack", make, problems)


def counting(*fallbacks: Any) -> Make:
    """Return a factory of attacks whose `fallbacks` takes these values, one after another."""

    class Counting:
        def __init__(self, _bench: Bench) -> None:
            self._reports = 0

        @property
        def fallbacks(self) -> Any:
            return fallbacks[min(self._reports, len(fallbacks) - 1)]

        def observe(self, report: Report) -> Guess:
            self._reports += 1
            return Guess(report.user, report.index, 0)

    return Counting


def separating(separates_users: Any, *, joins: bool) -> Make:
    """Return a factory of attacks whose estimate is the last output, of any user if the attack joins users."""

    class Last:
        def __init__(self, _bench: Bench) -> None:
            self.separates_users = separates_users
            self._reports = 0

        def observe(self, report: Report) -> Guess:
            self._reports += 1
            return Guess(report.user, report.index, self._reports % 12 if joins else report.output)

    return Last


def concludes(part: str) -> dict[str, str]:
    return {"attack_revises_earlier_queries_only": part}


not_a_method = lambda bench: SimpleNamespace(observe=zero(bench).observe, conclude=[])  # noqa: E731

INVALID_CAPABILITIES: dict[str, list[Incorrect]] = {
    "conclude": [
        (not_a_method, concludes("`conclude` must be a method, got []")),
        (concluding(None), concludes("raised TypeError: 'NoneType' object is not iterable")),
        (concluding([None]), concludes("conclude must yield guesses, got None")),
        (concluding([Guess("ann", 13, 0)]), concludes("must be in [1, 12], got 13")),
        (
            concluding([Guess("ann", 12, 12)]),
            concludes("the estimate of conclude must be an integer in [0, 12), got 12"),
        ),
    ],
    "fallbacks": [
        (counting("none"), {"attack_counts_fallbacks": "`fallbacks` must be an integer, got 'none'"}),
        (counting(0, 2, 1), {"attack_counts_fallbacks": "`fallbacks` must be in [2, inf), got 1"}),
    ],
    "dropped": [
        (dropping("none"), {"attack_counts_fallbacks": "`dropped` must be a number in [0, 1], got 'none'"}),
        (dropping(1.5), {"attack_counts_fallbacks": "`dropped` must be a number in [0, 1], got 1.5"}),
    ],
    "separates_users": [
        (separating("yes", joins=False), {"attack_counts_fallbacks": "must be True or False, got 'yes'"}),
        (
            separating(True, joins=True),
            {"attack_counts_fallbacks": "reports of bob change the guess"},
        ),
    ],
}


def test_attack_with_all_capabilities_passes() -> None:
    assert failing("attack", concluding([Guess("ann", 12, 0, revised=[(1, 3)])])) == {}
    assert failing("attack", counting(0, 1, 1, 2)) == {}
    assert failing("attack", separating(True, joins=False)) == {}


@pytest.mark.parametrize(("make", "problems"), [case for cases in INVALID_CAPABILITIES.values() for case in cases])
def test_invalid_capability_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("attack", make, problems)


def test_every_capability_has_an_incorrect_example() -> None:
    assert INVALID_CAPABILITIES.keys() == capabilities(AttackCapabilities)
