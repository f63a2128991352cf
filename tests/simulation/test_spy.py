"""The search for secrets finds a secret in every place where an object can hold it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from sim.events import Query, Report
from sim.mobility.traces import Trace
from tests.simulation.spy import secrets


class Plain:
    """Channel without secrets, in which the tests hide one."""

    def __init__(self, hidden: Any = None) -> None:
        self.hidden = hidden

    def method(self) -> None:
        """Do nothing; a bound method holds its object."""


def report_with(channel: Any) -> Report:
    return Report("ann", 1, 0, 3, channel)


def with_keyword_default(truth: Any) -> Any:
    def function(*, hidden: Any = truth) -> Any:
        return hidden

    return function


def with_attribute(truth: Any) -> Any:
    def function() -> None:
        """Do nothing."""

    function.hidden = truth  # type: ignore[attr-defined]
    return function


def with_annotation(truth: Any) -> Any:
    def function() -> None:
        """Do nothing."""

    function.__annotations__["return"] = truth
    return function


def with_slot(truth: Any) -> Any:
    slotted = type("Leaky", (), {"__slots__": ("value",)})()
    slotted.value = truth
    return slotted


def array_of(truth: Any) -> Any:
    array = np.empty(2, dtype=object)
    array[1] = truth
    return array


def instance_of(base: type = Plain, **attributes: Any) -> Any:
    return type("Leaky", (base,), attributes)()


PLACES: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda truth: truth,
    "closure": lambda truth: lambda: truth,
    "default argument": lambda truth: lambda hidden=truth: hidden,
    "keyword-only default": with_keyword_default,
    "function attribute": with_attribute,
    "annotation": with_annotation,
    "partial function": lambda truth: partial(print, truth),
    "keyword of a partial function": lambda truth: partial(print, end=truth),
    "bound method": lambda truth: Plain(truth).method,
    "bound built-in method": lambda truth: [truth].append,
    "class attribute": lambda truth: instance_of(truth=truth),
    "attribute of a base class": lambda truth: instance_of(type("Base", (Plain,), {"truth": truth})),
    "attribute of a metaclass": lambda truth: type("Meta", (type,), {"truth": truth})("Leaky", (Plain,), {})(),
    "default argument of a method": lambda truth: instance_of(method=lambda _, hidden=truth: hidden),
    "property": lambda truth: instance_of(value=property(lambda _: truth)),
    "static method": lambda truth: instance_of(value=staticmethod(lambda: truth)),
    "class method": lambda truth: instance_of(value=classmethod(lambda _: truth)),
    "slot": with_slot,
    "array of objects": array_of,
    "array behind a view": lambda truth: array_of(truth)[:1],
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_the_spy_finds_a_trace(place: Callable[[Any], Any]) -> None:
    trace = Trace("ann", np.array([0]), np.array([3]))
    assert secrets(report_with(Plain(place(trace)))) == [trace]


def test_the_spy_finds_nothing_in_a_channel_without_secrets() -> None:
    assert secrets(report_with(Plain())) == []


def test_the_spy_follows_a_weak_reference() -> None:
    holder = Plain(Query("ann", 1, 0, 3))
    assert secrets(report_with(Plain(weakref.ref(holder)))) == [holder.hidden]


def test_the_spy_finds_suspended_frames() -> None:
    """Generators and coroutines hold their local variables, so they count as secret."""

    def generate() -> Iterator[int]:
        yield 0

    async def wait() -> None:
        """Do nothing."""

    coroutine = wait()
    for suspended in (generate(), coroutine, sys._getframe()):
        assert suspended in secrets(Plain(suspended))
    coroutine.close()


@pytest.mark.parametrize("part", [slice(None), slice(1, 2), slice(None, None, -1)])
def test_the_spy_finds_the_cells_of_a_trace(part: slice) -> None:
    trace = Trace("ann", np.array([0, 1, 2]), np.array([3, 4, 5]))
    for array in (trace.cells[part], np.asarray(trace.cells[part], dtype=np.int64).view(np.uint64)):
        assert any(secret is array for secret in secrets(Plain(array), [trace]))
    assert secrets(Plain(trace.cells.copy()), [trace]) == []
