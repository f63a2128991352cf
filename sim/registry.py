"""Which kinds of components there are, and how other people's are found."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re
import sys
from pathlib import Path
from typing import Any

from sim.errors import InputError
from sim.scenario import protection
from sim.scenario.did_you_mean import suggestion
from sim.scenario.reference import UNIONS, kinds, line


def listing() -> dict[str, tuple[str, dict[str, str]]]:
    """Return every family with its place in a scenario and its kinds, one line each."""
    families = {
        family: (place, {kind: line(spec) for kind, spec in kinds(family).items()})
        for family, (place, _) in UNIONS.items()
    }
    families["lppm"] = ("lppms", {name: _composition(parts) for name, parts in protection.SHORT_LPPMS.items()})
    families["attack"] = ("attacks", {name: _knowledge(parts) for name, parts in protection.SHORT_ATTACKS.items()})
    return families


def _composition(parts: dict[str, dict[str, Any]]) -> str:
    remap = "" if parts["design"].get("remap", True) else ", without remap"
    return f"Short for belief {parts['belief']['kind']} with design {parts['design']['kind']}{remap}."


def _knowledge(parts: dict[str, Any]) -> str:
    whose = "the user's own statistics of the test (worst case)" if parts["knows"] == "test" else "training statistics"
    return f"Optimal attack with belief {parts['belief']['kind']} and {whose}."


class ComponentError(InputError):
    """One's own component cannot be used; says why."""


_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

FAULTS_OF_CODE: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    pickle.PickleError,
    RuntimeError,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What somebody's own code may raise when it is wrong: told as a message, for it is hers to mend."""


def resolve(name: str) -> Any:
    """Import ``module:Class``. This runs the module's code. The current folder is searched first."""
    if not _NAME.fullmatch(name):
        raise ComponentError(f"a component of one's own is called module:Class, found {name!r}")
    module_name, _, class_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except FAULTS_OF_CODE as error:
        raise ComponentError(f"{name}: module {module_name!r} cannot be imported: {told(error)}") from error
    if not hasattr(module, class_name):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        found = ", ".join(own) or "nothing"
        raise ComponentError(
            f"{name}: {module_name!r} has no {class_name!r}{suggestion(class_name, own)}, it defines {found}"
        )
    return getattr(module, class_name)


def construct(name: str, /, **parameters: Any) -> Any:
    """Make an instance of ``module:Class`` with the parameters of the scenario."""
    make = resolve(name)
    try:
        return make(**parameters)
    except FAULTS_OF_CODE as error:
        raise ComponentError(f"{name}: cannot be made from {sorted(parameters)}: {told(error)}") from error


def told(error: Exception) -> str:
    """Say what code raised; a ValueError speaks for itself."""
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


def source_file(name: str) -> Path:
    """Return the file that ``module:Class`` is written in, whose changes change what a scenario means."""
    found = resolve(name)
    try:
        return Path(inspect.getfile(found))
    except TypeError as error:
        raise ComponentError(f"{name}: it has no source file: {error}") from error
