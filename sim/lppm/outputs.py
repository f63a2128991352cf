"""Output spaces: what the outputs of a mechanism stand for, where they are not the cells of the grid.

In the event log an output is a whole number. These say which cells, regions, sets or places it stands for, and are
written into the manifest, from which `read` makes them again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sim.interfaces import Design, DesignCapabilities, OutputSpace
from sim.world.grid import Grid

_M_PER_KM = 1000
_HALF = 2**25
_MOST = 2**53
"""Below this a number survives as a float, which readers of a column with gaps make of it."""


@dataclass(frozen=True)
class Cells:
    """Every output is a cell: what holds unless a mechanism says otherwise."""

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
        """Return what the manifest says."""
        return {"kind": self.kind}


@dataclass(frozen=True)
class CellsOrNothing:
    """An output is a cell, or the one after the last cell: no report at all."""

    n_cells: int
    kind = "cells_or_nothing"

    @property
    def nothing(self) -> int:
        """The output that stands for no report."""
        return self.n_cells

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cell, or none."""
        return () if output == self.n_cells else (output,)

    def shown_at(self, output: int) -> int:
        """Return the cell, or -1."""
        return -1 if output == self.n_cells else output

    def describe(self) -> dict[str, Any]:
        """Return what the manifest says."""
        return {"kind": self.kind}


@dataclass(frozen=True)
class Regions:
    """An output is one of some regions, each a set of cells; a map shows it at its centre."""

    regions: tuple[tuple[int, ...], ...]
    centres: tuple[int, ...]
    kind = "regions"
    nothing = None

    def __post_init__(self) -> None:
        if len(self.regions) != len(self.centres):
            raise ValueError(f"every region has a centre, got {len(self.regions)} and {len(self.centres)}")

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cells of the region."""
        return self.regions[output]

    def shown_at(self, output: int) -> int:
        """Return the centre of the region."""
        return self.centres[output]

    def describe(self) -> dict[str, Any]:
        """Return what the manifest says."""
        return {"kind": self.kind, "regions": [list(cells) for cells in self.regions], "centres": list(self.centres)}


@dataclass(frozen=True)
class Sets:
    """An output is a set of `size` different cells, numbered by the combinatorial number system.

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
            raise ValueError(f"there are more than 2^53 sets of {self.size} of {self.n_cells} cells: take smaller ones")

    @cached_property
    def count(self) -> int:
        """How many such sets there are."""
        return math.comb(self.n_cells, self.size)

    def output(self, cells: Sequence[int]) -> int:
        """Return the number of a set of cells, given in any order."""
        return sum(math.comb(cell, place) for place, cell in enumerate(sorted(cells), start=1))

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cells of the set, in order."""
        found: list[int] = []
        cell, rest = self.n_cells, output
        for place in range(self.size, 0, -1):
            cell -= 1
            while math.comb(cell, place) > rest:
                cell -= 1
            rest -= math.comb(cell, place)
            found.append(cell)
        return tuple(reversed(found))

    def shown_at(self, output: int) -> int:  # noqa: ARG002 - no cell of a set is more its place than another
        """Return -1: a set has no place."""
        return -1

    def describe(self) -> dict[str, Any]:
        """Return what the manifest says."""
        coded = "sum over the cells c_1 < c_2 < ... of the set of binomial(c_i, i)"
        return {"kind": self.kind, "size": self.size, "output": coded}


@dataclass(frozen=True)
class Points:
    """An output is a place, to the metre: both its coordinates in one number.

    >>> space = Points(Grid.rectangle(rows=1, cols=2, width_km=2.0, height_km=1.0))
    >>> space.place_km(space.output(1.2344, -3.0))
    (1.234, -3.0)
    """

    grid: Grid
    kind = "points"
    nothing = None
    count = 4 * _HALF**2
    """How many such places there are."""

    def output(self, x_km: float, y_km: float) -> int:
        """Return the number of the place nearest to this one, which lies up to 33,000 km from the corner."""
        east, north = (min(max(round(km * _M_PER_KM) + _HALF, 0), 2 * _HALF - 1) for km in (x_km, y_km))
        return north * 2 * _HALF + east

    def place_km(self, output: int) -> tuple[float, float]:
        """Return the place in km east and north of the south-west corner of the grid."""
        north, east = divmod(output, 2 * _HALF)
        return (east - _HALF) / _M_PER_KM, (north - _HALF) / _M_PER_KM

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cell it lies in, or outside the grid the nearest one."""
        return (self.shown_at(output),)

    def shown_at(self, output: int) -> int:
        """Return the cell it lies in, or outside the grid the nearest one."""
        x_km, y_km = self.place_km(output)
        grid = self.grid
        inside = min(max(x_km, 0.0), grid.width_km), min(max(y_km, 0.0), grid.height_km)
        return int(grid.cell_of_km(*inside))

    def describe(self) -> dict[str, Any]:
        """Return what the manifest says."""
        return {"kind": self.kind, "step_m": 1, "output": "(north_m + 2^25) 2^26 + east_m + 2^25"}


def described(by_point: Mapping[int, Any]) -> Any:
    """Return what a manifest says of a mechanism whose space may be another one at other points of a sweep.

    >>> described({0: {"kind": "sets", "size": 2}, 1: {"kind": "sets", "size": 2}})
    {'kind': 'sets', 'size': 2}
    >>> described({0: "cells", 1: {"kind": "sets", "size": 2}})["kind"]
    'by_point'
    """
    spaces: list[dict[str, Any]] = []
    for point, said in sorted(by_point.items()):
        same = next((entry for entry in spaces if entry["space"] == said), None)
        if same is None:
            spaces.append({"points": [point], "space": said})
        else:
            same["points"].append(point)
    return spaces[0]["space"] if len(spaces) == 1 else {"kind": "by_point", "spaces": spaces}


def read(described: dict[str, Any] | str, grid: Grid, point: int = 0) -> OutputSpace:
    """Return the output space that a manifest describes, at one point of its sweep."""
    said: dict[str, Any] = {"kind": described} if isinstance(described, str) else described
    match said["kind"]:
        case "by_point":
            return read(next(one["space"] for one in said["spaces"] if point in one["points"]), grid)
        case "cells":
            return Cells(grid.n_cells)
        case "cells_or_nothing":
            return CellsOrNothing(grid.n_cells)
        case "regions":
            return Regions(tuple(map(tuple, said["regions"])), tuple(said["centres"]))
        case "sets":
            return Sets(grid.n_cells, said["size"])
        case "points":
            return Points(grid)
    raise ValueError(f"no output space is called {said['kind']!r}")


def output_space(design: Design, n_cells: int) -> OutputSpace:
    """Return what the outputs of a design stand for: its own space, or the cells."""
    return DesignCapabilities.space.of(design) or Cells(n_cells)
