"""Import custom components: ``module:Class`` of a local file or an installed package, with permission."""

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

from sim.components.permission import CodeAccess, is_standard_library, top_level
from sim.components.registry import METHODS
from sim.components.suggestions import suggestion
from sim.errors import InputError


class ComponentError(InputError):
    """A custom component cannot be used; the message says why."""


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
"""Exceptions of custom code that are reported as an error of the user's, without a traceback."""


GIVEN = frozenset({"world", "seed", "statistics", "restart_s", "statistics_of"})
"""What the simulator passes to constructors, which no scenario says."""


class Importer:
    """Imports custom modules; owns the folders added to `sys.path` and the fingerprints of what was imported.

    A process has one, `importer`, since `sys.path` and `sys.modules` belong to the process.
    """

    def __init__(self) -> None:
        self._added: frozenset[str] = frozenset()
        self._fingerprints: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()

    def module(self, name: str, access: CodeAccess) -> ModuleType:
        """Import the module of ``module:Class`` from the folders of `access`, else from the environment."""
        if not _NAME.fullmatch(name):
            raise ComponentError(f"a custom component is named module:Class, found {name!r}")
        if is_standard_library(name):
            raise ComponentError(f"{name}: the standard library has no components: name a class of yours")
        access = access.granted()
        access.require([name])
        module_name = name.partition(":")[0]
        if access.only and access.folder_of(name) is None:
            listed = ", ".join(map(str, access.only))
            raise ComponentError(f"{name}: --allow-code permits modules in {listed} only, where {module_name!r} is not")
        self._put_first(access.search_path())
        _refuse_namesake(name, access)
        try:
            module = importlib.import_module(module_name)
        except FAULTS_OF_CODE as error:
            raise ComponentError(
                f"{name}: module {module_name!r} cannot be imported: {error_text(error)}{_searched(error, access)}"
            ) from error
        if module not in self._fingerprints:
            self._fingerprints[module] = _fingerprint(module)
        return module

    def is_stale(self, module: ModuleType) -> bool:
        """Return whether the file of a module has changed since it was imported."""
        return self._fingerprints[module] != _fingerprint(module)

    def _put_first(self, folders: list[str]) -> None:
        """Let `sys.path` begin with these folders, each once, and remove those of an earlier search."""
        rest = [path for path in sys.path if path not in folders and path not in self._added]
        self._added = (self._added & frozenset(folders)) | (frozenset(folders) - frozenset(sys.path))
        if sys.path != [*folders, *rest]:
            sys.path[:] = [*folders, *rest]
            importlib.invalidate_caches()


importer = Importer()


def resolve(name: str, family: str, access: CodeAccess) -> type[Any]:
    """Import the class that ``module:Class`` names, which must have the methods of its family."""
    component = load_class(name, access)
    if missing := [method for method in METHODS[family] if not callable(defined_in(component, method))]:
        raise ComponentError(
            f"{name}: a class of family {family} must define {', '.join(METHODS[family])}; "
            f"{component.__name__} does not define {', '.join(missing)}"
        )
    return component


def load_class(name: str, access: CodeAccess) -> type[Any]:
    """Import the class that ``module:Class`` names, which runs the module's code.

    Raise `CodeNotAllowed` without permission, and `ComponentError` for anything but a class outside the standard
    library.
    """
    module = importer.module(name, access)
    class_name = name.partition(":")[2]
    if not hasattr(module, class_name):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        defined = ", ".join(own) or "nothing"
        raise ComponentError(
            f"{name}: {module.__name__!r} has no {class_name!r}{suggestion(class_name, own)}, it defines {defined}"
        )
    component = getattr(module, class_name)
    if not inspect.isclass(component):
        raise ComponentError(f"{name}: a custom component must be a class, found {_described(component)}")
    if is_standard_library(component.__module__):
        raise ComponentError(
            f"{name}: a custom component must not be a class of the standard library, found "
            f"{component.__module__}.{component.__qualname__}"
        )
    return component


def defined_in(component: type[Any], method: str) -> Any:
    """Return what a class or one of its bases defines under a name, or None.

    Unlike `getattr` this does not take the call of the class itself for a method ``__call__``.
    """
    return next((vars(base)[method] for base in component.__mro__ if method in vars(base)), None)


def _described(value: Any) -> str:
    return "a function" if inspect.isroutine(value) else f"a value of type {type(value).__name__}"


def _refuse_namesake(name: str, access: CodeAccess) -> None:
    """Refuse a module when another one of its name is loaded: Python would silently take that one."""
    package = top_level(name)
    loaded = getattr(sys.modules.get(package), "__file__", None)
    spec = PathFinder.find_spec(package, access.search_path())
    if loaded is None or spec is None or spec.origin is None or Path(spec.origin).resolve() == Path(loaded).resolve():
        return
    raise ComponentError(
        f"{name}: {spec.origin} is meant, but another module {package!r} is loaded, {loaded}: "
        "rename one of them, or restart Python"
    )


def _searched(error: Exception, access: CodeAccess) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return ""
    remedy = "" if access.beside is not None or access.only else "; name its folder with --allow-code FOLDER"
    return f" (looked in {', '.join(access.search_path())} and the environment{remedy})"


def construct(name: str, family: str, access: CodeAccess, /, **parameters: Any) -> Any:
    """Make an instance of ``module:Class`` with the parameters of the scenario and what the simulator gives."""
    component = resolve(name, family, access)
    try:
        return component(**parameters)
    except FAULTS_OF_CODE as error:
        listed = ", ".join(f"{key}={value!r}" for key, value in parameters.items() if key not in GIVEN)
        arguments = f"with {listed}" if listed else "without parameters"
        raise ComponentError(f"{name} raised {type(error).__name__} when made {arguments}: {error}") from error


def error_text(error: Exception) -> str:
    """Return the text of an exception with its type; a ValueError speaks for itself."""
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


def refuse_stale(name: str, access: CodeAccess) -> None:
    """Refuse a ``module:Class`` whose file has changed since it was imported: what runs is not what it says."""
    module = importer.module(name, access)
    if importer.is_stale(module):
        raise ComponentError(f"{name}: {module.__file__} has changed since it was imported: restart Python")


def _fingerprint(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return "" if file is None or not Path(file).is_file() else hashlib.sha256(Path(file).read_bytes()).hexdigest()


def source_file(name: str, access: CodeAccess) -> Path:
    """Return the file that ``module:Class`` is written in, whose changes change what a scenario means."""
    module = importer.module(name, access)
    component = getattr(module, name.partition(":")[2], module)
    try:
        return Path(inspect.getfile(component))
    except TypeError as error:
        raise ComponentError(f"{name}: it has no source file: {error}") from error
