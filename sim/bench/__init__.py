"""The benchmark: how near the simulator comes to what the machine allows, as ratios measured within one run."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sim.bench.people import Scale, warm_up
from sim.bench.rows import ROWS, Direction, Row, Skipped, Unit
from sim.inference.kernels import describe

__all__ = ["FULL", "QUICK", "ROWS", "Outcome", "Row", "Scale", "document", "machine", "measure"]

SCHEMA_VERSION = 1

FULL = Scale()
QUICK = Scale(
    rounds=5,
    long_rounds=1,
    em_samples=6,
    memory_users=100,
    lengths=(150, 300, 600, 1200),
    long_designs=("Exp 1/km", "LH 0.6"),
    optimal_shape=None,
    chunks=100,
    simulations=5_000,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row of the table; without figures where it was skipped."""

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
    """None where it was skipped."""
    note: str = ""
    ratio_range: tuple[float, float] | None = None
    """The lowest and the highest ratio of any round of any case."""
    samples: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By case: the figure and the limit of each round."""


def measure(rows: Sequence[Row], scale: Scale, progress: Callable[[Row], None] = lambda _row: None) -> list[Outcome]:
    """Measure rows one after the other."""
    warm_up()
    outcomes = []
    for row in rows:
        progress(row)
        outcomes.append(_outcome(row, scale))
    return outcomes


def _outcome(row: Row, scale: Scale) -> Outcome:
    said: dict[str, Any] = {
        name: getattr(row, name) for name in ("name", "what", "beside", "unit", "direction", "target")
    }
    try:
        found = row.measure(scale)
    except Skipped as reason:
        return Outcome(**said, note=f"skipped: {reason}")
    ratios = row.ratios(found)
    return Outcome(
        **said,
        measured=found.measured,
        limit=found.limit,
        ratio=row.ratio(found),
        met=row.met(found),
        note="; ".join(filter(None, (found.fault, found.note))),
        ratio_range=(min(ratios), max(ratios)),
        samples={
            case: {"measured": list(rounds.measured), "limit": list(rounds.limit)}
            for case, rounds in found.samples.items()
        },
    )


def machine() -> dict[str, Any]:
    """Return where this runs: the figures of another machine are others."""
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
    """Return everything as plain data, for JSON."""
    rows = [asdict(outcome) for outcome in outcomes]
    return {"schema_version": SCHEMA_VERSION, "machine": machine(), "quick": quick, "rows": rows}


def _cpu() -> str:
    """Return the model of the processor, or what little can be told."""
    details = Path("/proc/cpuinfo")
    if details.exists():
        for line in details.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
