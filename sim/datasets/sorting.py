"""Sorting of rows by user and time in constant memory: sorted runs on the disk, and their merge."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sim.datasets.lines import FRACTION
from sim.interfaces import IntArray
from sim.mobility.recorded.tables import numeric_order

RUN_ROWS = 1 << 18
"""Number of rows in memory."""
SMALLEST_BLOCK = 1024
"""Smallest number of rows of a run in memory while runs are merged."""
_KEYS = ("user", "when", FRACTION, "row")


class SortedRows:
    """Rows that are added in any order and read in order of user and exact time.

    Users are in numeric order if all ids are integers, otherwise in order of first appearance. Rows with equal times
    keep their order, which is reversed with `newest_first`. At most `RUN_ROWS` rows are in memory; more than these are
    stored in a temporary folder, until `close`.
    """

    def __init__(self, *, newest_first: bool = False, folder: Path | None = None) -> None:
        self.users: list[str] = []
        """Ids in their final order, from the first of `parts` on."""
        self.n_rows = 0
        self.unordered = 0
        """Number of rows that are earlier than the row before them of the same user (later with `newest_first`)."""
        self._last: IntArray = np.zeros(0, dtype=np.int64)
        self._codes: dict[str, int] = {}
        self._newest_first, self._parent = newest_first, folder
        self._folder: Path | None = None
        self._waiting: list[pa.Table] = []
        self._n_waiting = 0
        self._runs: list[Path] = []

    def add(self, table: pa.Table, moment: str) -> None:
        """Add rows with the columns user, `moment` (time_s or order) and others."""
        n_rows = table.num_rows
        rows = np.arange(self.n_rows, self.n_rows + n_rows)
        fraction = table[FRACTION] if FRACTION in table.column_names else pa.array(np.zeros(n_rows))
        codes = self._encoded(table["user"])
        self._count_unordered(codes, table[moment].to_numpy())
        columns: dict[str, Any] = {
            "user": pa.array(codes),
            "when": table[moment],
            FRACTION: fraction,
            "row": pa.array(-rows if self._newest_first else rows),
        }
        columns |= {name: table[name] for name in table.column_names if name not in ("user", moment, FRACTION)}
        self._waiting.append(pa.table(columns))
        self.n_rows += n_rows
        self._n_waiting += n_rows
        while self._n_waiting >= RUN_ROWS:
            self._spill()

    def _count_unordered(self, codes: IntArray, when: IntArray) -> None:
        """Compare the rows of each user with the row before, also with the last one of an earlier table."""
        when = -when if self._newest_first else when
        order = np.argsort(codes, kind="stable")
        user, moments = codes[order], when[order]
        same = user[1:] == user[:-1]
        self.unordered += int((same & (moments[1:] < moments[:-1])).sum())
        first, last = np.flatnonzero(np.append(True, ~same)), np.flatnonzero(np.append(~same, True))
        new = len(self._codes) - self._last.size
        self._last = np.append(self._last, np.full(new, np.iinfo(np.int64).min))
        self.unordered += int((moments[first] < self._last[user[first]]).sum())
        self._last[user[last]] = moments[last]

    def _encoded(self, column: Any) -> IntArray:
        """Return the codes of users; new users get new ones."""
        encoded: Any = pc.dictionary_encode(column)
        chunks: list[Any] = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
        codes: list[IntArray] = []
        for chunk in chunks:
            names = chunk.dictionary.to_pylist()
            known: Any = np.array([self._codes.setdefault(name, len(self._codes)) for name in names], dtype=np.int32)
            codes.append(known[chunk.indices.to_numpy()])
        return np.concatenate(codes) if codes else np.zeros(0, dtype=np.int32)

    def _spill(self) -> None:
        """Store `RUN_ROWS` rows on the disk."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=".import-", dir=self._parent))
        table = pa.concat_tables(self._waiting)
        path = self._folder / f"run-{len(self._runs)}.arrow"
        _write(path, table.slice(0, RUN_ROWS), RUN_ROWS)
        self._runs.append(path)
        self._waiting = [table.slice(RUN_ROWS)] if table.num_rows > RUN_ROWS else []
        self._n_waiting = table.num_rows - RUN_ROWS

    def parts(self) -> Iterator[pa.Table]:
        """Yield all rows in order; call this once, after the last `add`."""
        names = list(self._codes)
        ranked = numeric_order(names)
        rank: Any = np.empty(len(ranked), dtype=np.int32)
        rank[ranked] = np.arange(len(ranked))
        self.users = [names[code] for code in ranked]
        last = [_sorted(pa.concat_tables(self._waiting), rank)] if self._waiting else []
        self._waiting = []
        if not self._runs:
            yield from last
            return
        block = max(SMALLEST_BLOCK, RUN_ROWS // (len(self._runs) + 1))
        for path in self._runs:
            table = _sorted(_Run(path).whole(), rank)
            _write(path, table, block)
        runs = [_Run(path) for path in self._runs]
        yield from _merged(runs, last)

    def close(self) -> None:
        """Remove the temporary files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _write(path: Path, table: pa.Table, block: int) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=block)


class _Run:
    """Sorted rows on the disk, read block by block."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path), "rb")
        self._reader = pa.ipc.open_file(self._file)
        self._next = 0

    def whole(self) -> pa.Table:
        """Return all rows."""
        table = self._reader.read_all()
        self._file.close()
        return table

    def block(self) -> pa.Table | None:
        """Return the next rows; None at the end."""
        if self._next == self._reader.num_record_batches:
            self._file.close()
            return None
        self._next += 1
        return pa.Table.from_batches([self._reader.get_batch(self._next - 1)])


def _sorted(table: pa.Table, rank: IntArray | None = None) -> pa.Table:
    """Sort rows by their keys; with `rank`, codes of users are replaced."""
    if rank is not None:
        user = rank[table["user"].to_numpy()]
        table = table.set_column(table.column_names.index("user"), "user", pa.array(user))
    order: Any = pa.array(np.lexsort([table[name].to_numpy() for name in reversed(_KEYS)]))
    return table.take(order)


def _merged(runs: Sequence[_Run], last: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """Merge sorted runs: rows up to the smallest end of a block are complete in every run."""
    blocks: list[pa.Table | None] = [run.block() for run in runs]
    waiting: list[pa.Table] = list(last)  # a run without further blocks
    while any(block is not None for block in blocks):
        ends = [_keys(block, block.num_rows - 1) for block in blocks if block is not None]
        bound = min(ends)
        taken: list[pa.Table] = []
        for number, block in enumerate(blocks):
            if block is None:
                continue
            count = _until(block, bound)
            taken.append(block.slice(0, count))
            blocks[number] = block.slice(count) if count < block.num_rows else runs[number].block()
        for number, rest in enumerate(waiting):
            count = _until(rest, bound)
            taken.append(rest.slice(0, count))
            waiting[number] = rest.slice(count)
        yield _sorted(pa.concat_tables(taken))
    for rest in waiting:
        if rest.num_rows:
            yield rest


def _keys(table: pa.Table, row: int) -> tuple[float, ...]:
    return tuple(table[name][row].as_py() for name in _KEYS)


def _until(table: pa.Table, bound: tuple[float, ...]) -> int:
    """Return the number of rows of a sorted table whose keys are at most the bound."""
    low, high = 0, table.num_rows
    for name, value in zip(_KEYS, bound, strict=True):
        part = table[name].slice(low, high - low).to_numpy()
        low, high = low + int(np.searchsorted(part, value)), low + int(np.searchsorted(part, value, side="right"))
    return high
