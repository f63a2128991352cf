"""Compilation of the kernels with numba: decorators and argument types.

The inner loops of a kernel run over the last axis of an array, so that the compiler can use vector instructions
without reordering sums. A kernel calls only functions of its own file: numba's cache does not detect changes in others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba import types

Function = TypeVar("Function", bound=Callable[..., Any])

VECTOR, MATRIX = (types.Array(types.float64, axes, "C", readonly=True) for axes in (1, 2))
CELLS = types.Array(types.int64, 1, "C", readonly=True)
PLACES = types.Array(types.int64, 2, "C", readonly=True)
CELLS_32 = types.Array(types.int32, 1, "C", readonly=True)
FLAGS = types.Array(types.boolean, 1, "C", readonly=True)
NEW_VECTOR, NEW_CELLS = (types.Array(item, 1, "C") for item in (types.float64, types.int64))
"""Arrays that a kernel fills in: passing one costs a third of returning a new one."""


def kernel(*arguments: types.Type) -> Callable[[Function], Function]:
    """Compile a function for these argument types, or load the code that an earlier process has compiled."""
    return cast(Callable[[Function], Function], numba.njit([arguments], cache=True, error_model="numpy"))


def part(function: Function) -> Function:
    """Compile a function together with the kernels that call it."""
    return cast(Function, numba.njit(error_model="numpy")(function))
