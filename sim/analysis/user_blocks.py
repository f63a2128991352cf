"""Blocks of users of an event log: groups of parts that together hold everything about some users.

The parts of a large run hold a block of users each (`sim.storage.part_ids`). Analyses of such a run read one group of
parts after another. A group has all sweep points, mechanisms, attacks and replications of its users, so metrics of a
user, and comparisons paired by user, are complete within a group. Only moments over users are merged between groups, so
memory does not grow with the number of users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from sim.analysis.event_log import SERIES
from sim.scenario.models import Scenario
from sim.storage.part_ids import replications_in, users_in

MOST_ROWS = 50_000
"""Largest estimated number of combinations of point, LPPM, attack, user and replication that are analysed together."""
BLOCK_ROWS = 20_000
"""Estimated number of such combinations in a group of a larger log."""
_WINDOWS = 5
"""Number of rows that a combination counts for in a log with a row per query."""

Group = tuple[list[str], ...]
"""Parts of the same users, a list for each run."""


def rows_per_user(scenario: Scenario) -> int:
    """Return the estimated number of rows of a user in one replication at a sweep point.

    These are the combinations of LPPM and attack. With a row per query, time series have several windows for each.
    """
    windows = _WINDOWS if scenario.record.log == "queries" else 1
    return max(len(scenario.lppms), 1) * max(len(scenario.attacks), 1) * windows


def user_blocks(parts: Sequence[str], rows: int = 1) -> list[list[str]]:
    """Return the parts of a run in groups of the same users; `rows` is the result of `rows_per_user`.

    There is one group if the log is small or if a part has all users.
    """
    return [group for (group,) in aligned_blocks([parts], [rows])]


def aligned_blocks(runs: Sequence[Sequence[str]], rows: Sequence[int]) -> list[Group]:
    """Return the parts of several runs with the same users, by position, in groups of the same users."""
    everything: Group = tuple(list(parts) for parts in runs)
    ranges = [[(users_in(part), part) for part in parts] for parts in runs]
    if any(users is None for own in ranges for users, _ in own):
        return [everything]
    sizes = [
        (users, number, part, len(users) * max(len(replications_in(part)), 1) * per_user)
        for number, (own, per_user) in enumerate(zip(ranges, rows, strict=True))
        for users, part in own
        if users is not None
    ]
    if sum(size for *_, size in sizes) <= MOST_ROWS:
        return [everything]
    groups: list[Group] = []
    stop = 0
    waiting = BLOCK_ROWS
    for users, number, part, size in sorted(sizes, key=lambda entry: (entry[0].start, entry[1], entry[2])):
        # A group may end only where no part continues.
        if users.start >= stop and waiting >= BLOCK_ROWS:
            groups.append(tuple([] for _ in runs))
            waiting = 0
        groups[-1][number].append(part)
        stop, waiting = max(stop, users.stop), waiting + size
    return [tuple(sorted(parts) for parts in group) for group in groups]


@dataclass(frozen=True, slots=True)
class UserBlocks:
    """Means of each user by batch of replications, block by block; a large log is read again by each iteration."""

    series: pd.DataFrame
    """The distinct points, LPPMs and attacks, in order, with the other columns that do not depend on the user."""
    read: Callable[[], Iterable[pd.DataFrame]]
    """Function that returns the blocks."""
    n_blocks: int = 1

    @classmethod
    def of(cls, users: pd.DataFrame) -> UserBlocks:
        """Return one block of users, in memory."""
        return cls(users.drop_duplicates(SERIES), lambda: [users])

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return iter(self.read())

    def mapped(self, convert: Callable[[pd.DataFrame], pd.DataFrame]) -> UserBlocks:
        """Return the blocks with a function applied to each, and to the series."""
        return UserBlocks(convert(self.series), lambda: (convert(block) for block in self), self.n_blocks)

    def where(self, column: str, value: object) -> UserBlocks:
        """Return the rows with this value in a column."""
        return self.mapped(lambda table: table[table[column] == value])
