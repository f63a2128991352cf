"""Number of rows that repeat another row in every column, in a stream of sorted rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


class Duplicates:
    """Counter of repeated rows; memory depends on the largest number of rows of one user at one time."""

    def __init__(self) -> None:
        self.count = 0
        self._last: pa.Table | None = None

    def add(self, part: pa.Table) -> None:
        """Count the rows of the next part; the rows of its last user and time wait for the next part."""
        table = part if self._last is None else pa.concat_tables([self._last, part])
        user, when = table["user"].to_numpy(), table["when"].to_numpy()
        same = (np.diff(user) == 0) & (np.diff(when) == 0)
        changes = np.flatnonzero(~same)
        cut = int(changes[-1]) + 1 if changes.size else 0
        self._last = table.slice(cut).combine_chunks()
        self._count(table.slice(0, cut), same[: max(cut - 1, 0)])

    def finish(self) -> int:
        """Return the number of repeated rows of all parts."""
        if self._last is not None:
            self._count(self._last, np.ones(self._last.num_rows - 1, dtype=bool))
            self._last = None
        return self.count

    def _count(self, table: pa.Table, same: np.ndarray) -> None:
        rows = np.flatnonzero(np.append(same, False) | np.append(False, same))
        if rows.size and table.num_rows:
            columns = [name for name in table.column_names if name not in ("row", "fraction")]
            indices: Any = pa.array(rows)
            frame = table.select(columns).take(indices).to_pandas()
            self.count += int(frame.duplicated().sum())
