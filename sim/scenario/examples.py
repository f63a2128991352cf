"""Scenarios that are shipped with the package, named ``example:NAME`` on the command line and in `sim.load`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sim.components.files import PREFIX
from sim.components.suggestions import suggestion
from sim.errors import InputError

EXAMPLE = "example:"
"""Prefix of the name of a shipped scenario."""

_FOLDERS = ("", "field/")
"""Folders with scenarios for users; the others belong to a command or to a page of the documentation."""


@dataclass(frozen=True, slots=True)
class Example:
    """A shipped scenario."""

    name: str
    """Path below the folder of examples, without suffix."""
    path: Path

    @property
    def description(self) -> str:
        """Return the description that the scenario gives of itself."""
        match = re.search(r"^description: (.+)$", self.path.read_text(encoding="utf-8"), re.MULTILINE)
        return match[1].strip("'\"") if match else ""

    def files(self) -> list[str]:
        """Return the names of the shipped files that the scenario reads, relative to its folder."""
        names = re.findall(r"\bfile: ([^,}\s]+)", self.path.read_text(encoding="utf-8"))
        return [name for name in names if not name.startswith(PREFIX) and (self.path.parent / name).is_file()]


def examples_folder() -> Path:
    """Return the folder of shipped scenarios: inside an installed package, or `scenarios` of a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "examples", package.parent / "scenarios"):
        if (folder / "sporadic_checkins.yaml").is_file():
            return folder
    raise InputError("the shipped scenarios are missing: reinstall lppm-sim", code="examples-missing")


def examples() -> list[Example]:
    """Return all shipped scenarios in alphabetical order, topics in subfolders last."""
    root = examples_folder()
    paths = [path for folder in _FOLDERS for path in sorted((root / folder).glob("*.yaml"))]
    return [Example(path.relative_to(root).with_suffix("").as_posix(), path) for path in paths]


def example(name: str) -> Example:
    """Return the shipped scenario with a name; raise InputError for an unknown one.

    >>> example("taxi_5min").path.name
    'taxi_5min.yaml'
    """
    by_name = {one.name: one for one in examples()}
    if name not in by_name:
        raise InputError(
            f"unknown example {name!r}{suggestion(name, list(by_name))}; available: {', '.join(by_name)}",
            code="unknown-example",
        )
    return by_name[name]


def example_path(path: str | Path) -> Path | None:
    """Return the path of the scenario that ``example:NAME`` refers to, or None for a name without the prefix."""
    name = str(path)
    return example(name.removeprefix(EXAMPLE)).path if name.startswith(EXAMPLE) else None
