"""Measure rows, and describe the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.people import warm_up
from benchmarks.scale import Scale
from benchmarks.targets import Direction, Row, Skipped, Unit
from sim.inference.kernels import describe

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row of the table; without values if it was skipped."""

    name: str
    what: str
    beside: str
    unit: Unit
    direction: Direction
    target: float
    measured: float | None = None
    limit: float | None = None
    ratio: float | None = None
    met: bool | None = None
    """None if the row was skipped."""
    note: str = ""
    ratio_range: tuple[float, float] | None = None
    """Minimum and maximum ratio over all rounds of all cases."""
    samples: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Measured value and limit of each round, by case."""


def measure(
    rows: Sequence[Row], scale: Scale, progress: Callable[[Row], None] = lambda _row: None, *, long: bool = True
) -> Iterator[Outcome]:
    """Measure rows one after the other; yield each as soon as it is measured. Without `long`, skip long rows."""
    warm_up()
    for row in rows:
        progress(row)
        yield _outcome(row, scale, skip=row.long and not long)


def _outcome(row: Row, scale: Scale, *, skip: bool = False) -> Outcome:
    description: dict[str, Any] = {
        "name": row.name,
        "what": row.what,
        "beside": row.beside,
        "unit": row.unit,
        "direction": row.direction,
        "target": row.target,
    }
    try:
        if skip:
            raise Skipped("takes many minutes; name the row to measure it")
        measurement = row.measure(scale)
    except Skipped as reason:
        return Outcome(**description, note=f"skipped: {reason}")
    ratios = row.ratios(measurement)
    return Outcome(
        **description,
        measured=measurement.measured,
        limit=measurement.limit,
        ratio=row.ratio(measurement),
        met=row.met(measurement),
        note="; ".join(filter(None, (measurement.fault, measurement.note))),
        ratio_range=(min(ratios), max(ratios)),
        samples={
            case: {"measured": list(rounds.measured), "limit": list(rounds.limit)}
            for case, rounds in measurement.samples.items()
        },
    )


def machine() -> dict[str, Any]:
    """Return a description of this machine."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "not set"),
        "kernels": describe(),
    }


def document(outcomes: Sequence[Outcome], *, quick: bool) -> dict[str, Any]:
    """Return outcomes and machine as plain data for JSON."""
    rows = [asdict(outcome) for outcome in outcomes]
    return {"schema_version": SCHEMA_VERSION, "machine": machine(), "quick": quick, "rows": rows}


def _cpu() -> str:
    """Return the model of the processor, or its architecture if unknown."""
    details = Path("/proc/cpuinfo")
    if details.exists():
        for line in details.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
