"""The centre of a set of cells."""

from __future__ import annotations

import numpy as np

from sim.inference.bayes import cheapest
from sim.interfaces import IntArray
from sim.world.distance import Distance


def centre_of(cells: IntArray | tuple[int, ...], distance: Distance) -> int:
    """Return which of these cells, in order, has the least sum of distances from all of them; of equals, the lowest."""
    own = np.asarray(cells)
    km = distance.matrix_km[np.ix_(own, own)]
    best = cheapest(km.sum(axis=0)[None], np.array([float(own.size)]), longest_km=float(km.max()))
    return int(own[best[0]])
