"""Sums of errors and losses around a shift, by LPPM, attack, user and query index relative to the shift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sim.interfaces import FloatArray, IntArray
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import require_uncut_by_shift, require_whole_rows, weights_of

Span = tuple[int, int, int]
"""Query indices: the first analysed one, the first after the shift, and the first after the analysed range."""

_EMPTY: Span = (0, 0, 0)


def spans_around(changes: pd.DataFrame, name: str) -> dict[tuple[int, str], Span]:
    """Return the range from the change before a shift to the change after it, by replication and user."""
    keys = ["replication", "user"]
    begun = changes[(changes["shift"] == name) & (changes["event"] == "shift")]
    frame = changes.merge(begun.groupby(keys, as_index=False)["index"].min(), on=keys, suffixes=("", "_at"))
    frame["first"] = frame["index"].where(frame["index"] < frame["index_at"], 1)
    frame["end"] = frame["index"].astype(np.int64).where(frame["index"] > frame["index_at"], np.iinfo(np.int64).max)
    limits = frame.groupby(keys, sort=False).agg(first=("first", "max"), at=("index_at", "min"), end=("end", "min"))
    spans = zip(*(limits[column].tolist() for column in ("first", "at", "end")), strict=True)
    return dict(zip(limits.index.tolist(), spans, strict=True))


class ShiftSums:
    """Sums of the errors and losses of one sweep point by LPPM, attack, user and query."""

    def __init__(self, spans: dict[tuple[int, str], Span], before: int, step: int = 1) -> None:
        self.series: dict[tuple[str, str], AddedMetrics] = {}
        self.step = step
        """Largest number of queries that a row summarizes."""
        self.cells_before: dict[str, Counter[int]] = {}
        """Number of queries before the shift in each cell, by user, if the rows have cells."""
        self._spans = spans
        self._before = before
        self._counted: set[tuple[int, str]] = set()

    def add(self, rows: pa.Table, run: RunDirectory) -> None:
        """Add the rows of a part; a row that summarizes several queries is added at the last of them."""
        error, loss = (_best(rows, name) for name in ("adversary_error_km", "quality_loss_km"))
        rows = rows.append_column("error", error).append_column("loss", loss)
        rows = rows.filter(pc.and_(pc.is_valid(error), pc.is_valid(loss)))
        if not rows.num_rows:
            return
        (users, user), (lppms, lppm), (attacks, attack) = (_coded(rows[name]) for name in ("user", "lppm", "attack"))
        codes, simulation = np.unique(
            rows["replication"].to_numpy().astype(np.int64) * len(users) + user, return_inverse=True
        )
        simulations = [(code // len(users), users[code % len(users)]) for code in codes.tolist()]
        spans = np.array([self._spans.get(key, _EMPTY) for key in simulations], dtype=np.int64)
        first, at, end = spans[simulation].T
        last = rows["index"].to_numpy().astype(np.int64)
        queries = weights_of(rows)
        begin = last - queries + 1
        require_uncut_by_shift(begin, last, at, run)
        within = (begin >= np.maximum(first, at - self._before)) & (last < end)
        self.step = max(self.step, int(queries[within].max(initial=1)))
        values = np.stack([rows["error"].to_numpy() * queries, rows["loss"].to_numpy() * queries, queries])
        series = lppm * len(attacks) + attack
        if "cell" in rows.column_names:
            self._count_cells(rows["cell"].to_numpy(), simulation, simulations, series, within & (last < at))
        for code in np.unique(series[within]).tolist():
            own = within & (series == code)
            added = self.series.setdefault((lppms[code // len(attacks)], attacks[code % len(attacks)]), AddedMetrics())
            added.add(users, user[own], (last - at + self._before)[own], values[:, own])

    def _count_cells(
        self,
        cells: IntArray,
        simulation: IntArray,
        simulations: Sequence[tuple[int, str]],
        series: IntArray,
        chosen: NDArray[np.bool_],
    ) -> None:
        """Count the cells of each user and replication once; they are the same for all mechanisms and attacks."""
        for number, key in enumerate(simulations):
            own = np.flatnonzero(chosen & (simulation == number)) if key not in self._counted else np.empty(0, int)
            if len(own):
                self._counted.add(key)
                first = own[series[own] == series[own[0]]]
                self.cells_before.setdefault(key[1], Counter()).update(cells[first].tolist())

    def require_window(self, window: int, run: RunDirectory) -> None:
        """Raise an error if windows are not made of whole rows."""
        require_whole_rows(window, self.step, run)


def _best(rows: pa.Table, name: str) -> pa.ChunkedArray[Any]:
    """Return the expected values of a measure where recorded, otherwise the realised ones."""
    best: pa.ChunkedArray[Any] = pc.coalesce(rows[f"expected_{name}"], rows[name])
    return best


def _coded(column: pa.ChunkedArray[Any]) -> tuple[list[str], IntArray]:
    """Return the distinct texts of a column, and the position of each row's text among them."""
    coded: Any = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return [text or "" for text in coded.dictionary.to_pylist()], coded.indices.to_numpy().astype(np.int64)


class AddedMetrics:
    """Sums of errors, losses and query counts of one LPPM and attack."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        """Row of each user in `sums`."""
        self.sums: FloatArray = np.zeros((3, 0, 0))
        """Error, loss and number of queries, shape (3, users, queries); column `before` is the first query after the
        shift."""

    def add(self, users: Sequence[str], user: IntArray, column: IntArray, values: FloatArray) -> None:
        """Add rows in order, so that sums do not depend on how rows are distributed over parts."""
        present = np.unique(user)
        place = np.zeros(len(users), dtype=np.int64)
        place[present] = [self.rows.setdefault(users[code], len(self.rows)) for code in present.tolist()]
        _, rows, columns = self.sums.shape
        more = (max(len(self.rows) - rows, 0), max(int(column.max()) + 1 - columns, 0))
        if any(more):
            self.sums = np.pad(self.sums, ((0, 0), (0, more[0]), (0, more[1])))
        for own, addends in zip(self.sums, values, strict=True):
            np.add.at(own, (place[user], column), addends)
