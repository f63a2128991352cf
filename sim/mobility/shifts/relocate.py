"""Relocation: another home with other places around it, or another place of work."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sim.components.registry import component
from sim.errors import InvalidValue
from sim.interfaces import FloatArray, Generator, IntArray
from sim.mobility.shifts.context import ShiftContext
from sim.mobility.shifts.life import ShiftedLife
from sim.mobility.shifts.parameters import ShiftOfPlaces
from sim.mobility.shifts.places import by_frequency, distances_km
from sim.mobility.synthetic.city import pick, thresholds
from sim.world.locations import Locations


@component("shift")
class RelocateParameters(ShiftOfPlaces):
    """Relocation: another home with other places around it, or another place of work."""

    kind: Literal["relocate"] = "relocate"
    what: Literal["home", "work"] = "home"
    """Place that is relocated: `home` with all other places, or `work` with the places closer to it than to home."""

    def new_cells(self, life: ShiftedLife, start: int, context: ShiftContext, rng: Generator) -> IntArray:  # noqa: ARG002
        """Return the cells of all test queries after the move.

        The mobility model moves the user if it supports that; otherwise the cells of the trace are moved.
        """
        cells = context.cells_elsewhere(life, start, what=self.what, name=self.name, for_good=self.for_good)
        if cells is not None:
            return cells
        ranked = by_frequency(life.cells_before(start))
        home = int(ranked[0])
        place, apart_from = home, None
        if self.what == "work":
            candidates = (*ranked.tolist(), *by_frequency(life.cells).tolist())
            second = next((cell for cell in candidates if cell != home), None)
            if second is None:
                raise InvalidValue(
                    f"{life.user} is always in cell {home} and has no second place that could be work: "
                    "choose `what: home`, or other users",
                    code="no-work-place",
                )
            place, apart_from = second, home
        return relocated(
            life.cells,
            locations=context.world.locations,
            attraction=context.attraction,
            place=place,
            apart_from=apart_from,
            rng=context.stream(self.name, life.user),
        )


def relocated(
    cells: IntArray, *, locations: Locations, attraction: FloatArray, place: int, apart_from: int | None, rng: Generator
) -> IntArray:
    """Move `place` to another cell, drawn by attraction, and the other cells with it, in the same relative positions.

    With `apart_from`, only cells that are closer to the place than to that cell move. A cell that would leave the world
    or have attraction 0 is replaced by the nearest cell with positive attraction. To make this rare, the positions are
    mirrored from east to west, from north to south or both if the queries then fit better.
    """
    weights = attraction.copy()
    weights[place] = 0.0
    if not weights.any():
        raise InvalidValue(
            f"the world must have another cell than {place} with positive attraction to move to, found none",
            code="no-other-place",
        )
    goal = pick(thresholds(weights), rng.random())
    distinct, at, counts = np.unique(cells, return_inverse=True, return_counts=True)
    if apart_from is None:
        moves = np.ones(distinct.size, dtype=bool)
    else:
        moves = distances_km(locations, place)[distinct] < distances_km(locations, apart_from)[distinct]
    east_km, north_km = (
        locations.x_km[distinct] - locations.x_km[place],
        locations.y_km[distinct] - locations.y_km[place],
    )
    placements = [_nearest(locations, attraction, goal, x * east_km, y * north_km) for y in (1, -1) for x in (1, -1)]
    misses_km = [float((counts * off_km)[moves].sum()) for _, off_km in placements]
    best = next(i for i, missed_km in enumerate(misses_km) if missed_km <= min(misses_km) + 1e-9)
    return np.asarray(np.where(moves, placements[best][0], distinct)[at], dtype=np.int64)


def _nearest(
    locations: Locations, attraction: FloatArray, goal: int, east_km: FloatArray, north_km: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the cells with positive attraction nearest to positions relative to `goal`, and their distances in km."""
    open_to = np.flatnonzero(attraction > 0)
    x_km, y_km = locations.x_km[goal] + east_km, locations.y_km[goal] + north_km
    away_km = np.hypot(x_km[:, None] - locations.x_km[open_to], y_km[:, None] - locations.y_km[open_to])
    off_km = away_km.min(axis=1)
    # Of equally near cells, the lowest: the tolerance excludes effects of rounding.
    return open_to[(away_km <= off_km[:, None] + 1e-9).argmax(axis=1)], off_km
