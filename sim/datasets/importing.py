"""Import of raw downloads: select a region, sort the rows of each user by time, and count invalid lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from sim.datasets import trace_file
from sim.datasets.files import SOURCES, RawFile, find_files, find_layout
from sim.datasets.lines import Layout, joined, parse
from sim.datasets.trace_file import SIDES, Traces
from sim.errors import InputError
from sim.storage.atomic import atomic_file
from sim.world.grid import Grid

MOST_SHOWN = 5

Box = tuple[float, float, float, float]
"""South, north, west and east bound in degrees."""

Progress = Callable[[int, int], None]
"""Progress callback, called with the number of bytes read and the total."""


def box_of(grid: Grid) -> Box:
    """Return the region of a grid with geographic coordinates."""
    if grid.south is None or grid.north is None or grid.west is None or grid.east is None:
        raise ValueError("grid must have geographic coordinates, got a rectangle in km")
    return grid.south, grid.north, grid.west, grid.east


SAN_FRANCISCO = box_of(Grid.san_francisco())
"""The paper's region."""


def grid_over(box: Box, *, rows: int, cols: int) -> Grid:
    """Return a grid over a region."""
    south, north, west, east = box
    return Grid.region(rows=rows, cols=cols, south=south, north=north, west=west, east=east)


@dataclass(slots=True)
class Counts:
    """Numbers of lines and rows of an import."""

    lines: int = 0
    """Lines without headers and blank lines."""
    unreadable: int = 0
    """Invalid lines."""
    first_unreadable: list[str] = field(default_factory=list)
    """The first few invalid lines, each with file, line and reason."""
    outside: int = 0
    """Rows outside the region, which are omitted."""
    kept: int = 0
    """Rows written."""
    duplicates: int = 0
    """Rows that repeat another in every column; they are written too."""
    users: int = 0


def import_traces(
    source: str,
    raw: Sequence[Path],
    out: str | os.PathLike[str],
    *,
    region: Box | None,
    overwrite: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> Counts:
    """Read raw files and write the rows of a region as one trace file, atomically; without a region, all rows."""
    paths = find_files(source, raw)
    path = trace_file.checked_destination(out, inputs=paths, overwrite=overwrite)
    traces, counts = read_raw(source, paths, region=region, progress=progress)
    with atomic_file(path) as file:
        trace_file.write(file, traces)
    return counts


def read_raw(
    source: str | None,
    paths: Sequence[Path],
    *,
    region: Box | None,
    progress: Progress = lambda _done, _total: None,
) -> tuple[Traces, Counts]:
    """Read the rows of a region from files in the layout of the source or with a header; without a region, all rows."""
    reader = _Reader(region, sum(path.stat().st_size for path in paths), progress)
    layouts = [find_layout(source, path) for path in paths]
    first = layouts[0][0]
    for path, (layout, header) in zip(paths, layouts, strict=True):
        if layout.columns != first.columns:
            raise InputError(
                f"{path} has {layout}, but {paths[0]} has {first}: import files with the same columns together",
                code="layouts-differ",
            )
        reader.read(path, layout, header)
    counts = reader.counts
    if not counts.kept:
        raise InputError(
            f"none of the {counts.outside:,} rows is in the region{reader.extent()}", code="outside-region"
        )
    rows = joined(reader.parts)
    columns = {name: rows[name] for name in rows.column_names}
    notes = {
        "source": source,
        "region": None if region is None else dict(zip(SIDES, region, strict=True)),
        "lppm_sim": version("lppm-sim"),
        "files": reader.files,
    }
    traces = trace_file.ordered(columns, notes=notes, newest_first=first.newest_first)
    counts.users, counts.duplicates = len(traces.users), duplicates(traces)
    numbers = {
        name: getattr(counts, name) for name in ("lines", "unreadable", "outside", "kept", "duplicates", "users")
    }
    return replace(traces, notes={**notes, "counts": numbers}), counts


class _Reader:
    """Reader that collects the rows and counts of several files."""

    def __init__(self, region: Box | None, total: int, progress: Progress) -> None:
        self._grid = None if region is None else grid_over(region, rows=1, cols=1)
        self._total, self._progress = total, progress
        self._done = 0
        self._low, self._high = np.full(2, np.inf), np.full(2, -np.inf)
        self.counts = Counts()
        self.parts: list[pa.Table] = []
        self.files: list[dict[str, Any]] = []

    def read(self, path: Path, layout: Layout, header: int) -> None:
        raw = RawFile(path)
        readable = unreadable = 0
        invalid: list[str] = []
        for block in raw.blocks(self._advance):
            text = block.text.partition(b"\n")[2] if header and block.first_line == 1 else block.text
            start = block.first_line + (header if block.first_line == 1 else 0)
            rows = parse(text, layout)
            readable += rows.table.num_rows
            unreadable += len(rows.faults)
            shown = rows.faults[: MOST_SHOWN - len(invalid)]
            invalid += [f"{path.name}:{start + line}: {reason}" for line, reason in shown]
            self._add(rows.table)
        if not readable:
            raise _no_rows(path, layout, unreadable, invalid)
        self.counts.lines += readable + unreadable
        self.counts.unreadable += unreadable
        self.counts.first_unreadable += invalid[: MOST_SHOWN - len(self.counts.first_unreadable)]
        self.files.append(raw.describe())

    def _add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        lat, lon = table["lat"].to_numpy(), table["lon"].to_numpy()
        inside = np.ones(lat.size, dtype=bool) if self._grid is None else self._grid.cell_of(lat, lon) >= 0
        self._low = np.minimum(self._low, (lat.min(), lon.min()))
        self._high = np.maximum(self._high, (lat.max(), lon.max()))
        self.counts.kept += int(inside.sum())
        self.counts.outside += int((~inside).sum())
        if inside.any():
            self.parts.append(table if inside.all() else table.filter(pa.array(inside)))

    def _advance(self, n_bytes: int) -> None:
        self._done += n_bytes
        self._progress(self._done, self._total)

    def extent(self) -> str:
        """Return the end of a message that states the bounding box of all rows."""
        (south, west), (north, east) = self._low, self._high
        return (
            f": they are in lat {south:.9g} to {north:.9g}, lon {west:.9g} to {east:.9g}. "
            "Choose another region with --region."
        )


def _no_rows(path: Path, layout: Layout, unreadable: int, invalid: Sequence[str]) -> InputError:
    if not unreadable:
        return InputError(f"{path} has no rows: is it the right file? Nothing was written.", code="empty-file")
    lines = "\n  ".join(invalid)
    return InputError(
        f"{path}: all {unreadable:,} lines are invalid. A line must have {layout}. Nothing was written.\n  {lines}",
        code="invalid-row",
    )


def duplicates(traces: Traces) -> int:
    """Return the number of rows that repeat another row in every column."""
    same = (np.diff(traces.user) == 0) & (np.diff(traces.when) == 0)
    rows = np.flatnonzero(np.append(same, False) | np.append(False, same))
    table: dict[str, Any] = {
        "user": traces.user[rows],
        "when": traces.when[rows],
        "lat": traces.lat[rows],
        "lon": traces.lon[rows],
    }
    table |= {name: column.take(pa.array(rows)).to_pandas() for name, column in traces.others.items()}
    return int(pd.DataFrame(table).duplicated().sum())


__all__ = ["SAN_FRANCISCO", "SOURCES", "Box", "Counts", "Progress", "grid_over", "import_traces", "read_raw"]
