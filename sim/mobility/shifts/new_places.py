"""New places: other favourite places around the same home."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sim.components.registry import component
from sim.interfaces import FloatArray, Generator, IntArray
from sim.mobility.shifts.context import ShiftContext
from sim.mobility.shifts.life import ShiftedLife
from sim.mobility.shifts.parameters import ShiftOfPlaces
from sim.mobility.shifts.places import by_frequency, distances_km
from sim.world.locations import Locations


@component("shift")
class NewPlacesParameters(ShiftOfPlaces):
    """Other favourite places around the same home."""

    kind: Literal["new_places"] = "new_places"

    def new_cells(self, life: ShiftedLife, start: int, context: ShiftContext, rng: Generator) -> IntArray:  # noqa: ARG002
        """Return the cells of all test queries at the new places.

        The mobility model changes the places if it supports that; otherwise the cells of the trace are replaced.
        """
        cells = context.cells_elsewhere(life, start, what="places", name=self.name, for_good=self.for_good)
        if cells is not None:
            return cells
        return with_new_places(
            life.cells,
            locations=context.world.locations,
            attraction=context.attraction,
            home=int(by_frequency(life.cells_before(start))[0]),
            rng=context.stream(self.name, life.user),
        )


def with_new_places(
    cells: IntArray, *, locations: Locations, attraction: FloatArray, home: int, rng: Generator
) -> IntArray:
    """Replace every cell except home by another cell, drawn without replacement by A(x) exp(-d(home, x) / spread).

    The most frequent cells are replaced first. The spread is half of the mean distance of the other queries from home,
    as for draws by this formula on a plane of constant attraction, and at least the size of a cell. Cells for which no
    replacement is left do not change.
    """
    away_km = distances_km(locations, home)
    least_km = float(np.hypot(*locations.cell_size_km))
    elsewhere = cells[cells != home]
    spread_km = max(float(away_km[elsewhere].mean()) / 2, least_km) if elsewhere.size else least_km
    weights = np.where(np.arange(locations.n_cells) == home, 0.0, attraction)
    # Gumbel trick: the order of successive draws by weight without replacement, without underflow.
    noise = rng.gumbel(size=locations.n_cells)
    with np.errstate(divide="ignore"):
        keys = np.log(weights) - away_km / spread_km + noise
    left = np.argsort(-keys, kind="stable")[: np.count_nonzero(weights)].tolist()
    new = np.arange(locations.n_cells)
    for cell in by_frequency(cells).tolist():
        if cell != home and (other := next((place for place in left if place != cell), None)) is not None:
            new[cell] = other
            left.remove(other)
    return np.asarray(new[cells], dtype=np.int64)
