"""Command-line values with a unit."""

from __future__ import annotations

import math
import re

import click


class Quantity(click.ParamType[float]):
    """A number with a unit, such as 0.3km, 500m, 30d or 95%."""

    def __init__(self, name: str, units: dict[str, float], example: str) -> None:
        self.name = name
        self._units, self._example = units, example

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """Return the number in the first unit."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z%]*)\s*", str(value).lower())
        if match is None or match[2] not in self._units or not (number := float(match[1]) * self._units[match[2]]):
            message = f"found {value!r}, expected a positive number with a unit, such as {self._example}"
            self.fail(message, parameter, context)
        if not math.isfinite(number):
            self.fail(f"found {value!r}, which is too large", parameter, context)
        return number


KM = Quantity("distance", {"km": 1.0, "": 1.0, "m": 0.001}, "0.3km or 300m")
DAYS = Quantity("days", {"d": 1.0, "": 1.0, "w": 7.0, "h": 1 / 24}, "30d")
SHARE = Quantity("share", {"%": 0.01, "": 1.0}, "95%")
