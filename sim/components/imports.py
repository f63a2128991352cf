"""Import of custom components: ``module:Class`` in a local file or an installed package, with permission."""

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
from sim.errors import InputError, code_of


class ComponentError(InputError):
    """A custom component that cannot be used."""

    code = "invalid-component"


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
"""Exceptions of custom code that are reported as user errors, without a traceback."""


GIVEN = frozenset({"world", "seed", "statistics", "restart_s", "statistics_of"})
"""Arguments that the simulator passes to constructors; scenarios do not contain them."""


class Importer:
    """Importer of custom modules: owns the folders added to `sys.path` and the fingerprints of imported files.

    A process has one instance, `importer`, since `sys.path` and `sys.modules` belong to the process.
    """

    def __init__(self) -> None:
        self._added: frozenset[str] = frozenset()
        self._fingerprints: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()

    def module(self, name: str, access: CodeAccess) -> ModuleType:
        """Import the module of ``module:Class`` from the folders of `access`, else from the environment."""
        if not _NAME.fullmatch(name):
            raise ComponentError(
                f"a custom component must have the form module:Class, found {name!r}", code="invalid-class-name"
            )
        if is_standard_library(name):
            raise ComponentError(
                f"{name}: a custom component must not be part of the Python standard library",
                code="standard-library-class",
            )
        access = access.granted()
        access.require([name])
        module_name = name.partition(":")[0]
        if access.only and access.folder_of(name) is None:
            listed = ", ".join(map(str, access.only))
            raise ComponentError(
                f"{name}: --allow-code permits modules in {listed} only, which does not contain {module_name!r}",
                code="code-not-allowed",
            )
        self._put_first(access.search_path())
        _reject_name_conflict(name, access)
        try:
            module = importlib.import_module(module_name)
        except FAULTS_OF_CODE as error:
            raise ComponentError(
                f"{name}: module {module_name!r} cannot be imported: {error_text(error)}{_searched(error, access)}",
                code="class-not-importable",
            ) from error
        if module not in self._fingerprints:
            self._fingerprints[module] = _fingerprint(module)
        return module

    def is_stale(self, module: ModuleType) -> bool:
        """Return whether the file of a module has changed since it was imported."""
        return self._fingerprints[module] != _fingerprint(module)

    def _put_first(self, folders: list[str]) -> None:
        """Put these folders, each once, at the start of `sys.path`; remove those of an earlier search."""
        rest = [path for path in sys.path if path not in folders and path not in self._added]
        self._added = (self._added & frozenset(folders)) | (frozenset(folders) - frozenset(sys.path))
        if sys.path != [*folders, *rest]:
            sys.path[:] = [*folders, *rest]
            importlib.invalidate_caches()


importer = Importer()


def resolve(name: str, family: str, access: CodeAccess) -> type[Any]:
    """Import the class ``module:Class`` and check that it has the methods of its family."""
    component = load_class(name, access)
    if missing := [method for method in METHODS[family] if not callable(defined_in(component, method))]:
        raise ComponentError(
            f"{name}: a class of family {family} must define {', '.join(METHODS[family])}; "
            f"{component.__name__} does not define {', '.join(missing)}",
            code="missing-method",
        )
    return component


def load_class(name: str, access: CodeAccess) -> type[Any]:
    """Import the class ``module:Class``, which runs the code of the module.

    Raise `CodeNotAllowed` without permission, and `ComponentError` if the name does not denote a class or denotes one
    of the standard library.
    """
    module = importer.module(name, access)
    class_name = name.partition(":")[2]
    if not hasattr(module, class_name):
        defined = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        raise ComponentError(
            f"{name}: module {module.__name__!r} has no {class_name!r}{suggestion(class_name, defined)}; "
            f"it defines {', '.join(defined) or 'nothing'}",
            code="unknown-class",
        )
    component = getattr(module, class_name)
    if not inspect.isclass(component):
        found_type = "a function" if inspect.isroutine(component) else f"a value of type {type(component).__name__}"
        raise ComponentError(f"{name}: a custom component must be a class, found {found_type}", code="not-a-class")
    if is_standard_library(component.__module__):
        raise ComponentError(
            f"{name}: a custom component must not be part of the Python standard library, found "
            f"{component.__module__}.{component.__qualname__}",
            code="standard-library-class",
        )
    return component


def defined_in(component: type[Any], method: str) -> Any:
    """Return the attribute that a class or one of its bases defines under this name, or None.

    Unlike `getattr`, this does not return the metaclass's ``__call__`` for a class without that method.
    """
    return next((vars(base)[method] for base in component.__mro__ if method in vars(base)), None)


def _reject_name_conflict(name: str, access: CodeAccess) -> None:
    """Raise ComponentError if another module of the same name is loaded: Python would silently use that one."""
    package = top_level(name)
    loaded = getattr(sys.modules.get(package), "__file__", None)
    spec = PathFinder.find_spec(package, access.search_path())
    if loaded is None or spec is None or spec.origin is None or Path(spec.origin).resolve() == Path(loaded).resolve():
        return
    raise ComponentError(
        f"{name}: expected module {package!r} from {spec.origin}, but another module of this name is loaded from "
        f"{loaded}: rename one of them, or restart Python",
        code="module-name-conflict",
    )


def _searched(error: Exception, access: CodeAccess) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return ""
    remedy = "" if access.beside is not None or access.only else "; pass its folder with --allow-code FOLDER"
    return f" (looked in {', '.join(access.search_path())} and the environment{remedy})"


def construct(name: str, family: str, access: CodeAccess, /, **parameters: Any) -> Any:
    """Construct an instance of ``module:Class`` with the parameters of the scenario and of the simulator."""
    component = resolve(name, family, access)
    try:
        return component(**parameters)
    except FAULTS_OF_CODE as error:
        listed = ", ".join(f"{key}={value!r}" for key, value in parameters.items() if key not in GIVEN)
        arguments = f"with {listed}" if listed else "without parameters"
        raise ComponentError(
            f"{name} raised {type(error).__name__} when constructed {arguments}: {error}",
            code=code_of(error, "component-failed"),
        ) from error


def error_text(error: Exception) -> str:
    """Return the message of an exception, preceded by its type unless it is a ValueError."""
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


def refuse_stale(name: str, access: CodeAccess) -> None:
    """Raise ComponentError if the file of ``module:Class`` has changed since it was imported."""
    module = importer.module(name, access)
    if importer.is_stale(module):
        raise ComponentError(
            f"{name}: {module.__file__} has changed since it was imported: restart Python", code="stale-module"
        )


def _fingerprint(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return "" if file is None or not Path(file).is_file() else hashlib.sha256(Path(file).read_bytes()).hexdigest()


def source_file(name: str, access: CodeAccess) -> Path:
    """Return the source file of ``module:Class``, which is part of the definition of a scenario."""
    module = importer.module(name, access)
    component = getattr(module, name.partition(":")[2], module)
    try:
        return Path(inspect.getfile(component))
    except TypeError as error:
        raise ComponentError(f"{name}: no source file: {error}", code="no-source-file") from error
