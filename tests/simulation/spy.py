"""Search for secrets in all objects that are reachable from an object."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import simpy

from sim.events import Query, Visit
from sim.mobility.traces import Life, Trace
from sim.simulation.attack_log import AttackLog
from sim.simulation.population import Population
from sim.simulation.recorder import SimulationLog
from sim.simulation.user_log import UserLog

LOGS = (SimulationLog, UserLog, AttackLog)
SUSPENDED = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
SECRETS = (Query, Visit, Trace, Life, *LOGS, Population, simpy.Environment, *SUSPENDED)


def reachable(root: Any) -> Iterator[Any]:
    """Yield all objects that are reachable from `root`, as for a debugger, without passing through modules.

    The garbage collector knows the parts of partial functions, bound methods, closures, properties and containers.
    Functions, classes, arrays and weak references need special treatment.
    """
    seen: dict[int, Any] = {}  # holds the objects, so that no id is reused
    stack = [root]
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, types.ModuleType | types.CodeType):
            continue
        seen[id(item)] = item
        yield item
        stack.append(type(item))
        stack += _parts(item)


def _parts(item: Any) -> list[Any]:
    """Return the objects to which an object refers directly."""
    if isinstance(item, types.FunctionType):  # not its globals, which are its module
        state = (item.__closure__, item.__defaults__, item.__kwdefaults__, item.__dict__, item.__annotations__)
        return [part for part in state if part]
    if isinstance(item, type):
        return [*vars(item).values(), *item.__bases__]
    if isinstance(item, weakref.ReferenceType):
        return [item(), *gc.get_referents(item)]
    if isinstance(item, np.ndarray):
        return [item.base, item.tolist() if item.dtype.hasobject else None]
    return gc.get_referents(item)


def secrets(root: Any, traces: Iterable[Trace] = ()) -> list[Any]:
    """Return reachable objects of secret types, and arrays that share memory with a trace."""
    cells = [trace.cells for trace in traces]
    return [
        item
        for item in reachable(root)
        if isinstance(item, SECRETS)
        or (isinstance(item, np.ndarray) and any(np.may_share_memory(item, truth) for truth in cells))
    ]
