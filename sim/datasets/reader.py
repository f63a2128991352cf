"""Reading of raw files of one format into sorted rows, with counts and content checks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sim.datasets.counts import MOST_SHOWN, Counts
from sim.datasets.files import RawFile
from sim.datasets.formats import candidates
from sim.datasets.formats.base import Batch, Format, Options
from sim.datasets.lines import FRACTION
from sim.datasets.regions import Box, grid_over
from sim.datasets.sorting import SortedRows
from sim.errors import InputError, InvalidValue
from sim.interfaces import BoolArray, FloatArray

Progress = Callable[[int, int], None]
"""Progress callback, called with the number of bytes read and the total."""

MOST_FILES = 1000
"""Number of files above which the metadata have one digest of all."""


class Reader:
    """Reader that collects the rows and counts of several files."""

    def __init__(
        self, one: Format, region: Box | None, options: Options, *, progress: Progress, folder: Path | None
    ) -> None:
        self.counts = Counts()
        self.rows: SortedRows | None = None
        self.columns: list[str] = []
        """Columns of all rows."""
        self.files: list[dict[str, Any]] = []
        self._format, self._options, self._progress, self._folder = one, options, progress, folder
        self._region = region
        self._grid = None if region is None else grid_over(region, rows=1, cols=1)
        self._done = self._total = 0
        self._low, self._high = np.full(2, np.inf), np.full(2, -np.inf)
        self._exchanged = 0

    @property
    def timed(self) -> bool:
        """Whether the rows have times, not only an order."""
        return "time_s" in self.columns

    def read(self, paths: Sequence[Path]) -> SortedRows:
        """Read all files; raise InputError without any row in the region."""
        self._total = sum(path.stat().st_size for path in paths)
        for path in paths:
            try:
                self._read(path, paths[0])
            except InvalidValue as error:
                raise InputError(f"{path}: {error}. Nothing was written.", code=error.code) from error
        if self.rows is None or not self.counts.kept:
            raise InputError(
                f"none of the {self.counts.outside:,} rows is in the region{self._extent()}", code="outside-region"
            )
        self._check_area()
        return self.rows

    def _read(self, path: Path, first: Path) -> None:
        raw = RawFile(path, self._advance)
        n_rows = n_invalid = 0
        invalid: list[tuple[int, str]] = []
        for batch in self._format.read(raw, self._options):
            n_rows += batch.table.num_rows
            n_invalid += len(batch.faults)
            invalid += batch.faults[: MOST_SHOWN - len(invalid)]
            self.counts.add_invalid(path.name, batch.faults)
            for kind, count in batch.ignored.items():
                self.counts.ignored[kind] = self.counts.ignored.get(kind, 0) + count
            if batch.table.num_rows:
                self._check_columns(batch.table, path, first)
                self._add(batch)
        if not n_rows:
            self._reject(path, n_invalid, invalid)
        self.counts.lines += n_rows + n_invalid
        self.files.append(raw.describe())

    def _add(self, batch: Batch) -> None:
        table = batch.table
        inside: BoolArray = np.ones(table.num_rows, dtype=bool)
        if "lat" in table.column_names:
            lat, lon = table["lat"].to_numpy(), table["lon"].to_numpy()
            self._low = np.minimum(self._low, (lat.min(), lon.min()))
            self._high = np.maximum(self._high, (lat.max(), lon.max()))
            self._exchanged += int(self._seem_exchanged(lat, lon).sum())
            if self._grid is not None:
                inside = self._grid.cell_of(lat, lon) >= 0
        self.counts.kept += int(inside.sum())
        self.counts.outside += int((~inside).sum())
        if self.rows is None:
            self.rows = SortedRows(newest_first=batch.newest_first, folder=self._folder)
        if inside.any():
            rows = table if inside.all() else table.filter(pa.array(inside))
            self.rows.add(rows, "time_s" if self.timed else "order")

    def _seem_exchanged(self, lat: FloatArray, lon: FloatArray) -> BoolArray:
        """Return which rows are in the area of the published data, or the region, only with lat and lon exchanged."""
        box = self._format.area or self._region
        if box is None:
            return np.zeros(lat.size, dtype=bool)
        return _within(lon, lat, box) & ~_within(lat, lon, box)

    def _check_columns(self, table: pa.Table, path: Path, first: Path) -> None:
        columns = [name for name in table.column_names if name != FRACTION]
        self.columns = self.columns or columns
        if columns != self.columns:
            raise InputError(
                f"{path} has the columns {', '.join(columns)}, but {first} has {', '.join(self.columns)}: import files "
                "with the same columns together",
                code="layouts-differ",
            )

    def _check_area(self) -> None:
        if self._format.area is not None and 2 * self._exchanged > self.counts.kept + self.counts.outside:
            raise InputError(
                f"{self._exchanged:,} of {self.counts.kept + self.counts.outside:,} rows are in the area of "
                f"{self._format.name} only with lat and lon exchanged: correct the files. Nothing was written.",
                code="columns-exchanged",
            )

    def _advance(self, n_bytes: int) -> None:
        self._done += n_bytes
        self._progress(self._done, self._total)

    def _extent(self) -> str:
        """Return the end of a message that states the bounding box of all rows."""
        (south, west), (north, east) = self._low, self._high
        exchanged = " They are inside with lat and lon exchanged." if self._exchanged else ""
        return (
            f": they are in lat {south:.9g} to {north:.9g}, lon {west:.9g} to {east:.9g}.{exchanged} "
            "Choose another region with --region."
        )

    def _reject(self, path: Path, n_invalid: int, invalid: Sequence[tuple[int, str]]) -> None:
        """Raise InputError for a file without a valid row; without any row, this is an error only for the format."""
        if not n_invalid:
            ignored = "; ".join(f"{count:,} {kind}" for kind, count in self.counts.ignored.items())
            raise InputError(
                f"{path} has no rows{f' ({ignored})' if ignored else ''}: is it the right file? Nothing was written.",
                code="empty-file",
            )
        lines = "\n  ".join(f"{path.name}:{line}: {reason}" for line, reason in invalid)
        others = [name for name in candidates(path) if name != self._format.name]
        likely = f" The content is that of {' or '.join(others)}." if others else ""
        raise InputError(
            f"{path}: all {n_invalid:,} {self._format.unit}s are invalid. A {self._format.unit} must have "
            f"{self._format.checks}.{likely} Nothing was written.\n  {lines}",
            code="invalid-row",
        )

    def described_files(self) -> list[dict[str, Any]]:
        """Return name, size and SHA-256 of each file, or of all together if there are many."""
        if len(self.files) <= MOST_FILES:
            return self.files
        digest = hashlib.sha256("".join(f"{file['sha256']}\n" for file in self.files).encode())
        return [
            {
                "name": f"{len(self.files)} files; sha256 is that of their SHA-256 in hexadecimal, one per line",
                "bytes": sum(file["bytes"] for file in self.files),
                "sha256": digest.hexdigest(),
            }
        ]


def _within(lat: FloatArray, lon: FloatArray, box: Box) -> BoolArray:
    south, north, west, east = box
    return np.asarray((lat >= south) & (lat <= north) & (lon >= west) & (lon <= east))


def check_format(one: Format, path: Path) -> None:
    """Raise InputError if the content of a file is certainly that of another format."""
    fitting = candidates(path)
    accepted = {one.name, "columns"} if one.accepts_header or one.name == "columns" else {one.name}
    if fitting and not accepted & set(fitting) and one.name != "columns":
        raise InputError(
            f"{path} is not a file of {one.name}: its content is that of {' or '.join(fitting)}; {one.name} must have "
            f"{one.checks}. Nothing was written.",
            code="wrong-format",
        )
