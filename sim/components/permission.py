"""Permission to import custom components.

A scenario file is data. A kind ``module:Class`` in it requests that code be run, which requires consent from outside
the file: ``--allow-code`` on the command line, the environment variable ``LPPM_SIM_ALLOW_CODE``, or ``allow_code`` in
Python. This module never imports a custom component.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path

from sim.errors import InputError

VARIABLE = "LPPM_SIM_ALLOW_CODE"

AllowCode = bool | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""True or False, or the only folders from which custom components may be imported."""

_NO = frozenset({"", "0", "no", "false", "off"})
_YES = frozenset({"1", "yes", "true", "on"})


class CodeNotAllowed(InputError):
    """Raised if a scenario names custom components and permission to import them (`allow_code`) was not given."""

    code = "code-not-allowed"

    def __init__(self, names: Iterable[str], access: CodeAccess | None = None) -> None:
        access = access or CodeAccess()
        self.names = sorted(names)
        listed = "\n".join(f"  {name}  ({access.located(name)})" for name in self.names)
        super().__init__(
            f"this scenario runs custom code, which requires your permission:\n{listed}\n"
            "If you trust this code, repeat the command with --allow-code, or with --allow-code FOLDER to import from "
            f"that folder only. In scripts set {VARIABLE}=1 or pass allow_code=True in Python."
        )


@dataclass(frozen=True, slots=True)
class CodeAccess:
    """Permission to import custom components, and the folders that are searched for them."""

    allowed: bool | None = None
    """Whether imports are permitted; None: the environment variable decides."""
    only: tuple[Path, ...] = ()
    """If not empty, the only folders to import from."""
    beside: Path | None = None
    """Folder of the scenario file, searched after the current folder; None for a scenario from a manifest."""

    def granted(self, allow_code: AllowCode | None = None) -> CodeAccess:
        """Return this access with the caller's decision or, if there is none yet, that of the environment variable."""
        if allow_code is None:
            return self if self.allowed is not None else self._from_environment()
        if isinstance(allow_code, bool):
            return replace(self, allowed=allow_code, only=())
        folders = [allow_code] if isinstance(allow_code, str | os.PathLike) else allow_code
        return replace(self, allowed=True, only=tuple(_existing_folder(folder) for folder in folders))

    def _from_environment(self) -> CodeAccess:
        text = os.environ.get(VARIABLE, "").strip()
        if text.lower() in _NO:
            return self
        return self.granted(True if text.lower() in _YES else [folder for folder in text.split(os.pathsep) if folder])

    def search_path(self) -> list[str]:
        """Return the folders that are searched before the installed packages."""
        folders = self.only or tuple(folder for folder in (Path.cwd(), self.beside) if folder is not None)
        return list(dict.fromkeys(str(folder.resolve()) for folder in folders))

    def located(self, name: str) -> str:
        """Return the file from which ``module:Class`` would be imported, determined without importing it."""
        if is_standard_library(name):
            return "the Python standard library, never allowed"
        if (file := self._file_of(name, self.search_path())) is not None:
            return str(file)
        installed = None if self.only else self._file_of(name, None)
        return "not found" if installed is None else f"installed: {installed}"

    def folder_of(self, name: str) -> Path | None:
        """Return the folder on the search path that contains the module of ``module:Class``, or None.

        A package without ``__init__.py`` does not count, since Python prefers an installed package of the same name.
        """
        file = self._file_of(name, self.search_path())
        if file is None or not file.is_file():
            return None
        return file.parent.parent if file.stem == "__init__" else file.parent

    @staticmethod
    def _file_of(name: str, folders: list[str] | None) -> Path | None:
        spec = PathFinder.find_spec(top_level(name), folders)
        if spec is None:
            return None
        origin = spec.origin or next((f"{folder}/__init__.py" for folder in spec.submodule_search_locations or ()), "")
        return Path(origin)

    def require(self, names: Iterable[str]) -> None:
        """Raise `CodeNotAllowed` if these components may not be imported."""
        if (listed := list(names)) and not self.granted().allowed:
            raise CodeNotAllowed(listed, self)


def top_level(name: str) -> str:
    """Return the package of ``module:Class``, or of a module.

    >>> top_level("shop.designs:Rounding")
    'shop'
    """
    return name.partition(":")[0].partition(".")[0]


def is_standard_library(name: str) -> bool:
    """Return whether a module, or the module of ``module:Class``, is part of the Python standard library.

    >>> is_standard_library("os:system"), is_standard_library("os.path:join"), is_standard_library("numpy:ndarray")
    (True, True, False)
    """
    return top_level(name) in sys.stdlib_module_names or top_level(name) in sys.builtin_module_names


def _existing_folder(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder)
    if not os.fspath(folder) or not path.is_dir():
        problem = "empty name" if not os.fspath(folder) else "is a file" if path.exists() else "does not exist"
        raise InputError(
            f"--allow-code must be a folder with custom components, found {str(folder)!r}: {problem}",
            code="folder-not-found",
        )
    return path.resolve()
