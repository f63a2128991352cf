"""The scenario that candidates are compared in: recorded traces of a file, or synthetic commuters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim.choice.request import Request
from sim.components.wording import counted
from sim.errors import InputError, InvalidValue, input_errors
from sim.interfaces import FloatArray
from sim.mobility.recorded.columns import MissingColumns
from sim.mobility.recorded.extents import Visits, read_visits
from sim.mobility.recorded.importable import converted, import_command

USERS, QUERIES = 20, 100
"""Default number of users, and largest number of queries of each in the comparison."""
MOST_WORK = 160_000
"""Largest product of cells and queries of a user, which limits the time of a comparison."""
FEWEST_CELLS = 400
"""Number of cells that is always allowed."""
_LEAST_CELL_M, _FEWEST_VISITS, _REPLICATIONS = 100, 20, 4
_CORE = (0.01, 0.99)
_SHORT_S, _PERIOD_S = 300, 600
_KM_PER_DEGREE = 111.2
_RECORD: dict[str, Any] = {"snapshots": []}


@dataclass(frozen=True, slots=True)
class Base:
    """The data of a scenario without mechanisms and attacks, and remarks on how they were chosen."""

    data: dict[str, Any]
    remarks: tuple[str, ...]


def synthetic(request: Request, *, users: int = USERS, cell_km: float | None = None) -> Base:
    """Return commuters in a town of 10 x 10 km with generated roads, whose past of two weeks is training data."""
    days = 14 if request.kind != "hide-home" else math.ceil(request.target) + 7
    side_km = 10.0
    per_hour = round(QUERIES / (24 * 14), 2)
    size = CellSize.given(cell_km) if cell_km else CellSize.fitting(request, side_km**2, 24 * per_hour * days)
    cells = max(round(side_km / size.km), 1)
    grid = {"kind": "rectangle", "rows": cells, "cols": cells, "width_km": side_km, "height_km": side_km}
    population = {
        "count": users,
        "mobility": "commuters",
        "demand": {"kind": "poisson", "per_hour": per_hour},
        "past_days": 14,
        "days": days,
    }
    remark = f"{users} synthetic commuters in a town of 10 x 10 km, {days} days, {24 * per_hour:.0f} queries a day"
    data = {"world": {"grid": grid, "roads": "lattice"}, "users": population}
    return Base(
        data | {"replications": _REPLICATIONS, "record": _RECORD},
        (remark, size.remark(cells, cells, side_km / cells)),
    )


def recorded(file: Path, request: Request, *, users: int = USERS, cell_km: float | None = None) -> Base:
    """Return a replay of a trace file: its most active users, the first half of each trace as training data."""
    visits = _visits(file)
    if request.kind == "hide-home" and not visits.timed:
        raise InputError(
            f"{file} has an order of visits but no times, and days until a home is known need times: use --max-loss or "
            "--min-error, or a file with times",
            code="times-missing",
        )
    south, north, west, east, outside = _region(visits)
    height_km = (north - south) * _KM_PER_DEGREE
    width_km = (east - west) * _KM_PER_DEGREE * math.cos(math.radians((south + north) / 2))
    counts = np.sort(visits.counts(_inside(visits, (south, north, west, east))))[::-1]
    if counts.size == 0 or counts[0] < _FEWEST_VISITS:
        raise InputError(
            f"{file}: a comparison needs users with at least {_FEWEST_VISITS} visits, found at most "
            f"{0 if counts.size == 0 else counts[0]}",
            code="too-few-visits",
        )
    queries = counts[:users].mean() / 2 if request.kind == "hide-home" else QUERIES
    size = CellSize.given(cell_km) if cell_km else CellSize.fitting(request, width_km * height_km, queries)
    rows, cols = max(round(height_km / size.km), 1), max(round(width_km / size.km), 1)
    grid = {"kind": "region", "rows": rows, "cols": cols, "south": south, "north": north, "west": west, "east": east}
    active = max(int(counts[min(users, counts.size) - 1]), _FEWEST_VISITS)
    chosen = min(users, int((counts >= active).sum()))
    mobility = {"kind": "replay", "file": str(file), "select": {"min_visits": active, "first": users}}
    frequent = visits.timed and visits.median_gap_s() < _SHORT_S
    population: dict[str, Any] = {"mobility": mobility, "past_share": 0.5}
    if request.kind != "hide-home":
        population["queries"] = QUERIES
    if frequent:
        population["demand"] = {"kind": "periodic", "period_s": _PERIOD_S}
    remarks = [
        f"{chosen} of {counted(counts.size, 'user')} with visits: those with at least "
        f"{active:,}; the first half of each trace is training data",
        size.remark(rows, cols, math.sqrt(width_km * height_km / (rows * cols))),
    ]
    if outside > 0:
        remarks.append(f"the region leaves out {100 * outside:.2g} % of the rows, far from the others")
    if frequent:
        remarks.append("the file has points every few minutes or seconds: one query every 10 minutes")
    data = {"world": {"grid": grid}, "users": population, "replications": _REPLICATIONS, "record": _RECORD}
    return Base(data, tuple(remarks))


def _visits(file: Path) -> Visits:
    """Read a trace file; raise InputError with the command that names its columns if they are not recognised."""
    with input_errors("--data"):
        try:
            return read_visits(file)
        except InvalidValue as error:
            if not isinstance(error.__cause__, MissingColumns):
                raise
            missing = error.__cause__
            command = import_command(file, missing.guesses)
            raise InputError(
                f"--data: {file}: {missing.problem}; name the columns with `{command}` and --data {converted(file)}",
                code="no-such-column",
            ) from error


@dataclass(frozen=True, slots=True)
class CellSize:
    """The size of cells, and the reason for it."""

    km: float
    reason: str

    @classmethod
    def given(cls, km: float) -> CellSize:
        """Return a size that the user has chosen."""
        return cls(km, "as given")

    @classmethod
    def fitting(cls, request: Request, area_km2: float, queries: float) -> CellSize:
        """Return half the distance of the goal, unless the comparison would take too long or cells be tiny."""
        name = "radius" if request.kind == "hide-home" else "goal"
        half_km = request.distance_km / 2
        most_cells = max(MOST_WORK / queries, FEWEST_CELLS)
        finest_km = math.sqrt(area_km2 / most_cells)
        if finest_km > max(half_km, _LEAST_CELL_M / 1000):
            half = f"half the {name} of {1000 * request.distance_km:g} m needs more than {most_cells:,.0f} cells"
            return cls(finest_km, f"{half}, with which the comparison takes minutes; --cell sets another size")
        if half_km < _LEAST_CELL_M / 1000:
            return cls(_LEAST_CELL_M / 1000, f"the smallest by default, more than half the {name}")
        return cls(half_km, f"half the {name}")

    def remark(self, rows: int, cols: int, side_km: float) -> str:
        """Return a remark on the cells, with the size of those of a whole grid."""
        return f"{rows} x {cols} cells of about {1000 * side_km:.0f} m ({self.reason})"


def _region(visits: Visits) -> tuple[float, float, float, float, float]:
    """Return the region of almost all visits, and the share of the rows outside it."""
    bounds: list[float] = []
    for values in (visits.lat, visits.lon):
        low, high = np.quantile(values, _CORE)
        margin = max(0.05 * (high - low), 0.005)
        bounds += [float(np.floor((low - margin) * 1e4) / 1e4), float(np.ceil((high + margin) * 1e4) / 1e4)]
    south, north, west, east = bounds
    return south, north, west, east, float(1 - _inside(visits, (south, north, west, east)).mean())


def _inside(visits: Visits, box: tuple[float, float, float, float]) -> FloatArray:
    south, north, west, east = box
    inside = (visits.lat >= south) & (visits.lat < north) & (visits.lon >= west) & (visits.lon < east)
    return np.asarray(inside, dtype=float)
