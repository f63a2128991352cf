"""Faults of a scenario: one line per fault, all of them reported together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sim.components.wording import one_line
from sim.errors import InputError

Loc = tuple[str | int, ...]
"""A location in the data: keys of mappings and indices of lists, from the root."""

MOST_SHOWN = 50
"""Largest number of faults listed; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a scenario: its place, the path of the value, the problem with its remedy, and a code."""

    where: str
    """``file:line:column``, or another origin such as ``--set``."""
    path: str
    """Dotted path into the scenario; empty for a fault of the file itself."""
    message: str
    """Problem, value found, allowed values and remedy."""
    code: str
    """Stable identifier of the problem, as in `sim.errors.UserError`."""

    def __str__(self) -> str:
        text = ": ".join(part for part in (self.where, self.path, self.message) if part)
        return one_line(f"{text} [{self.code}]")


class Finding(NamedTuple):
    """A fault found in plain data: its place, the problem and the code."""

    loc: Loc
    message: str
    code: str


class ScenarioError(InputError):
    """An invalid scenario; `faults` holds the reasons in the order of the file."""

    code = "invalid-scenario"

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = sorted(dict.fromkeys(faults), key=_place)
        lines = [str(fault) for fault in self.faults[:MOST_SHOWN]]
        if len(self.faults) > MOST_SHOWN:
            lines.append(f"and {len(self.faults) - MOST_SHOWN:,} more faults")
        super().__init__("\n".join(lines))

    @property
    def codes(self) -> list[str]:
        """Return the codes of the faults, in their order."""
        return [fault.code for fault in self.faults]

    def with_code(self) -> str:
        """Return the message; each line of it ends with its own code."""
        return str(self)

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[list[Fault]]]:
        return type(self), (self.faults,)


def _place(fault: Fault) -> tuple[str, int, int]:
    match = re.fullmatch(r"(.*):(\d+):(\d+)", fault.where, re.DOTALL)
    return (match[1], int(match[2]), int(match[3])) if match else (fault.where, 0, 0)


def dotted(loc: Loc) -> str:
    """Return a location as a dotted path.

    >>> dotted(("lppms", 0, "design"))
    'lppms.0.design'
    >>> dotted(("training", "all 0.5"))
    'training."all 0.5"'
    """
    return ".".join(f'"{step}"' if step == "" or "." in str(step) else str(step) for step in loc)
