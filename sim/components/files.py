"""Files that a scenario names: relative to the folder of the scenario, or ``data:NAME`` in the data folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, Field, ValidationInfo

from sim.components.permission import CodeAccess
from sim.components.wording import shown
from sim.errors import InvalidValue

PREFIX = "data:"
VARIABLE = "LPPM_SIM_DATA"


class Place(NamedTuple):
    """The folders in which a scenario finds its files and custom components."""

    folder: Path = Path()
    """Folder that file names are relative to."""
    data: Path | None = None
    """Folder of the files named ``data:NAME``."""
    code: CodeAccess = CodeAccess()
    """Whether and from where custom components may be imported."""

    def locate(self, name: str) -> Path:
        """Return the path of a file named in a scenario; raise InvalidValue if it does not exist."""
        return locate(name, folder=self.folder, data=self.data)

    def absolute(self) -> Place:
        """Return the same folders as absolute paths, for a process with another current folder."""
        beside = self.code.beside
        code = replace(self.code, beside=None if beside is None else beside.absolute())
        return Place(self.folder.absolute(), None if self.data is None else self.data.absolute(), code)


def data_folder(data: Path | None = None) -> Path | None:
    """Return the folder of real data sets: `data`, else the value of ``LPPM_SIM_DATA``, else None."""
    if data is not None:
        return data
    return Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def locate(name: str, *, folder: Path, data: Path | None) -> Path:
    """Return the path of a file named in a scenario; raise InvalidValue with a remedy if it does not exist.

    A name is relative to the folder of the scenario; ``data:NAME`` is in the data folder (``--data``, or the
    environment variable ``LPPM_SIM_DATA``).
    """
    if name.startswith(PREFIX):
        if data is None:
            raise InvalidValue(
                f"{name!r} is in the folder of real data sets, which is unknown: "
                f"pass it with --data DIR or set {VARIABLE}",
                code="no-data-folder",
            )
        path = data / name.removeprefix(PREFIX)
    else:
        path = folder / name
    try:
        exists, is_folder = path.is_file(), path.is_dir()
    except OSError as error:  # for example, a name that is too long
        raise InvalidValue(f"cannot access file {shown(name)}: {error.strerror}", code="file-error") from error
    if not exists:
        problem = "is a folder" if is_folder else "does not exist"
        raise InvalidValue(f"file {name!r} {problem} (looked for {path})", code="file-not-found")
    return path


def _exists(name: str, info: ValidationInfo) -> str:
    context = info.context or {}
    if "folder" in context:
        locate(name, folder=context["folder"], data=context.get("data"))
    return name


_CHECKED = AfterValidator(_exists)
FileName = Annotated[str, Field(min_length=1), _CHECKED]


def parts_of(model: BaseModel) -> Iterator[BaseModel]:
    """Yield a model and, recursively, every model in it."""
    yield model
    for name in type(model).model_fields:
        value = getattr(model, name)
        elements = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        for part in elements:
            if isinstance(part, BaseModel):
                yield from parts_of(part)


def files_of(model: BaseModel) -> Iterator[str]:
    """Yield the name of every file that a model or one of its parts reads."""
    for part in parts_of(model):
        yield from (
            getattr(part, name) for name, field in type(part).model_fields.items() if _CHECKED in field.metadata
        )
