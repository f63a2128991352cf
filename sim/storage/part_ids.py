"""Ids of parts: ``<point>-<first>-<last>-<digest>``, with the sweep point and the replications of a part."""

from __future__ import annotations

import re

_ID = re.compile(r"(?P<point>\d{4,})-(?P<first>\d{4,})-(?P<last>\d{4,})-[0-9a-f]{10}")


def part_id(point: int, replications: range, digest: str) -> str:
    """Return the id of a part.

    >>> part_id(3, range(0, 5), "0123456789")
    '0003-0000-0004-0123456789'
    """
    return f"{point:04d}-{replications.start:04d}-{replications.stop - 1:04d}-{digest}"


def point_in(part: str) -> int | None:
    """Return the sweep point of a part; None if its id has another form."""
    match = _ID.fullmatch(part)
    return int(match["point"]) if match else None


def replications_in(part: str) -> range:
    """Return the replications of a part; an empty range if its id has another form."""
    match = _ID.fullmatch(part)
    return range(int(match["first"]), int(match["last"]) + 1) if match else range(0)
