"""A search for secrets in everything that can be reached from an object."""

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
    """Yield all objects that can be reached from one, as a debugger could, without passing through modules.

    Partial functions, bound methods, cells of closures, properties and containers refer to their parts in a way that
    the garbage collector knows. Functions, classes, arrays and weak references need a closer look.
    """
    seen: dict[int, Any] = {}  # holds the objects, so that no number is used twice
    stack = [root]
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, types.ModuleType | types.CodeType):
            continue
        seen[id(thing)] = thing
        yield thing
        stack.append(type(thing))
        stack += _parts(thing)


def _parts(thing: Any) -> list[Any]:
    """Return the objects to which one refers directly."""
    if isinstance(thing, types.FunctionType):  # not its globals, which are its module
        state = (thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__, thing.__annotations__)
        return [part for part in state if part]
    if isinstance(thing, type):
        return [*vars(thing).values(), *thing.__bases__]
    if isinstance(thing, weakref.ReferenceType):
        return [thing(), *gc.get_referents(thing)]
    if isinstance(thing, np.ndarray):
        return [thing.base, thing.tolist() if thing.dtype.hasobject else None]
    return gc.get_referents(thing)


def secrets(root: Any, traces: Iterable[Trace] = ()) -> list[Any]:
    """Return what of an object's reach is secret by its type, or is an array that shares memory with a trace."""
    cells = [trace.cells for trace in traces]
    return [
        thing
        for thing in reachable(root)
        if isinstance(thing, SECRETS)
        or (isinstance(thing, np.ndarray) and any(np.may_share_memory(thing, truth) for truth in cells))
    ]
