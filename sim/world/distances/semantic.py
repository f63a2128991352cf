"""Semantic distance: difference between the categories of cells."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.errors import InvalidValue
from sim.world.distance import Distance, MatrixDistance
from sim.world.locations import Locations
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("distance")
class SemanticDistanceParameters(DistanceParameters):
    """Difference between the categories of cells: 0 between equal labels, `apart_km` between unrelated labels."""

    is_dense: ClassVar[bool] = True

    kind: Literal["semantic"] = "semantic"
    labels: FileName
    """CSV file with the header cell,label and one line per cell. A label may be a path such as food/pizza."""
    apart_km: Annotated[float, Field(gt=0, le=1e5)] = 1.0
    """Distance in km between unrelated labels; labels with a common beginning are proportionally closer."""

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between locations."""
        return semantic(read_labels(place.locate(self.labels), locations.n_cells), apart_km=self.apart_km)


def semantic(labels: Sequence[str], *, apart_km: float = 1.0) -> Distance:
    """Return the difference between the categories of cells, given one label per cell.

    A label may be a path in a tree of categories, such as ``food/pizza``. The distance of two labels is
    apart_km (1 - shared / longest), where `shared` is the number of common steps from the root and `longest` the
    number of steps of the longer path. Semantic location privacy: Ağır et al. 2016.

    >>> semantic(["home", "food/pizza", "food/sushi"]).matrix_km[1].tolist()
    [1.0, 0.0, 0.5]
    """
    kinds, kind_of = np.unique(np.asarray(labels, dtype=np.str_), return_inverse=True)
    paths = [str(kind).split("/") for kind in kinds]
    shared = [[_steps_shared(one, other) / max(len(one), len(other)) for other in paths] for one in paths]
    between = apart_km * (1.0 - np.array(shared))
    return MatrixDistance(kind="semantic", matrix_km=between[np.ix_(kind_of, kind_of)])


def _steps_shared(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(takewhile(bool, map(eq, one, other)))


def read_labels(path: str | Path, n_cells: int) -> list[str]:
    """Read the label of each cell from a CSV file with the header `cell,label` and one line per cell."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        if [name.strip() for name in header] != ["cell", "label"]:
            raise InvalidValue(
                f"{path}: the first line must be cell,label, found {','.join(header)!r}", code="no-such-column"
            )
        labels: dict[int, str] = {}
        for fields in filter(None, lines):
            where = f"{path}, line {lines.line_num}"
            cell = _cell(fields, n_cells, where)
            if cell in labels:
                raise InvalidValue(
                    f"{where}: cell {cell} already has the label {labels[cell]!r}", code="duplicate-entry"
                )
            labels[cell] = fields[1].strip()
    if missing := [cell for cell in range(n_cells) if cell not in labels]:
        others = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise InvalidValue(
            f"{path}: every cell must have a label, found none for cell {missing[0]}{others}", code="missing-label"
        )
    return [labels[cell] for cell in range(n_cells)]


def _cell(fields: Sequence[str], n_cells: int, where: str) -> int:
    number = fields[0].strip()
    if len(fields) != 2 or not fields[1].strip():
        raise InvalidValue(f"{where}: must be a cell and its label, found {','.join(fields)!r}", code="invalid-row")
    if not (number.isascii() and number.isdigit() and int(number) < n_cells):
        raise InvalidValue(
            f"{where}: cell must be an integer in [0, {n_cells - 1}], found {number!r}", code="invalid-row"
        )
    return int(number)
