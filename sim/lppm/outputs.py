"""Output spaces: the meaning of a mechanism's outputs if they are not cells.

In the event log an output is an integer. An output space maps it to a cell, region, set of cells or point. Spaces are
written to the manifest, and `read` restores them from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sim.errors import InvalidValue
from sim.interfaces import Design, DesignCapabilities, OutputSpace
from sim.world.locations import Locations

_M_PER_KM = 1000
_HALF = 2**25
_MOST = 2**53
"""Integers below this are exact as floats, to which some readers convert a column with missing values."""


@dataclass(frozen=True)
class Cells:
    """Every output is a cell (the default)."""

    n_cells: int
    kind = "cells"
    nothing = None

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cell."""
        return (output,)

    def shown_at(self, output: int) -> int:
        """Return the cell."""
        return output

    def describe(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {"kind": self.kind}


@dataclass(frozen=True)
class CellsOrNothing:
    """An output is a cell, or `n_cells` if nothing was reported."""

    n_cells: int
    kind = "cells_or_nothing"

    @property
    def nothing(self) -> int:
        """The output that means no report."""
        return self.n_cells

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cell; empty if nothing was reported."""
        return () if output == self.n_cells else (output,)

    def shown_at(self, output: int) -> int:
        """Return the cell; -1 if nothing was reported."""
        return -1 if output == self.n_cells else output

    def describe(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {"kind": self.kind}


@dataclass(frozen=True)
class Regions:
    """An output is a region, which is a set of cells; maps show it at its centre cell."""

    regions: tuple[tuple[int, ...], ...]
    centres: tuple[int, ...]
    kind = "regions"
    nothing = None

    def __post_init__(self) -> None:
        if len(self.regions) != len(self.centres):
            raise ValueError(
                f"centres must have one entry per region, got {len(self.centres)} for {len(self.regions)} regions"
            )

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cells of the region."""
        return self.regions[output]

    def shown_at(self, output: int) -> int:
        """Return the centre cell of the region."""
        return self.centres[output]

    def describe(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {"kind": self.kind, "regions": [list(cells) for cells in self.regions], "centres": list(self.centres)}


@dataclass(frozen=True)
class Sets:
    """An output is a set of `size` distinct cells, numbered by the combinatorial number system.

    >>> space = Sets(n_cells=5, size=2)
    >>> space.output([3, 1]), space.cells(4)
    (4, (1, 3))
    """

    n_cells: int
    size: int
    kind = "sets"
    nothing = None

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.n_cells:
            raise ValueError(f"size must be in [1, {self.n_cells}], the number of cells, got {self.size}")
        if self.count >= _MOST:
            raise InvalidValue(
                f"size must give fewer than 2^53 sets, got {self.size} of {self.n_cells} cells: choose a smaller size",
                code="too-many-outputs",
            )

    @cached_property
    def count(self) -> int:
        """Number of sets."""
        return math.comb(self.n_cells, self.size)

    def output(self, cells: Sequence[int]) -> int:
        """Return the number of a set of cells, given in any order."""
        return sum(math.comb(cell, place) for place, cell in enumerate(sorted(cells), start=1))

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cells of the set in increasing order."""
        members: list[int] = []
        cell, rest = self.n_cells, output
        for place in range(self.size, 0, -1):
            cell -= 1
            while math.comb(cell, place) > rest:
                cell -= 1
            rest -= math.comb(cell, place)
            members.append(cell)
        return tuple(reversed(members))

    def shown_at(self, output: int) -> int:  # noqa: ARG002 - a set has no position
        """Return -1: a set has no position on a map."""
        return -1

    def describe(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        encoding = "sum over the cells c_1 < c_2 < ... of the set of binomial(c_i, i)"
        return {"kind": self.kind, "size": self.size, "output": encoding}


@dataclass(frozen=True)
class Points:
    """An output is a point in the plane, rounded to metres, with both coordinates encoded in one integer.

    >>> from sim.world import Grid
    >>> space = Points(Grid.rectangle(rows=1, cols=2, width_km=2.0, height_km=1.0))
    >>> space.place_km(space.output(1.2344, -3.0))
    (1.234, -3.0)
    """

    locations: Locations
    kind = "points"
    nothing = None
    count = 4 * _HALF**2
    """Number of points."""

    def output(self, x_km: float, y_km: float) -> int:
        """Return the number of the point nearest to these coordinates, within 33,000 km of the south-west corner."""
        east, north = (min(max(round(km * _M_PER_KM) + _HALF, 0), 2 * _HALF - 1) for km in (x_km, y_km))
        return north * 2 * _HALF + east

    def place_km(self, output: int) -> tuple[float, float]:
        """Return the coordinates in km east and north of the south-west corner."""
        north, east = divmod(output, 2 * _HALF)
        return (east - _HALF) / _M_PER_KM, (north - _HALF) / _M_PER_KM

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cell that contains the point, or the nearest one."""
        return (self.shown_at(output),)

    def shown_at(self, output: int) -> int:
        """Return the cell that contains the point, or the nearest one."""
        return int(self.locations.nearest(*self.place_km(output)))

    def describe(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {"kind": self.kind, "step_m": 1, "output": "(north_m + 2^25) 2^26 + east_m + 2^25"}


@dataclass(frozen=True)
class Places:
    """An output is one of the places in a list, which may lie between the centres of cells or outside the grid.

    >>> from sim.world import Grid
    >>> space = Places(Grid.rectangle(rows=1, cols=2, width_km=2.0, height_km=1.0), x_km=(1.0, 2.5), y_km=(0.5, 0.5))
    >>> space.place_km(1), space.shown_at(1)
    ((2.5, 0.5), 1)
    """

    locations: Locations
    x_km: tuple[float, ...]
    """Coordinates of the places in km east of the south-west corner."""
    y_km: tuple[float, ...]
    """Coordinates of the places in km north of the south-west corner."""
    kind = "places"
    nothing = None

    def __post_init__(self) -> None:
        if len(self.x_km) != len(self.y_km):
            raise ValueError(
                f"x_km and y_km must have one entry per place, got {len(self.x_km)} and {len(self.y_km)} entries"
            )

    @property
    def count(self) -> int:
        """Number of places."""
        return len(self.x_km)

    def place_km(self, output: int) -> tuple[float, float]:
        """Return the coordinates in km east and north of the south-west corner."""
        return self.x_km[output], self.y_km[output]

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cell that contains the place, or the nearest one."""
        return (self.shown_at(output),)

    def shown_at(self, output: int) -> int:
        """Return the cell that contains the place, or the nearest one."""
        return int(self.locations.nearest(*self.place_km(output)))

    def describe(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {"kind": self.kind, "x_km": list(self.x_km), "y_km": list(self.y_km)}


def described(by_point: Mapping[int, Any]) -> Any:
    """Return the manifest entry of a mechanism whose output space may differ between sweep points.

    >>> described({0: {"kind": "sets", "size": 2}, 1: {"kind": "sets", "size": 2}})
    {'kind': 'sets', 'size': 2}
    >>> described({0: "cells", 1: {"kind": "sets", "size": 2}})["kind"]
    'by_point'
    """
    spaces: list[dict[str, Any]] = []
    for point, space in sorted(by_point.items()):
        same = next((entry for entry in spaces if entry["space"] == space), None)
        if same is None:
            spaces.append({"points": [point], "space": space})
        else:
            same["points"].append(point)
    return spaces[0]["space"] if len(spaces) == 1 else {"kind": "by_point", "spaces": spaces}


def read(described: dict[str, Any] | str, locations: Locations, point: int = 0) -> OutputSpace:
    """Return the output space that a manifest describes at one sweep point."""
    entry: dict[str, Any] = {"kind": described} if isinstance(described, str) else described
    if entry["kind"] == "by_point":
        return read(next(one["space"] for one in entry["spaces"] if point in one["points"]), locations)
    readers: dict[str, Callable[[], OutputSpace]] = {
        "cells": lambda: Cells(locations.n_cells),
        "cells_or_nothing": lambda: CellsOrNothing(locations.n_cells),
        "regions": lambda: Regions(tuple(map(tuple, entry["regions"])), tuple(entry["centres"])),
        "sets": lambda: Sets(locations.n_cells, entry["size"]),
        "points": lambda: Points(locations),
        "places": lambda: Places(locations, tuple(entry["x_km"]), tuple(entry["y_km"])),
    }
    if entry["kind"] not in readers:
        raise ValueError(f"unknown output space {entry['kind']!r}")
    return readers[entry["kind"]]()


def output_space(design: Design, n_cells: int) -> OutputSpace:
    """Return the output space of a design (default: the cells)."""
    return DesignCapabilities.space.of(design) or Cells(n_cells)
