"""Each wrong attack fails the contract check that looks for it, and no other."""

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
from tests.checks.contract import Make, Wrong, assert_fails, capabilities, failing


def answering(answer: Callable[[Report], Any]) -> Callable[[Bench], Any]:
    """Return how to make an attack that answers so."""
    return lambda _bench: SimpleNamespace(observe=answer)


def concluding(guesses: Any) -> Callable[[Bench], Any]:
    """Return how to make an attack with these final guesses."""
    return lambda _bench: SimpleNamespace(
        observe=lambda report: Guess(report.user, report.index, 0), conclude=lambda: guesses
    )


def breaks_the_channel(report: Report) -> Guess:
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


zero = answering(lambda report: Guess(report.user, report.index, 0))
wrong_index = answering(lambda report: Guess(report.user, report.index - 1, 0))
wrong_user = answering(lambda report: Guess("ann", report.index, 0))
no_cell = answering(lambda report: Guess(report.user, report.index, 12))
half_a_cell = answering(lambda report: Guess(report.user, report.index, 1.5))  # type: ignore[arg-type]
about_now = answering(lambda report: Guess(report.user, report.index, 0, revised=[(report.index, 0)]))
about_nothing = answering(lambda report: Guess(report.user, report.index, 0, revised=[(report.index - 1, 0)]))
past_the_grid = answering(lambda report: Guess(report.user, report.index, 0, revised=[(1, 12)][: report.index - 1]))
foresees_otherwise = answering(lambda report: Guess(report.user, report.index, 0, np.ones(12, dtype=np.int64)))


OF_ATTACKS = tuple(check.__name__ for check in CHECKS["attack"])


WRONG: list[Wrong] = [
    (wrong_index, {"attack_answers": "asked for ann, 1; answered ann, 0"}),
    (wrong_user, {"attack_answers": "asked for bob, 1; answered ann, 1"}),
    (no_cell, {"attack_answers": "estimate must be a cell, a whole number in [0, 12), got 12"}),
    (half_a_cell, {"attack_answers": "estimate must be a cell, a whole number in [0, 12), got 1.5"}),
    (answering(lambda _report: 0), dict.fromkeys(OF_ATTACKS, "observe must return a Guess, got 0")),
    (about_now, {"attack_revises_the_past_alone": "revised must be about queries before 1, from 1 on, got 1"}),
    (about_nothing, {"attack_revises_the_past_alone": "before 1, from 1 on, got 0"}),
    (past_the_grid, {"attack_revises_the_past_alone": "the estimate of query 1 must be a cell"}),
    (concluding([0]), {"attack_revises_the_past_alone": "conclude must return guesses, got 0"}),
    (
        concluding([Guess("bob", 12, 0)]),
        {"attack_revises_the_past_alone": "a guess about bob, who has sent no report"},
    ),
    (concluding([Guess("ann", 12, 0, revised=[(12, 0)])]), {"attack_revises_the_past_alone": "got 12"}),
    (foresees_otherwise, {"attack_answers": "estimate_by_output says 1, estimate 0"}),
    (answering(breaks_the_channel), {"attack_answers": "the channel was changed"}),
    (answering(asserts), dict.fromkeys(OF_ATTACKS, "raised AssertionError: no first report")),
    (answering(is_misspelled), dict.fromkeys(OF_ATTACKS, "raised NameError: name 'Gess' is not defined")),
]


@pytest.mark.parametrize("make", [zero])
def test_the_base_of_the_wrong_ones_is_right(make: Make) -> None:
    assert failing("attack", make) == {}


@pytest.mark.parametrize(("make", "problems"), WRONG)
def test_a_wrong_attack_fails_the_check_that_looks_for_it(make: Make, problems: dict[str, str]) -> None:
    assert_fails("attack", make, problems)


def counting(*fallbacks: Any) -> Make:
    """Return how to make an attack whose `fallbacks` takes these values, one after another."""

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


def concludes(words: str) -> dict[str, str]:
    return {"attack_revises_the_past_alone": words}


not_a_method = lambda bench: SimpleNamespace(observe=zero(bench).observe, conclude=[])  # noqa: E731

WRONG_CAPABILITIES: dict[str, list[Wrong]] = {
    "conclude": [
        (not_a_method, concludes("`conclude` must be a method, got []")),
        (concluding(None), concludes("raised TypeError: 'NoneType' object is not iterable")),
        (concluding([None]), concludes("conclude must return guesses, got None")),
        (concluding([Guess("ann", 13, 0)]), concludes("conclude must be about queries in [1, 12], got 13")),
        (concluding([Guess("ann", 12, 12)]), concludes("the estimate of conclude must be a cell")),
    ],
    "fallbacks": [
        (counting("none"), {"attack_counts_fallbacks": "`fallbacks` must be a whole number, got 'none'"}),
        (counting(0, 2, 1), {"attack_counts_fallbacks": "`fallbacks` must be in [2, inf), got 1"}),
    ],
}


def test_an_attack_with_capabilities_passes() -> None:
    assert failing("attack", concluding([Guess("ann", 12, 0, revised=[(1, 3)])])) == {}
    assert failing("attack", counting(0, 1, 1, 2)) == {}


@pytest.mark.parametrize(("make", "problems"), [wrong for wrongs in WRONG_CAPABILITIES.values() for wrong in wrongs])
def test_a_wrong_capability_fails_its_check(make: Make, problems: dict[str, str]) -> None:
    assert_fails("attack", make, problems)


def test_every_capability_has_a_wrong_class() -> None:
    assert WRONG_CAPABILITIES.keys() == capabilities(AttackCapabilities)
