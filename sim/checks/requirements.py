"""Requirements that the checks of several families share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from sim.events import Visit
from sim.inference.bayes import distribution
from sim.interfaces import Capability

ComponentT = TypeVar("ComponentT")
ValueT = TypeVar("ValueT")


class ContractBroken(Exception):
    """A violated contract of a component."""


def require(condition: bool | np.bool_, problem: str) -> None:
    """Raise `ContractBroken` unless a condition holds."""
    if not condition:
        raise ContractBroken(problem)


def require_distribution(values: Any, size: int, name: str) -> None:
    """Require a probability distribution of shape (size,)."""
    array = np.asarray(values)
    require(array.shape == (size,), f"{name} must have shape ({size},), got {array.shape}")
    try:
        distribution(array, name)
    except ValueError as error:
        raise ContractBroken(str(error)) from error


def require_cell(cell: Any, name: str, n_cells: int) -> None:
    """Require a valid cell number."""
    valid = 0 <= cell < n_cells and int(cell) == cell
    require(valid, f"{name} must be an integer in [0, {n_cells}), got {cell!r}")


def require_in_order(visits: Iterable[Visit], n_cells: int) -> None:
    """Require visits in order of time, at integer seconds, in cells of the grid."""
    last = None
    for visit in visits:
        require(isinstance(visit, Visit), f"each element must be a Visit, got {visit!r}")
        require(int(visit.time_s) == visit.time_s, f"time_s must be an integer, got {visit.time_s!r}")
        require(last is None or visit.time_s >= last, f"time_s must not decrease, got {visit.time_s} after {last}")
        require_cell(visit.cell, "cell", n_cells)
        last = visit.time_s


def value_of(capability: Capability[ComponentT, ValueT], component: ComponentT) -> ValueT:
    """Return the value of an optional attribute; require that it can be read if it is defined."""
    missing = object()
    defined = inspect.getattr_static(component, capability.name, missing) is not missing
    require(
        not defined or hasattr(component, capability.name),
        f"`{capability.name}` is defined, but reading it raises AttributeError: the default would be used silently",
    )
    return capability.of(component)


def require_flag(capability: Capability[ComponentT, bool], component: ComponentT) -> None:
    """Require an optional attribute that is True or False."""
    value = value_of(capability, component)
    require(isinstance(value, bool | np.bool_), f"`{capability.name}` must be True or False, got {value!r}")


def require_count(capability: Capability[ComponentT, int], component: ComponentT, *, at_least: int = 0) -> int:
    """Require an optional attribute that is an integer of at least `at_least`, and return it."""
    value = value_of(capability, component)
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    require(is_integer, f"`{capability.name}` must be an integer, got {value!r}")
    require(value >= at_least, f"`{capability.name}` must be in [{at_least}, inf), got {value}")
    return value


def require_share(capability: Capability[ComponentT, float], component: ComponentT) -> None:
    """Require an optional attribute that is a number in [0, 1]."""
    value = value_of(capability, component)
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    require(is_number and 0 <= value <= 1, f"`{capability.name}` must be a number in [0, 1], got {value!r}")


def require_callable(capability: Capability[ComponentT, ValueT], component: ComponentT) -> ValueT:
    """Require an optional method; return it, or the default."""
    value = value_of(capability, component)
    require(value is None or callable(value), f"`{capability.name}` must be a method, got {value!r}")
    return value
