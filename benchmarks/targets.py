"""Row of the benchmark: the metric, its limit, and the target for their ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.scale import Scale
from benchmarks.timing import Samples

Direction = Literal["at_most", "at_least"]
Unit = Literal["s", "bytes", "exponent"]


class Skipped(Exception):
    """Raised with the reason by a row that cannot be measured on this machine."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measured value, its limit, and the samples of both."""

    measured: float
    limit: float
    samples: Mapping[str, Samples] = field(default_factory=dict)
    note: str = ""
    fault: str = ""
    """Reason why the value does not count: the result is less precise than the row requires."""


@dataclass(frozen=True, slots=True)
class Row:
    """Row with a target for measured / limit (`at_most`), or for limit / measured (`at_least`)."""

    name: str
    what: str
    beside: str
    direction: Direction
    target: float
    unit: Unit
    measure: Callable[[Scale], Measurement]
    long: bool = False
    """Whether the row takes so long that it is measured only if it is named, or with less work."""

    def ratio(self, result: Measurement) -> float:
        """Return the ratio that the target refers to."""
        return result.measured / result.limit if self.direction == "at_most" else result.limit / result.measured

    def ratios(self, result: Measurement) -> list[float]:
        """Return the ratio of every round of every case."""
        pairs = [pair for rounds in result.samples.values() for pair in zip(rounds.measured, rounds.limit, strict=True)]
        return [self.ratio(Measurement(*pair)) for pair in pairs] or [self.ratio(result)]

    def met(self, result: Measurement) -> bool:
        """Return whether the target is met by a result that is precise enough."""
        ratio = self.ratio(result)
        return not result.fault and (ratio <= self.target if self.direction == "at_most" else ratio >= self.target)
