"""Stop a case that writes outside its folder, starts a process or imports a module that its input names.

Python audit hooks cannot be removed, so one hook per process consults the sandbox in force, if any. It raises before
the operation takes place: a hostile input that gets through does no harm.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOSTILE_MODULES = frozenset({"evil", "evil_package", "antigravity", "this", "turtledemo", "ensurepip", "wsgiref"})
"""Modules that no part of lppm-sim needs: an import of one can only come from the input."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PROCESSES = frozenset({"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile"})
_CHANGES = frozenset(
    {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
)


class EscapeError(BaseException):
    """A case did something that no input may bring about; not an `Exception`, so that nobody catches it."""


class _State:
    folder: str | None = None
    installed = False
    escape: str = ""


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _State.folder is None:
        return
    if event == "exec":  # what runs when a module is imported; the event "import" misses `importlib.import_module`
        _refuse_code(getattr(args[0], "co_filename", ""))
    elif event in _PROCESSES:
        _refuse(f"starts a process ({event})")
    elif event == "open":
        path, _, flags = args
        if isinstance(flags, int) and flags & _WRITING:
            _refuse_outside(path, "writes")
    elif event in _CHANGES:
        _refuse_outside(args[0], event)
        if event == "os.rename":
            _refuse_outside(args[1], event)


def _refuse_code(file: str) -> None:
    """Refuse code that lies in the case's folder or belongs to a module that nobody but the input can have named."""
    if file.startswith("<"):
        return  # made by a library, such as the constructor of a named tuple
    names = {part.removesuffix(".py") for part in Path(file).parts}
    if names & HOSTILE_MODULES or os.path.realpath(file).startswith(f"{_State.folder}{os.sep}"):
        _refuse(f"imports the module {Path(file).name}")


def _refuse_outside(path: Any, what: str) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
        return  # a file descriptor that is open already
    name = os.path.realpath(os.fsdecode(path))
    if name == os.devnull or "__pycache__" in name:
        return
    if not name.startswith(f"{_State.folder}{os.sep}") and name != _State.folder:
        _refuse(f"{what} outside its folder: {name}")


def _refuse(what: str) -> None:
    _State.escape = what
    raise EscapeError(what)


@contextmanager
def sandbox(folder: Path) -> Iterator[None]:
    """Confine what happens inside to a folder; an escape is raised even if somebody swallowed it meanwhile."""
    if not _State.installed:
        sys.addaudithook(_hook)
        _State.installed = True
    _State.folder, _State.escape = os.path.realpath(folder), ""
    path_before = list(sys.path)
    try:
        yield
    finally:
        _State.folder = None
        sys.path[:] = path_before
        for name in [name for name in sys.modules if name.partition(".")[0] in HOSTILE_MODULES]:
            del sys.modules[name]
    if _State.escape:
        raise EscapeError(_State.escape)
