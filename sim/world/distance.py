"""Distances between cells: d_P and d_Q of the paper."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.interfaces import FloatArray
from sim.world.grid import Grid

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distance:
    """How far it is from any cell to any other.

    >>> manhattan(Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0)).matrix_km[0].tolist()
    [0.0, 1.0, 2.0]
    """

    kind: str
    matrix_km: FloatArray
    """[from cell, to cell], shape (n_cells, n_cells), finite, at least 0, 0 on the diagonal; read-only."""
    shape: tuple[int, int] | None = None
    """(rows, cols) if and only if this is Manhattan on a full grid: then two weighted medians remap."""

    def __post_init__(self) -> None:
        matrix_km = np.array(self.matrix_km, dtype=np.float64)
        if matrix_km.ndim != 2 or matrix_km.shape[0] != matrix_km.shape[1]:
            raise ValueError(f"matrix_km must have shape (n_cells, n_cells), got {matrix_km.shape}")
        _check_values(matrix_km)
        if (self.kind == "manhattan") != (self.shape is not None):
            raise ValueError(f"shape is for 'manhattan' alone, got {self.kind!r} with shape {self.shape}")
        if self.shape is not None and self.shape[0] * self.shape[1] != len(matrix_km):
            raise ValueError(f"shape must have {len(matrix_km)} cells as matrix_km has, got {self.shape}")
        matrix_km.flags.writeable = False
        object.__setattr__(self, "matrix_km", matrix_km)

    @property
    def n_cells(self) -> int:
        """Return the number of cells."""
        return len(self.matrix_km)

    @property
    def axes_km(self) -> tuple[FloatArray, FloatArray]:
        """Return the distances between the rows and between the columns of a Manhattan grid."""
        if self.shape is None:
            raise ValueError(f"distance must be Manhattan on a full grid, got kind {self.kind!r} without shape")
        cols = self.shape[1]
        return self.matrix_km[::cols, ::cols], self.matrix_km[:cols, :cols]


def manhattan(grid: Grid) -> Distance:
    """Return the distance of the paper's experiments: along the grid's two axes."""
    return Distance(kind="manhattan", matrix_km=np.abs(_east(grid)) + np.abs(_north(grid)), shape=grid.shape)


def euclidean(grid: Grid) -> Distance:
    """Return the distance as the crow flies."""
    return Distance(kind="euclidean", matrix_km=np.hypot(_east(grid), _north(grid)))


def road(grid: Grid, roads: Roads) -> Distance:
    """Return the shortest way by road, which one-way streets make longer one way than the other.

    From a cell's centre straight to the nearest node, by road to the node nearest to the other cell's centre,
    and straight to that centre. Never less than the crow flies, so that two cells with the same nearest node
    are not at the same place.
    """
    node = roads.nearest_node(grid.x_km, grid.y_km)
    access_km = np.hypot(grid.x_km - roads.x_km[node], grid.y_km - roads.y_km[node])
    distinct, position = np.unique(node, return_inverse=True)
    by_road_km = roads.distances_km(distinct)[:, node][position]
    way_km = access_km[:, None] + by_road_km + access_km[None, :]
    matrix_km = np.maximum(way_km, np.hypot(_east(grid), _north(grid)))
    np.fill_diagonal(matrix_km, 0.0)
    return Distance(kind="road", matrix_km=matrix_km)


def semantic(labels: Sequence[str], *, apart_km: float = 1.0) -> Distance:
    """Return how different the places are in kind: 0 between cells of one label, `apart_km` where nothing is shared.

    A label may be a path in a tree of kinds, such as ``food/pizza``: what two labels share counts from the root,
    d = apart_km (1 - shared steps / steps of the longer one). Semantic location privacy: Ağır et al. 2016.

    >>> semantic(["home", "food/pizza", "food/sushi"]).matrix_km[1].tolist()
    [1.0, 0.0, 0.5]
    """
    if not 0.0 < apart_km < np.inf:
        raise ValueError(f"apart_km must be in (0, inf), got {apart_km}")
    kinds, kind_of = np.unique(np.asarray(labels, dtype=np.str_), return_inverse=True)
    paths = [str(kind).split("/") for kind in kinds]
    shared = [[_steps_shared(one, other) / max(len(one), len(other)) for other in paths] for one in paths]
    between = apart_km * (1.0 - np.array(shared))
    return Distance(kind="semantic", matrix_km=between[np.ix_(kind_of, kind_of)])


def _steps_shared(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(takewhile(bool, map(eq, one, other)))


def read_labels(path: str | Path, n_cells: int) -> list[str]:
    """Return the label of each cell from a CSV file with a header, `cell,label`, and a line for each cell."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        if [name.strip() for name in header] != ["cell", "label"]:
            raise ValueError(f"{path}: the first line must be cell,label, found {','.join(header)!r}")
        found: dict[int, str] = {}
        for fields in filter(None, lines):
            where = f"{path}, line {lines.line_num}"
            cell = _cell(fields, n_cells, where)
            if cell in found:
                raise ValueError(f"{where}: cell {cell} has a label already, {found[cell]!r}")
            found[cell] = fields[1].strip()
    if missing := [cell for cell in range(n_cells) if cell not in found]:
        raise ValueError(f"{path}: every cell needs a label, found none of cell {missing[0]} ({len(missing)} such)")
    return [found[cell] for cell in range(n_cells)]


