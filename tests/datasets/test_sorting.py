"""The external sort and the count of duplicates, against pandas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sim.datasets import sorting
from sim.datasets.duplicates import Duplicates
from sim.datasets.sorting import SortedRows


def rows(n_rows: int, users: list[str], seed: int) -> pd.DataFrame:
    """Return rows with many equal users, times and fractions."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "user": rng.choice(users, n_rows),
            "time_s": rng.integers(0, 20, n_rows),
            "lat": rng.integers(0, 3, n_rows).astype(float),
            "lon": np.zeros(n_rows),
            "fraction": rng.choice([0.0, 0.25, 0.5], n_rows),
            "location": rng.choice(["a", "b"], n_rows),
        }
    )


def sorted_by_pandas(frame: pd.DataFrame, *, newest_first: bool) -> pd.DataFrame:
    users = pd.unique(frame["user"]).tolist()
    if all(user.lstrip("-").isdecimal() for user in users):
        users.sort(key=int)
    ranks = frame["user"].map({user: rank for rank, user in enumerate(users)})
    ordered = frame.assign(rank=ranks, row=np.arange(len(frame)) * (-1 if newest_first else 1))
    return ordered.sort_values(["rank", "time_s", "fraction", "row"]).reset_index(drop=True)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("users", [["10", "9", "-3", "7"], ["b", "a", "10"], ["x"]])
@pytest.mark.parametrize(("n_rows", "run", "part"), [(1, 8, 1), (500, 4096, 70), (700, 64, 33), (2048, 128, 300)])
def test_sorted_rows_equal_those_of_pandas(
    newest_first: bool,
    users: list[str],
    n_rows: int,
    run: int,
    part: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(sorting, "RUN_ROWS", run)
    monkeypatch.setattr(sorting, "SMALLEST_BLOCK", 5)
    frame = rows(n_rows, users, n_rows + part)
    sort = SortedRows(newest_first=newest_first, folder=tmp_path)
    for start in range(0, n_rows, part):
        sort.add(pa.Table.from_pandas(frame[start : start + part], preserve_index=False), "time_s")
    duplicates = Duplicates()
    parts = []
    for table in sort.parts():
        duplicates.add(table)
        parts.append(table.to_pandas())
    ours, theirs = pd.concat(parts, ignore_index=True), sorted_by_pandas(frame, newest_first=newest_first)
    assert [sort.users[code] for code in ours["user"]] == theirs["user"].tolist()
    assert ours["when"].tolist() == theirs["time_s"].tolist()
    columns = ["lat", "fraction", "location", "row"]
    assert ours[columns].equals(theirs[columns])
    repeated = frame.drop(columns="fraction").duplicated().sum()
    assert duplicates.finish() == repeated
    order = frame.groupby("user", sort=False)["time_s"].diff()
    assert sort.unordered == ((order > 0) if newest_first else (order < 0)).sum()
    assert len(parts) == 1 or n_rows > run
    sort.close()
    assert list(tmp_path.iterdir()) == []


def test_rows_in_memory_do_not_grow_with_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sorting, "RUN_ROWS", 1000)
    monkeypatch.setattr(sorting, "SMALLEST_BLOCK", 10)
    largest = {}
    for n_rows in (2_000, 20_000):
        sort = SortedRows(folder=tmp_path)
        for start in range(0, n_rows, 500):
            sort.add(pa.Table.from_pandas(rows(500, ["1", "2"], start), preserve_index=False), "time_s")
            assert sum(table.num_rows for table in sort._waiting) < 1000
        largest[n_rows] = max(table.num_rows for table in sort.parts())
        sort.close()
    assert largest[20_000] <= 1000 + 10 * 20
