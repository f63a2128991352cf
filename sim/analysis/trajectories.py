"""Trajectories of single users, query by query, in the first replication."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.beliefs import Beliefs
from sim.analysis.event_log import LogPart, log_parts
from sim.analysis.summary import LOSS_AND_ERROR, Totals
from sim.analysis.sweep_labels import in_order
from sim.analysis.tiles import Squares, Tiles
from sim.analysis.time_series import Chosen, equal_rows, may_hold, parts_at
from sim.interfaces import FloatArray, OutputSpace
from sim.storage import worlds
from sim.storage.errors import RequestError
from sim.storage.event_schema import EVENTS
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import require_cells

COLUMNS = [
    *("point", "lppm", "replication", "user", "index", "time_s", "cell", "output", "attack", "estimate"),
    *LOSS_AND_ERROR,
]


def output_space(run: RunDirectory, lppm: str, point: int) -> OutputSpace:
    """Return the output space of an LPPM."""
    return worlds.output_space(run.manifest(), lppm, point)


def shown_at(space: OutputSpace, output: int | None) -> tuple[int, ...]:
    """Return the cells at which a map shows an output: its representative cell, or else all cells it covers."""
    if output is None:
        return ()
    place = space.shown_at(output)
    return space.cells(output) if place < 0 else (place,)


@dataclass(frozen=True, slots=True)
class UserTrace:
    """Trajectory of one user under one LPPM, in the first replication."""

    queries: pd.DataFrame
    """One row per query: index, time_s, cell, output, estimate (NaN without an attack), and `shown`, the cells at which
    a map shows the output."""
    belief: FloatArray | None
    """Last recorded belief of the LPPM about the user, shape (n_cells,); None if none was recorded."""
    believed_at: int | None
    """Index of the query before which the belief was recorded."""


def user_trace(run: RunDirectory, *, lppm: str, point: int, attack: str, user: str) -> UserTrace:
    """Return the true cells, reports and estimates of one user."""
    columns = ["index", "time_s", "cell", "output", "estimate"]
    for part in log_parts(run, parts_at(run, [(lppm, point)], first=True)):
        require_cells(run, part.rows(["event"])["event"])
        if not part.may_hold_user(user):
            continue
        same = {"point": point, "replication": 0, "user": user, "lppm": lppm, "attack": attack or None}
        rows = part.queries([*columns, *same])
        rows = rows.filter(equal_rows(rows, same))
        if rows.num_rows:
            beliefs = Beliefs.of(part).only([(lppm, point)], point, [user])
            last = int(beliefs.index.argmax()) if len(beliefs.index) else None
            space = output_space(run, lppm, point)
            queries = rows.select(columns).to_pandas()
            queries["shown"] = [shown_at(space, output) for output in rows["output"].to_pylist()]
            return UserTrace(
                queries.sort_values("index", ignore_index=True),
                None if last is None else beliefs.profile[last],
                None if last is None else int(beliefs.index[last]),
            )
    under = f"under {lppm} against {attack}" if attack else f"under {lppm}"
    raise RequestError(f"{run} has no query of user {user!r} {under}.", code="no-such-query")


@dataclass(frozen=True, slots=True)
class Trajectories:
    """Queries of some users under one LPPM at one sweep point, in the first replication."""

    rows: pa.Table
    """Columns: COLUMNS."""
    beliefs: pd.DataFrame
    """Columns: user, index, profile (by tile of `map_tiles`)."""


class TrajectoryCollector:
    """Collector of the trajectories of some users, by LPPM and sweep point."""

    def __init__(self, run: RunDirectory, points: Chosen, users: Sequence[str]) -> None:
        self.users = list(users)
        self._run = run
        self._points = list(points)
        self._tables: dict[tuple[str, int], list[pa.Table]] = {key: [] for key in self._points}
        self._beliefs: dict[tuple[str, int], list[Beliefs]] = {key: [] for key in self._points}

    def add(self, part: LogPart) -> None:
        """Add a part of the log; a summarized part has no trajectories."""
        if part.is_summary or not may_hold(part.id, self._points, first=True):
            return
        rows = part.queries(COLUMNS)
        rows = rows.filter(pc.equal(rows["replication"], pa.scalar(0)))
        rows = rows.filter(pc.is_in(rows["user"], pa.array(self.users, pa.string())))
        for lppm, point in self._points:
            if may_hold(part.id, [(lppm, point)], first=True):
                own = rows.filter(equal_rows(rows, {"lppm": lppm, "point": point}))
                self._tables[lppm, point].append(own)
                beliefs = Beliefs.of(part).only([(lppm, point)], point, self.users)
                if len(beliefs.index):
                    tiles = map_tiles(self._run, point)
                    profile = beliefs.profile if tiles is None else tiles.sums(beliefs.profile)
                    self._beliefs[lppm, point].append(replace(beliefs, profile=profile))

    def trajectories(self, lppm: str, point: int) -> Trajectories:
        """Return the trajectories under one LPPM."""
        tables = [EVENTS.empty_table().select(COLUMNS), *self._tables[lppm, point]]
        columns: dict[str, list[Any]] = {"user": [], "index": [], "profile": []}
        for beliefs in self._beliefs[lppm, point]:
            columns["user"].extend(beliefs.user)
            columns["index"].extend(beliefs.index)
            columns["profile"].extend(beliefs.profile)
        return Trajectories(pa.concat_tables(tables), pd.DataFrame(columns))


def evenly(lengths: pd.Series[int], queries: int) -> list[str]:
    """Return as many evenly spaced users as have at most `queries` queries in total; at least one.

    `lengths` has the number of queries by user.
    """

    def some(count: int) -> pd.Series[int]:
        return lengths.iloc[np.unique(np.linspace(0, len(lengths) - 1, count).astype(int))]

    count = bisect.bisect_right(range(1, len(lengths) + 1), queries, key=lambda count: int(some(count).sum()))
    return list(some(max(count, 1)).index)


MOST_VALUES = 3_300_000
"""Maximum number of trajectory values collected for the replay."""


def values_per_query(series: int, lppms: int) -> int:
    """Return the number of values per query in the replay: index, time and cell, outputs and estimates."""
    return 3 + series + lppms


def query_counts(totals: Totals, point: int, lppm: str, attack: str) -> pd.Series[int]:
    """Return the approximate number of queries of each user under one LPPM: the mean over replications."""
    users = totals.users
    own = users[(users["point"] == point) & (users["lppm"] == lppm) & (users["attack"] == attack)]
    counts: pd.Series[int] = own.set_index("user")["queries"] // totals.replications[point, lppm, attack]
    return counts


def map_tiles(run: RunDirectory, point: int) -> Tiles | Squares | None:
    """Return the tiles of the map of a sweep point; None: each of the few locations for itself."""
    world = run.manifest().world_of(point)
    if world.grid is None:
        return Squares.of(world.restore_locations())
    return Tiles.of(world.grid["rows"], world.grid["cols"])


def users_to_replay(run: RunDirectory, totals: Totals, points: Chosen) -> list[str]:
    """Return the users whose trajectories are collected: all, or an evenly spaced subset of a large run.

    Of a large population, these are users of a sample that does not depend on the blocks of users.
    """
    series = in_order(totals.series, run)
    keys = zip(series["lppm"], series["point"], strict=True)
    drawn = series[[key in set(points) for key in keys]]
    first = drawn.iloc[0]
    counts = query_counts(totals, int(first["point"]), first["lppm"], first["attack"])
    return evenly(counts, MOST_VALUES // values_per_query(len(drawn), len(points)))
