"""What is wrong with a scenario: one line per fault, all of them at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sim.components.wording import one_line
from sim.errors import InputError

Loc = tuple[str | int, ...]
"""A place in the data: keys of mappings and indices of lists, from the top."""

MOST_SHOWN = 50
"""Of more faults, the others are counted."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where it stands, which part of the scenario it is, and what to do."""

    where: str
    """``file:line:column``, or what else brought it in, such as ``--set``."""
    path: str
    """Dotted path into the scenario; empty where the fault is about the file itself."""
    message: str

    def __str__(self) -> str:
        return one_line(": ".join(part for part in (self.where, self.path, self.message) if part))


class ScenarioError(InputError):
    """A scenario cannot be used; `faults` says why, in the order in which they stand in the file."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = sorted(dict.fromkeys(faults), key=_place)
        lines = [str(fault) for fault in self.faults[:MOST_SHOWN]]
        if len(self.faults) > MOST_SHOWN:
            lines.append(f"and {len(self.faults) - MOST_SHOWN:,} more faults")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[list[Fault]]]:
        return type(self), (self.faults,)


def _place(fault: Fault) -> tuple[str, int, int]:
    match = re.fullmatch(r"(.*):(\d+):(\d+)", fault.where, re.DOTALL)
    return (match[1], int(match[2]), int(match[3])) if match else (fault.where, 0, 0)


def dotted(loc: Loc) -> str:
    """Write a place as people type it.

    >>> dotted(("lppms", 0, "design"))
    'lppms.0.design'
    >>> dotted(("training", "all 0.5"))
    'training."all 0.5"'
    """
    return ".".join(f'"{step}"' if step == "" or "." in str(step) else str(step) for step in loc)
