"""Distances from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.interfaces import FloatArray
from sim.world.distance import Distance
from sim.world.grid import Grid
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("distance")
class DistanceMatrixParameters(DistanceParameters):
    """Distances in km from a file: .npy or .csv, [from cell, to cell]."""

    kind: Literal["matrix"] = "matrix"
    file: FileName
    """The file, one row and one column for each cell."""

    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between the cells of a grid."""
        return from_file(place.locate(self.file), grid.n_cells)


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
