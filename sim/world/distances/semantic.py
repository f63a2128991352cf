"""Semantic distance: how different places are in kind."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.world.distance import Distance
from sim.world.grid import Grid
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("distance")
class SemanticDistanceParameters(DistanceParameters):
    """How different places are in kind: 0 between cells of one label, `apart_km` where their labels share nothing."""

    kind: Literal["semantic"] = "semantic"
    labels: FileName
    """A CSV file with the header cell,label and a line for each cell; a label may be a path, such as food/pizza."""
    apart_km: Annotated[float, Field(gt=0, le=1e5)] = 1.0
    """What a difference in kind is worth; labels that share the beginning of their paths are that much nearer."""

    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between the cells of a grid."""
        return semantic(read_labels(place.locate(self.labels), grid.n_cells), apart_km=self.apart_km)


def semantic(labels: Sequence[str], *, apart_km: float = 1.0) -> Distance:
    """Return how different the places are in kind: 0 between cells of one label, `apart_km` where nothing is shared.

    A label may be a path in a tree of kinds, such as ``food/pizza``: what two labels share counts from the root,
    d = apart_km (1 - shared steps / steps of the longer one). Semantic location privacy: Ağır et al. 2016.

    >>> semantic(["home", "food/pizza", "food/sushi"]).matrix_km[1].tolist()
    [1.0, 0.0, 0.5]
    """
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
