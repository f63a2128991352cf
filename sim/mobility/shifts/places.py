"""Operations on the cells of a trace for shifts of places.

They apply to recorded and synthetic users. Users never visit cells whose attraction is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.interfaces import FloatArray, Generator, IntArray
from sim.mobility.synthetic.city import thresholds

if TYPE_CHECKING:
    from sim.world.locations import Locations


def share_of_new(n_queries: int, *, start: int, stop: int, over: int = 0, weight: float = 1.0) -> FloatArray:
    """Return the probability that each query is at the new places, shape (n_queries,).

    It is 0 before the query `start` (counted from 0) and from `stop` on, increases in equal steps from `start`, and is
    `weight` after `over` queries.

    >>> share_of_new(6, start=1, stop=5, over=1).tolist()
    [0.0, 0.5, 1.0, 1.0, 1.0, 0.0]
    """
    since = np.arange(n_queries) - start
    rising = np.clip((since + 1) / (over + 1), 0.0, 1.0)
    rising[stop:] = 0.0
    return np.asarray(weight * rising, dtype=np.float64)


def mixed(old: IntArray, new: IntArray, share: FloatArray, rng: Generator) -> IntArray:
    """Return the new cell of each query with the probability in `share`, otherwise the old cell.

    >>> mixed(np.array([1, 2, 3]), np.array([7, 8, 9]), np.array([0.0, 1.0, 1.0]), None)
    array([1, 8, 9])
    """
    if ((share == 0) | (share == 1)).all():
        return np.where(share == 1, new, old)
    return np.where(rng.random(share.size) < share, new, old)


def by_frequency(cells: IntArray) -> IntArray:
    """Return the distinct cells, the most frequent first; ties in the order of cells.

    >>> by_frequency(np.array([4, 7, 7, 9, 4]))
    array([4, 7, 9])
    """
    distinct, counts = np.unique(cells, return_counts=True)
    return distinct[np.argsort(-counts, kind="stable")]


def drawn(weights: FloatArray, size: int, rng: Generator) -> IntArray:
    """Draw cells independently by weight."""
    return np.asarray(thresholds(weights).searchsorted(rng.random(size), side="right"), dtype=np.int64)


def distances_km(locations: Locations, cell: int) -> FloatArray:
    """Return the Euclidean distances of all cells from one cell in km, shape (n_cells,)."""
    return np.asarray(
        np.hypot(locations.x_km - locations.x_km[cell], locations.y_km - locations.y_km[cell]), dtype=np.float64
    )
