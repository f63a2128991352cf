"""Import of raw data in constant memory: select a region, sort by user and time, and count invalid rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sim.datasets import trace_file
from sim.datasets.counts import MOST_SHOWN, Counts
from sim.datasets.duplicates import Duplicates
from sim.datasets.formats import FORMATS, detect, files_of
from sim.datasets.formats.base import Format, Options
from sim.datasets.reader import Progress, Reader, check_format
from sim.datasets.regions import SAN_FRANCISCO, Box, box_of, grid_over
from sim.datasets.sorting import SortedRows
from sim.datasets.trace_file import SIDES, Traces
from sim.errors import InputError
from sim.storage.atomic import atomic_file


def format_of(source: str | None, raw: Sequence[Path]) -> Format:
    """Return a format by its name, or by the content of the first file."""
    return FORMATS[source or detect(raw)]


def import_traces(
    source: str | None,
    raw: Sequence[Path],
    out: str | os.PathLike[str],
    *,
    region: Box | None,
    options: Options | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> Counts:
    """Read raw files and write the rows of a region as one trace file, atomically; without a region, all rows.

    `source` is the name of a format; None recognises the format by the content of the first file.
    """
    one = format_of(source, raw)
    paths = files_of(one, raw)
    path = trace_file.checked_destination(out, inputs=paths, overwrite=overwrite)
    used = _checked(one, region, options or Options())
    with (
        _sorted_rows(one, paths, region, used, progress, path.parent) as (reader, parts, users),
        atomic_file(path) as file,
        trace_file.Writer(file, users, timed=reader.timed) as writer,
    ):
        for part in parts:
            writer.add(part)
        writer.notes = _notes(one, region, used, reader)
    return reader.counts


def read_raw(
    source: str | None,
    paths: Sequence[Path],
    *,
    region: Box | None,
    options: Options | None = None,
    progress: Progress = lambda _done, _total: None,
) -> tuple[Traces, Counts]:
    """Read the rows of a region into memory; without a source, files have a header that names their columns."""
    one = FORMATS[source or "columns"]
    used = _checked(one, region, options or Options())
    with _sorted_rows(one, paths, region, used, progress, None) as (reader, parts, users):
        rows = pa.concat_tables(parts)
        notes = _notes(one, region, used, reader) | ({"source": None} if source is None else {})
    columns: dict[str, Any] = {name: rows[name].combine_chunks() for name in rows.column_names}
    missing = np.full(rows.num_rows, np.nan)
    traces = Traces(
        users=users,
        user=np.asarray(columns["user"].to_numpy(), dtype=np.int64),
        when=columns["when"].to_numpy(),
        timed=reader.timed,
        lat=columns["lat"].to_numpy() if "lat" in columns else missing,
        lon=columns["lon"].to_numpy() if "lon" in columns else missing,
        others={name: columns[name] for name in ("location", "occupied") if name in columns},
        notes=notes,
        cell=columns["cell"].to_numpy() if "cell" in columns else None,
    )
    return traces, reader.counts


def _checked(one: Format, region: Box | None, options: Options) -> Options:
    """Return the options; raise InputError for those that the format does not use."""
    unused = [name for name in options.given if name not in one.options]
    if one.grid is not None and region is not None:
        unused.append("--region")
    if unused:
        allowed = f"it uses {', '.join(sorted(one.options))}" if one.options else "it uses no such option"
        raise InputError(
            f"format {one.name} does not use {', '.join(unused)}: {allowed}; omit the others", code="option-not-used"
        )
    if options.network is not None and not options.network.is_file():
        raise InputError(f"no network file {options.network}: check the name", code="file-not-found")
    return options


@contextmanager
def _sorted_rows(
    one: Format,
    paths: Sequence[Path],
    region: Box | None,
    options: Options,
    progress: Progress,
    folder: Path | None,
) -> Iterator[tuple[Reader, Iterator[pa.Table], tuple[str, ...]]]:
    """Read files; yield the reader, the sorted parts and the users. Counts are complete after the last part."""
    check_format(one, paths[0])
    reader = Reader(one, region, options, progress=progress, folder=folder)
    try:
        rows = reader.read(paths)
        parts = rows.parts()
        first = next(parts)  # the order of the users is known from here on
        yield reader, _counted(chain([first], parts), reader, rows), tuple(rows.users)
    finally:
        if reader.rows is not None:
            reader.rows.close()


def _counted(parts: Iterator[pa.Table], reader: Reader, rows: SortedRows) -> Iterator[pa.Table]:
    """Yield parts and complete the counts."""
    duplicates = Duplicates()
    counts, spans = reader.counts, []
    for part in parts:
        duplicates.add(part)
        when = part["when"].to_numpy()
        spans.append((int(when.min()), int(when.max())))
        yield part.drop_columns(["row", "fraction"])
    counts.duplicates, counts.users, counts.unordered = duplicates.finish(), len(rows.users), rows.unordered
    counts.span = (min(low for low, _ in spans), max(high for _, high in spans)) if reader.timed else None


def _notes(one: Format, region: Box | None, options: Options, reader: Reader) -> dict[str, Any]:
    """Return the metadata of a trace file."""
    notes: dict[str, Any] = {
        "source": one.name,
        "region": None if region is None else dict(zip(SIDES, region, strict=True)),
        "lppm_sim": version("lppm-sim"),
        "files": reader.described_files(),
        "counts": reader.counts.numbers(),
    }
    if one.grid is not None:
        notes["grid"] = {name: value for name, value in one.grid.describe().items() if value is not None}
    if one.time_note:
        notes["times"] = one.time_note
    if options.given:
        notes["options"] = options.given
    return notes


__all__ = [
    "FORMATS",
    "MOST_SHOWN",
    "SAN_FRANCISCO",
    "Box",
    "Counts",
    "Options",
    "Progress",
    "box_of",
    "format_of",
    "grid_over",
    "import_traces",
    "read_raw",
]
