"""The queries of a user while shifts are applied, and the time windows of the shifts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sim.events import Shift
from sim.interfaces import Demand, IntArray, Mobility
from sim.mobility.shifts.parameters import AnyShift, ShiftOfPlaces
from sim.mobility.traces import Life, Trace

ENOUGH_QUERIES = 20
"""Number of queries that is sufficient to locate a user's home."""


@dataclass(frozen=True, slots=True)
class Window:
    """Time window in which a shift is in force for one user."""

    from_s: int
    """Start in s."""
    until_s: float
    """End in s (exclusive); infinite for a shift without an end time."""
    for_queries: float
    """Duration in queries; infinite for a shift without that limit."""

    def is_on(self, time_s: int) -> bool:
        """Return whether the shift is in force at a time."""
        return self.from_s <= time_s < self.until_s


@dataclass
class ShiftedLife:
    """The queries of a user, to which shifts are applied one after another."""

    user: str
    """Id of the user."""
    replication: int
    unshifted: Mapping[str, Life]
    """Queries of all users without any shift, by user."""
    life: Life
    """Queries with all shifts applied so far."""
    mobility: Mobility
    """Mobility with all permanent shifts applied so far."""
    demand: Callable[[], Demand]
    """Function that returns a new demand, since demands may have state."""
    windows: dict[str, Window] = field(default_factory=dict)
    """Windows of the shifts applied by time, by name."""
    shifts: list[Shift] = field(default_factory=list)
    """Starts and ends of the shifts applied so far."""
    borders: set[int] = field(default_factory=set)
    """Queries, counted from 1, at which the statistics change."""
    moved: set[int] = field(default_factory=set)
    """Queries, counted from 0, at which the places change permanently."""
    away: list[slice] = field(default_factory=list)
    """Queries, counted from 0, that are temporarily at other places."""

    @property
    def base(self) -> Life:
        """The queries of the user without any shift."""
        return self.unshifted[self.user]

    @property
    def cells(self) -> IntArray:
        """The cells of the test queries."""
        return self.life.test.cells

    @property
    def times_s(self) -> IntArray:
        """The times of the test queries."""
        return self.life.test.times_s

    def replace_cells(self, cells: IntArray) -> None:
        """Replace the cells of the test queries."""
        self.life = replace(self.life, test=Trace(self.user, self.times_s, cells))

    def record(self, spec: AnyShift, start: int, stop: int) -> None:
        """Record that a shift applies to the queries in the slice `start:stop`, counted from 0."""
        begins = {start}
        if spec.ramp_queries and start + spec.ramp_queries < stop:
            begins.add(start + spec.ramp_queries)
        self.shifts.append(Shift(self.user, spec.name, start + 1))
        ends = {stop} if stop < len(self.cells) else set()
        if ends:
            self.shifts.append(Shift(self.user, spec.name, stop + 1, ends=True))
        if spec.changes_statistics:
            self.borders |= {query + 1 for query in begins | ends}
        if isinstance(spec, ShiftOfPlaces) and spec.for_good:
            self.moved |= begins
        elif isinstance(spec, ShiftOfPlaces):
            self.away.append(slice(start, stop))

    def cells_before(self, start: int) -> IntArray:
        """Return the cells between the last permanent move and a query, without those of temporary shifts.

        If there are fewer than `ENOUGH_QUERIES`, the following cells are added; if there are none, return all cells.
        """
        since = max((query for query in self.moved if query <= start), default=0)
        usual = np.ones(len(self.cells), dtype=bool)
        for stretch in self.away:
            usual[stretch] = False
        recent = self.cells[since:start][usual[since:start]]
        cells = recent if since else np.concatenate([self.life.past.cells, recent])
        if cells.size < ENOUGH_QUERIES:
            cells = np.concatenate([cells, self.cells[start:][usual[start:]][: ENOUGH_QUERIES - cells.size]])
        return cells if cells.size else self.cells

    def changed(self) -> Life:
        """Return the queries with all shifts applied so far."""
        shifts = tuple(sorted(self.shifts, key=lambda shift: shift.index))
        return replace(self.life, shifts=shifts, borders=tuple(sorted(self.borders - {1})))
