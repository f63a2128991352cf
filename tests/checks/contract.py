"""Helpers that apply the contract checks to components of a test."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sim.checks import CHECKS, check_made
from sim.checks.bench import Bench
from sim.interfaces import Capability

Make = Callable[[Bench], Any]
Incorrect = tuple[Make, dict[str, str]]
"""A component factory and, by the name of each check that must fail, a part of the expected message."""


def failing(family: str, make: Make) -> dict[str, str]:
    """Return the messages of the failed checks by their names."""
    bench = Bench(most_visits=2_000, longest_trace=2_000)
    results = check_made(family, partial(make, bench), bench)
    return {
        check.__name__: result.problem
        for check, result in zip(CHECKS[family], results, strict=True)
        if result.problem is not None
    }


def assert_fails(family: str, make: Make, problems: dict[str, str]) -> None:
    """Assert that exactly these checks fail, and that their messages contain these parts."""
    messages = failing(family, make)
    assert messages.keys() == problems.keys(), messages
    for check, part in problems.items():
        assert part in messages[check]


def with_attributes(base: type[Any], **attributes: Any) -> Make:
    """Return a subclass with other attributes."""
    return type(base.__name__, (base,), attributes)


def capabilities(*declarations: type[Any]) -> set[str]:
    """Return the names of the optional attributes that `sim.interfaces` declares."""
    return {name for each in declarations for name, value in vars(each).items() if isinstance(value, Capability)}