def _cell(fields: Sequence[str], n_cells: int, where: str) -> int:
    said = fields[0].strip()
    if len(fields) != 2 or not fields[1].strip():
        raise ValueError(f"{where}: must be a cell and its label, found {','.join(fields)!r}")
    if not (said.isascii() and said.isdigit() and int(said) < n_cells):
        raise ValueError(f"{where}: a cell must be a whole number in [0, {n_cells - 1}], found {said!r}")
    return int(said)


def from_file(path: str | Path, n_cells: int) -> Distance:
    """Return the distance stored as a matrix in km, `.npy` or `.csv` without a header."""
    path = Path(path)
    readers = {".npy": _read_npy, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: a distance file must end in .npy or .csv, got {path.suffix!r}")
    try:
        matrix_km = readers[path.suffix.lower()](path)
        if matrix_km.shape != (n_cells, n_cells):
            raise ValueError(f"the matrix must have shape {(n_cells, n_cells)}, found {matrix_km.shape}")
        return Distance(kind="file", matrix_km=matrix_km)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: {error}") from error


def _check_values(matrix_km: FloatArray) -> None:
    bad = ~(np.isfinite(matrix_km) & (matrix_km >= 0.0))
    off_diagonal = np.diag(np.diag(matrix_km) != 0.0)
    for fault, rule in ((bad, "be in [0, inf)"), (off_diagonal, "be 0 on the diagonal")):
        if fault.any():
            start, end = np.argwhere(fault)[0]
            value = matrix_km[start, end]
            raise ValueError(
                f"distances must {rule}, found {value} from cell {start} to cell {end} ({fault.sum()} such)"
            )


def _read_npy(path: Path) -> FloatArray:
    # Mapped, not read: a header that claims more than the file holds is refused before memory is taken.
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        # numpy's own words advise to load it unsafely.
        raise ValueError("this is no .npy file of plain numbers") from error
    if not isinstance(stored, np.ndarray):
        raise ValueError("a single array is wanted, found an archive of arrays (.npz)")
    if stored.dtype.kind not in "fiu":
        raise ValueError(f"the matrix must hold real numbers, found dtype {stored.dtype}")
    return np.array(stored, dtype=np.float64)


def _read_csv(path: Path) -> FloatArray:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    if not any(line.strip() for line in lines):
        raise ValueError("the file is empty")
    try:
        return np.loadtxt(lines, delimiter=",", ndmin=2, dtype=np.float64, comments=None)
    except ValueError as error:
        raise ValueError(str(error).split(";")[0]) from error  # what follows speaks to programmers


def _east(grid: Grid) -> FloatArray:
    return grid.x_km[None, :] - grid.x_km[:, None]


def _north(grid: Grid) -> FloatArray:
    return grid.y_km[None, :] - grid.y_km[:, None]
