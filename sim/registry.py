"""Which kinds of components there are, and how other people's are found."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pickle
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

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
    short = {name: _knowledge(parts) for name, parts in protection.SHORT_ATTACKS.items()}
    identifications = {name: _model(parts) for name, parts in protection.SHORT_IDENTIFICATIONS.items()}
    families["attack"] = ("attacks", short | {"face-value": line(protection.FaceValueSpec)} | identifications)
    return families


def _composition(parts: dict[str, Any]) -> str:
    remap = "" if parts["design"].get("remap", True) else ", without remap"
    full = ", which learns from real cells" if parts.get("learns_from") == "cells" else ""
    return f"Short for belief {parts['belief']['kind']}{full} with design {parts['design']['kind']}{remap}."


def _knowledge(parts: dict[str, Any]) -> str:
    whose = "the user's own statistics of the test (worst case)" if parts["knows"] == "test" else "training statistics"
    attack = "Most likely path" if parts.get("decides") == "path" else "Optimal attack"
    past = ", with hindsight" if "hindsight" in parts else ""
    return f"{attack} with belief {parts['belief']['kind']} and {whose}{past}."


def _model(parts: dict[str, Any]) -> str:
    return f"Tells which user is behind a pseudonym and where she is, by {parts['model']} models of all users."


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


GIVEN = frozenset({"world", "seed", "statistics", "restart_s", "statistics_of"})
"""What the simulator passes to constructors, which no scenario says."""


class _Search:
    """Where modules are looked for besides the environment, and what was put into `sys.path` for it."""

    beside: Path | None = None
    added: frozenset[str] = frozenset()


_as_imported: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()


def search_in(folder: Path) -> None:
    """Look for modules in a scenario's folder too, after the current one; the folder said before is forgotten."""
    _Search.beside = folder.resolve()


def folders() -> list[str]:
    """Return where modules are looked for before the environment: the current folder, then the scenario's."""
    return list(dict.fromkeys(str(folder) for folder in (Path.cwd(), _Search.beside) if folder is not None))


def resolve(name: str) -> Any:
    """Import ``module:Class``, which runs the module's code: from `folders`, else from the environment."""
    if not _NAME.fullmatch(name):
        raise ComponentError(f"a component of one's own is called module:Class, found {name!r}")
    module_name, _, class_name = name.partition(":")
    _put_first(folders())
    _refuse_namesake(name, module_name.partition(".")[0])
    try:
        module = importlib.import_module(module_name)
    except FAULTS_OF_CODE as error:
        raise ComponentError(
            f"{name}: module {module_name!r} cannot be imported: {told(error)}{_looked_in(error)}"
        ) from error
    if module not in _as_imported:
        _as_imported[module] = _fingerprint(module)
    if not hasattr(module, class_name):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        found = ", ".join(own) or "nothing"
        raise ComponentError(
            f"{name}: {module_name!r} has no {class_name!r}{suggestion(class_name, own)}, it defines {found}"
        )
    return getattr(module, class_name)


def _put_first(wanted: list[str]) -> None:
    """Let `sys.path` begin with these folders, each once, and take out those of an earlier search."""
    rest = [path for path in sys.path if path not in wanted and path not in _Search.added]
    _Search.added = (_Search.added & frozenset(wanted)) | (frozenset(wanted) - frozenset(sys.path))
    if sys.path != [*wanted, *rest]:
        sys.path[:] = [*wanted, *rest]
        importlib.invalidate_caches()


def _refuse_namesake(name: str, package: str) -> None:
    """Refuse a module when another one of its name is loaded: Python would silently take that one."""
    loaded = getattr(sys.modules.get(package), "__file__", None)
    spec = PathFinder.find_spec(package, folders())
    if loaded is None or spec is None or spec.origin is None or Path(spec.origin).resolve() == Path(loaded).resolve():
        return
    raise ComponentError(
        f"{name}: {spec.origin} is meant, but another module {package!r} is loaded, {loaded}: "
        "rename one of them, or start Python anew"
    )


def _looked_in(error: Exception) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return f" (looked in {', '.join(folders())} and the environment)"


def construct(name: str, /, **parameters: Any) -> Any:
    """Make an instance of ``module:Class`` with the parameters of the scenario and what the simulator gives."""
    make = resolve(name)
    try:
        return make(**parameters)
    except FAULTS_OF_CODE as error:
        said = ", ".join(f"{key}={value!r}" for key, value in parameters.items() if key not in GIVEN)
        made = f"with {said}" if said else "without parameters"
        raise ComponentError(f"{name} raised {type(error).__name__} when made {made}: {error}") from error


def told(error: Exception) -> str:
    """Say what code raised; a ValueError speaks for itself."""
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


def refuse_stale(name: str) -> None:
    """Refuse a ``module:Class`` whose file has changed since it was imported: what runs is not what it says."""
    resolve(name)
    module = sys.modules[name.partition(":")[0]]
    if _as_imported[module] != _fingerprint(module):
        raise ComponentError(f"{name}: {module.__file__} has changed since it was imported: start Python anew")


def _fingerprint(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return "" if file is None or not Path(file).is_file() else hashlib.sha256(Path(file).read_bytes()).hexdigest()


def source_file(name: str) -> Path:
    """Return the file that ``module:Class`` is written in, whose changes change what a scenario means."""
    found = resolve(name)
    try:
        return Path(inspect.getfile(found))
    except TypeError as error:
        raise ComponentError(f"{name}: it has no source file: {error}") from error
