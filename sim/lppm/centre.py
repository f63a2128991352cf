"""The centre of a set of cells."""

from __future__ import annotations

import numpy as np

from sim.inference.bayes import cheapest
from sim.interfaces import IntArray
from sim.world.distance import Distance


def centre_of(cells: IntArray | tuple[int, ...], distance: Distance) -> int:
    """Return the cell with the smallest sum of distances from all cells; ties go to the first cell.

    `cells` are sorted in increasing order.
    """
    members = np.asarray(cells)
    km = distance.between_km(members[:, None], members)
    best = cheapest(km.sum(axis=0)[None], np.array([float(members.size)]), longest_km=float(km.max()))
    return int(members[best[0]])
