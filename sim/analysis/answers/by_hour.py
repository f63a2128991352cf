"""Guesses without any report by an adversary who knows the hour of the day of each query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from sim.analysis.answers.located import distances_km, within
from sim.analysis.answers.reidentified_places import neighbours
from sim.interfaces import FloatArray, IntArray

HOURS = 24
_MOST_PENDING = 1_000_000
"""Number of visits after which visits to the same place are added up."""


class HourlyVisits:
    """Visits of groups of users by hour of the day; memory is that of the distinct (group, hour, cell)."""

    def __init__(self, n_groups: int, n_cells: int) -> None:
        self._shape = (n_groups * HOURS, n_cells)
        self._visits = csr_array(self._shape)
        self._pending: list[tuple[IntArray, IntArray, FloatArray]] = []
        self._waiting = 0

    def add(self, group: int, hours: IntArray, cells: IntArray) -> None:
        """Add the visits of a user of a group, who has weight 1."""
        self._pending.append((group * HOURS + hours, cells, np.full(len(cells), 1 / len(cells))))
        self._waiting += len(cells)
        if self._waiting > _MOST_PENDING:
            self._add_up()

    def of_others(self, group: int, hour: int) -> FloatArray:
        """Return the visits of all other groups in an hour, shape (n_cells,)."""
        self._add_up()
        rows = [other * HOURS + hour for other in range(self._shape[0] // HOURS) if other != group]
        return np.asarray(self._visits[rows].sum(axis=0), dtype=float)

    def _add_up(self) -> None:
        if self._pending:
            rows, cells, weights = (np.concatenate(own) for own in zip(*self._pending, strict=True))
            self._visits = self._visits + coo_array((weights, (rows, cells)), shape=self._shape).tocsr()
            self._pending, self._waiting = [], 0


def located_by_habits(
    at: FloatArray, which: IntArray, hours: IntArray, days: IntArray, radius_km: float, otherwise: int
) -> NDArray[np.bool_]:
    """Return which queries are located by the place that covers most visits of the same hour on the user's other days.

    The user's visits are at the places `at[which]`, positions in km; `otherwise` is the guess in hours that no other
    day has. The day of a query does not count for its own guess: in an hour with one visit it would always succeed.

    >>> at, hours, days = np.array([[0.0, 0.0], [5.0, 0.0]]), np.array([8, 9, 8, 9, 8]), np.array([0, 0, 1, 1, 2])
    >>> located_by_habits(at, np.array([0, 1, 0, 0, 0]), hours, days, 0.1, otherwise=0).tolist()
    [True, False, True, False, True]
    """
    near = neighbours(at, radius_km)
    guesses = np.full(len(which), otherwise)
    for hour in np.unique(hours):
        chosen = np.flatnonzero(hours == hour)
        _, day = np.unique(days[chosen], return_inverse=True)
        visits = np.zeros((day.max() + 1, len(at)))
        np.add.at(visits, (day, which[chosen]), 1.0)
        others = visits.sum(axis=0) - visits
        best = np.asarray(others @ near).argmax(axis=1)
        guesses[chosen] = np.where(others.any(axis=1), best, otherwise)[day]
    return within(distances_km(at[guesses], at[which]), radius_km)
