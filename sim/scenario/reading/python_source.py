"""Data of a scenario given in Python instead of a file."""

from __future__ import annotations

from typing import Literal

from sim.scenario.reading.faults import Loc
from sim.scenario.reading.source import Source


class PythonSource(Source):
    """Data of a scenario given in Python; `name` is the function that received them, which faults name as their place.

    >>> PythonSource(name="make_scenario", data={"seed": -1}).where(("seed",))
    'make_scenario'
    """

    __slots__ = ()

    def where(self, loc: Loc, of: Literal["value", "key"] = "value") -> str:
        """Return the setting that changed a value, or the name of the function."""
        changed = any(loc[:length] in self.origins for length in range(len(loc) + 1))
        return super().where(loc, of) if changed else self.name
