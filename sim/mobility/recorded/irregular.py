"""Irregular times in trace files: rows that go back in time, and rows of a user at the same time."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.interfaces import BoolArray, IntArray
from sim.mobility.recorded.tables import Table

MOST_USERS = 3
"""Number of users that a report names with their numbers of irregular rows."""


def irregular(table: Table, users: set[str]) -> dict[str, Any]:
    """Count irregular times of these users, among the rows in the region, and name the users with most of them.

    Backward rows are earlier than the previous row of the same user in the file, unless the user's times never
    increase: files in descending order are common. Rows with the same exact time as the previous row are counted
    separately: those in another cell, and those that repeat its cell.
    """
    selected = np.array([user in users for user in table.users])
    rows = np.flatnonzero(selected[table.user] & (table.cell >= 0))
    by_file = rows[np.argsort(table.user[rows], kind="stable")]
    same, before, after = _steps(table, by_file)
    mixed = np.unique(table.user[by_file[1:]][same & after])
    backward = same & before & np.isin(table.user[by_file[1:]], mixed)
    by_time = table.order(table.user)
    by_time = by_time[selected[table.user[by_time]] & (table.cell[by_time] >= 0)]
    same, before, after = _steps(table, by_time)
    equal, moved = same & ~before & ~after, np.diff(table.cell[by_time]) != 0
    return (
        _counted(table, by_file[1:][backward], "backward")
        | _counted(table, by_time[1:][equal & moved], "same_time")
        | _counted(table, by_time[1:][equal & ~moved], "repeated")
    )


def _counted(table: Table, rows: IntArray, kind: str) -> dict[str, Any]:
    """Return the numbers of rows and users, and the users with most rows if there are any."""
    counts = np.bincount(table.user[rows], minlength=len(table.users))
    most = np.argsort(-counts, kind="stable")[:MOST_USERS]
    report: dict[str, Any] = {f"rows_{kind}": int(rows.size), f"users_{kind}": int((counts > 0).sum())}
    if rows.size:
        report[f"most_{kind}"] = {table.users[user]: int(counts[user]) for user in most if counts[user]}
    return report


def _steps(table: Table, rows: IntArray) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Return masks of the rows after the first: same user as the previous row, earlier than it, later than it."""
    user, when = table.user[rows], table.when[rows]
    before, after = when[1:] < when[:-1], when[1:] > when[:-1]
    if table.rest is not None:
        rest, equal = table.rest[rows], ~before & ~after
        before, after = before | (equal & (rest[1:] < rest[:-1])), after | (equal & (rest[1:] > rest[:-1]))
    return user[1:] == user[:-1], before, after
