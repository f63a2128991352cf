"""Windows of queries (`record: summary`): one row of the event log for several consecutive queries of a user.

Such a row has the last index and time of its queries and the means of their metrics. It has no cell, output, estimate
or posterior. Readers see it as a row that stands for a number of queries, its weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.interfaces import FloatArray, IntArray
from sim.storage import event_schema as schema


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """Columns of the event log by query, one user after another: n entries, of each user as many as `lengths` has."""

    event: str
    lengths: IntArray
    """Number of entries of each user, shape (n_users,)."""
    by_query: dict[str, NDArray[Any]]
    """Columns that are the same for all attacks, shape (n,) each."""
    by_attack: dict[str, NDArray[Any]]
    """Columns that differ by attack, shape (n, n_attacks) each."""


def averaged(columns: QueryColumns, size: int) -> QueryColumns:
    """Return an entry per window of `size` queries of a user; the last window of a user may be shorter."""
    ends = np.cumsum(columns.lengths)
    bounds = zip(ends - columns.lengths, ends, strict=True)
    starts: IntArray = np.concatenate([np.arange(start, end, size) for start, end in bounds])
    sizes: IntArray = np.diff(starts, append=ends[-1])
    last = starts + sizes - 1
    by_query = {name: columns.by_query[name][last] for name in (schema.INDEX, schema.TIME_S)}
    by_query[schema.CELL] = np.full(starts.size, -1)
    for name in set(schema.MEASURES) & columns.by_query.keys():
        by_query[name] = _means(columns.by_query[name].reshape(-1, 1), starts, sizes).ravel()
    by_attack = {
        name: _means(columns.by_attack[name], starts, sizes) for name in set(schema.MEASURES) & columns.by_attack.keys()
    }
    return QueryColumns(schema.WINDOW_EVENT, -(-columns.lengths // size), by_query, by_attack)


def _means(values: FloatArray, starts: IntArray, sizes: IntArray) -> FloatArray:
    """Return the means of each column over each window; NaN where no query of the window has a value."""
    counts = np.add.reduceat(~np.isnan(values), starts, axis=0, dtype=np.int64)
    if ((counts > 0) & (counts < sizes[:, None])).any():
        raise RuntimeError(
            "an attack foresaw its answers to some queries and not to others, and a summary cannot tell to how "
            "many: foresee all or none, or set record.log to queries"
        )
    sums: FloatArray = np.add.reduceat(values, starts, axis=0)
    return sums / sizes[:, None]
