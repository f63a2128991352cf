"""Ids of parts: the sweep point, the replications and, if a part holds a block of users, the positions of its users.

A part with all users is ``<point>-<first>-<last>-<digest>``, one with a block of users is
``<point>-<first>-<last>-u<first>-<last>-<digest>``. Users are counted from 0 in the order of the scenario.
"""

from __future__ import annotations

import re

_ID = re.compile(
    r"(?P<point>\d{4,})-(?P<first>\d{4,})-(?P<last>\d{4,})-(u(?P<first_user>\d{7,})-(?P<last_user>\d{7,})-)?[0-9a-f]{10}"
)


def part_id(point: int, replications: range, digest: str, users: range | None = None) -> str:
    """Return the id of a part with all users, or with a block of users.

    >>> part_id(3, range(0, 5), "0123456789")
    '0003-0000-0004-0123456789'
    >>> part_id(3, range(0, 1), "0123456789", range(500, 1000))
    '0003-0000-0000-u0000500-0000999-0123456789'
    """
    block = "" if users is None else f"u{users.start:07d}-{users.stop - 1:07d}-"
    return f"{point:04d}-{replications.start:04d}-{replications.stop - 1:04d}-{block}{digest}"


def point_in(part: str) -> int | None:
    """Return the sweep point of a part; None if its id has another form."""
    match = _ID.fullmatch(part)
    return int(match["point"]) if match else None


def replications_in(part: str) -> range:
    """Return the replications of a part; an empty range if its id has another form."""
    match = _ID.fullmatch(part)
    return range(int(match["first"]), int(match["last"]) + 1) if match else range(0)


def users_in(part: str) -> range | None:
    """Return the positions of the users of a part; None if it holds all users, or if its id has another form.

    >>> users_in("0003-0000-0000-u0000500-0000999-0123456789")
    range(500, 1000)
    """
    match = _ID.fullmatch(part)
    if match is None or match["first_user"] is None:
        return None
    return range(int(match["first_user"]), int(match["last_user"]) + 1)
