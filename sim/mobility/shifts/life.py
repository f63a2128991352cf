"""A user's life while shifts are applied to it, and the time windows in which they are in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sim.events import Shift
from sim.interfaces import Demand, IntArray, Mobility
from sim.mobility.shifts.parameters import AnyShift, ShiftOfPlaces
from sim.mobility.traces import Life, Trace

ENOUGH_QUERIES = 20
"""Number of queries that suffice to locate a user's home."""


@dataclass(frozen=True, slots=True)
class Window:
    """When a shift is in force for one user."""

    from_s: int
    until_s: float
    for_queries: float

    def is_on(self, time_s: int) -> bool:
        """Return whether the shift is in force at a time."""
        return self.from_s <= time_s < self.until_s


@dataclass
class ShiftedLife:
    """A user's life to which shifts are applied one after another."""

    user: str
    replication: int
    unshifted: Mapping[str, Life]
    """The lives of all users without any shift."""
    life: Life
    mobility: Mobility
    demand: Callable[[], Demand]
    """Returns the demand of one life: a new object each time, since demands may have state."""
    windows: dict[str, Window] = field(default_factory=dict)
    """Windows of the shifts that were applied by time, by name."""
    shifts: list[Shift] = field(default_factory=list)
    borders: set[int] = field(default_factory=set)
    moved: set[int] = field(default_factory=set)
    """The queries, from 0, from which on the places are others permanently."""
    away: list[slice] = field(default_factory=list)
    """The queries, from 0, that are temporarily at other places."""

    @property
    def base(self) -> Life:
        """The user's life without any shift."""
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
        """Put the test queries into other cells."""
        self.life = replace(self.life, test=Trace(self.user, self.times_s, cells))

    def record(self, spec: AnyShift, start: int, stop: int) -> None:
        """Record that a shift concerns the queries from `start` to before `stop`, counted from 0."""
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
        """Return the cells from the last permanent move to before a query, without those of temporary changes.

        If they are fewer than `ENOUGH_QUERIES`, the following cells complete them; if there are none, all cells count.
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
        """Return the life with all shifts applied so far."""
        shifts = tuple(sorted(self.shifts, key=lambda shift: shift.index))
        return replace(self.life, shifts=shifts, borders=tuple(sorted(self.borders - {1})))
