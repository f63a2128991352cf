"""The first two weeks of reports of a sample of users, whose linkage is attacked."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from sim.analysis.answers.home_exposure import DAY_S
from sim.analysis.answers.linkage import WEEK_S, Linkage, link
from sim.interfaces import FloatArray, IntArray
from sim.storage.sampling import UserSample

MOST_LINKED = 200
"""Largest number of users whose weeks are linked with each other."""


class Group(NamedTuple):
    """Simulated users whose reports are compared with each other."""

    point: int
    lppm: str
    replication: int


class Weeks:
    """Reported positions in the first and the second week; users that leave the sample are ignored."""

    def __init__(self) -> None:
        self._sample = UserSample(MOST_LINKED)
        self._users: dict[Group, dict[str, tuple[FloatArray, FloatArray]]] = defaultdict(dict)

    def add(self, group: Group, user: str, positions: FloatArray, times_s: IntArray) -> None:
        """Add the reports of a user; days of a week are counted from midnight before the first report."""
        if not len(times_s):
            return
        week = (times_s - times_s[0] // DAY_S * DAY_S) // WEEK_S
        first, second = positions[week == 0], positions[week == 1]
        # Only users who can be linked count for the sample.
        if len(first) and len(second):
            self._sample.add([user])
            if user in self._sample:
                self._users[group][user] = first, second

    def linkages(self) -> dict[Group, Linkage]:
        """Return the linkage of the users of each group with at least two."""
        linked = {}
        for group, users in self._users.items():
            own = [weeks for user, weeks in users.items() if user in self._sample]
            if len(own) > 1:
                linked[group] = link([first for first, _ in own], [second for _, second in own])
        return linked

    @property
    def is_sample(self) -> bool:
        """Whether there may be more users than those linked."""
        return len(self._sample) == MOST_LINKED
