"""Blocks: areas of replications and users, which chunks cover, and the gaps between them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

EVERYBODY = sys.maxsize
"""Stop of a range of users that includes all users, whatever their number."""


@dataclass(frozen=True, slots=True)
class Area:
    """Replications and users of a chunk."""

    replications: range
    users: range | None = None
    """Positions of the users; None: all users."""

    @property
    def columns(self) -> range:
        """The positions of the users; all positions if it has all users."""
        return range(EVERYBODY) if self.users is None else self.users


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """Size of the chunks of a simulation: a number of replications, or a number of blocks of users."""

    replications: int = 1
    """Number of replications that a chunk with all users joins, at least 1."""
    blocks: int = 1
    """Number of blocks into which the users are divided."""
    users: int = EVERYBODY
    """Number of users."""

    def cut(self, gap: Area) -> Iterator[Area]:
        """Yield the areas of the chunks that fill a gap.

        The borders of the blocks depend on the number of users and blocks alone, not on the gap.
        """
        if gap.users is None and self.blocks == 1:
            step = self.replications if len(gap.replications) > 1 else 1
            for first in range(gap.replications.start, gap.replications.stop, step):
                yield Area(range(first, min(first + step, gap.replications.stop)))
            return
        columns = range(self.users) if gap.users is None else gap.users
        borders = (self.users * number // self.blocks for number in range(self.blocks + 1))
        blocks = [
            range(max(first, columns.start), min(stop, columns.stop))
            for first, stop in pairwise(borders)
            if first < columns.stop and stop > columns.start
        ]
        for replication in gap.replications:
            yield from (Area(range(replication, replication + 1), block) for block in blocks)


def uncovered(replications: range, taken: Sequence[Area], users: int) -> Iterator[Area]:
    """Yield the areas of some replications that others leave free; a gap with all users has `users` None.

    `taken` do not overlap.

    >>> list(uncovered(range(4), [Area(range(0, 1)), Area(range(2, 3), range(0, 5))], users=9))
    [Area(replications=range(1, 2), users=None), Area(replications=range(2, 3), users=range(5, 9)), \
Area(replications=range(3, 4), users=None)]
    """
    ends = {end for area in taken for end in (area.replications.start, area.replications.stop)}
    borders = {replications.start, replications.stop, *(end for end in ends if end in replications)}
    free: range | None = None
    rows = _by_row(taken)
    for first, stop in pairwise(sorted(borders)):
        columns = rows.get(first, [])
        if not columns:
            free = range(first if free is None else free.start, stop)
            continue
        if free is not None:
            yield Area(free)
            free = None
        for gap in _gaps(range(users), columns):
            yield Area(range(first, stop), gap)
    if free is not None:
        yield Area(free)


def overlapping(areas: Sequence[Area]) -> tuple[int, int] | None:
    """Return the positions of two areas that have a user in a replication in common; None if there are none.

    >>> overlapping([Area(range(0, 2), range(0, 5)), Area(range(1, 2), range(5, 9)), Area(range(1, 3))])
    (0, 2)
    """
    by_row: dict[int, list[int]] = {}
    for place, area in enumerate(areas):
        for replication in area.replications:
            by_row.setdefault(replication, []).append(place)
    for places in by_row.values():
        places.sort(key=lambda place: areas[place].columns.start)
        for one, other in pairwise(places):
            if areas[other].columns.start < areas[one].columns.stop:
                return min(one, other), max(one, other)
    return None


def _by_row(areas: Sequence[Area]) -> dict[int, list[range]]:
    """Return the ranges of users that are taken in each replication, in order."""
    rows: dict[int, list[range]] = {}
    for area in areas:
        for replication in area.replications:
            rows.setdefault(replication, []).append(area.columns)
    for columns in rows.values():
        columns.sort(key=lambda own: own.start)
    return rows


def _gaps(whole: range, taken: Sequence[range]) -> Iterator[range]:
    """Yield the gaps that ordered ranges leave in a whole range.

    >>> list(_gaps(range(10), [range(2, 4), range(4, 5), range(9, 12)]))
    [range(0, 2), range(5, 9)]
    """
    free = whole.start
    for own in taken:
        if free < min(own.start, whole.stop):
            yield range(free, min(own.start, whole.stop))
        free = max(free, own.stop)
    if free < whole.stop:
        yield range(free, whole.stop)
