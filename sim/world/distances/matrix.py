"""Distance matrix from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.errors import InvalidValue, code_of
from sim.interfaces import FloatArray
from sim.world.distance import Distance, MatrixDistance
from sim.world.locations import Locations
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("distance")
class DistanceMatrixParameters(DistanceParameters):
    """Distances in km from a .npy or .csv file with the matrix [from cell, to cell]."""

    is_dense: ClassVar[bool] = True

    kind: Literal["matrix"] = "matrix"
    file: FileName
    """File with the matrix of distances in km, .npy or .csv without a header; one row and one column per cell."""

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between locations."""
        return from_file(place.locate(self.file), locations.n_cells)


def from_file(path: str | Path, n_cells: int) -> Distance:
    """Read a distance from a matrix in km, `.npy` or `.csv` without a header."""
    path = Path(path)
    readers = {".npy": _read_npy, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise InvalidValue(
            f"{path}: a distance file must end in .npy or .csv, got {path.suffix!r}", code="unsupported-format"
        )
    try:
        matrix_km = readers[path.suffix.lower()](path)
        if matrix_km.shape != (n_cells, n_cells):
            raise InvalidValue(
                f"the matrix must have shape {(n_cells, n_cells)}, found {matrix_km.shape}", code="wrong-shape"
            )
        return MatrixDistance(kind="file", matrix_km=matrix_km)
    except (ValueError, EOFError) as error:
        raise InvalidValue(f"{path}: {error}", code=code_of(error, "unreadable-file")) from error


def _read_npy(path: Path) -> FloatArray:
    # Memory-mapped: a header that claims more data than the file has fails before memory is allocated.
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        # NumPy's own message recommends unsafe loading.
        raise InvalidValue("not a .npy file of numbers", code="unreadable-file") from error
    if not isinstance(stored, np.ndarray):
        stored.close()
        raise InvalidValue("must be a single array, found an archive of arrays (.npz)", code="unreadable-file")
    if stored.dtype.kind not in "fiu":
        raise InvalidValue(f"the matrix must have real numbers, found dtype {stored.dtype}", code="invalid-distance")
    return np.array(stored, dtype=np.float64)


def _read_csv(path: Path) -> FloatArray:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    if not any(line.strip() for line in lines):
        raise InvalidValue("the file is empty", code="empty-file")
    try:
        return np.loadtxt(lines, delimiter=",", ndmin=2, dtype=np.float64, comments=None)
    except ValueError as error:
        # The text after the semicolon is advice on arguments of loadtxt.
        raise InvalidValue(str(error).split(";")[0], code="unreadable-file") from error
