"""Operations on the cells of a trace that shifts of places share.

They apply to recorded users as to synthetic ones. Nobody goes where attraction is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.interfaces import FloatArray, Generator, IntArray
from sim.mobility.synthetic.city import thresholds

if TYPE_CHECKING:
    from sim.world.grid import Grid


def share_of_new(n_queries: int, *, start: int, stop: int, over: int = 0, weight: float = 1.0) -> FloatArray:
    """Return the probability with which each query belongs to the new life, shape (n_queries,).

    It is 0 before the query `start` (counted from 0) and from `stop` on, rises in equal steps, and is `weight` after
    `over` queries.

    >>> share_of_new(6, start=1, stop=5, over=1).tolist()
    [0.0, 0.5, 1.0, 1.0, 1.0, 0.0]
    """
    since = np.arange(n_queries) - start
    rising = np.clip((since + 1) / (over + 1), 0.0, 1.0)
    rising[stop:] = 0.0
    return np.asarray(weight * rising, dtype=np.float64)


def mixed(old: IntArray, new: IntArray, share: FloatArray, rng: Generator) -> IntArray:
    """Return the new cell of each query with the probability that `share` gives, else the old one.

    >>> mixed(np.array([1, 2, 3]), np.array([7, 8, 9]), np.array([0.0, 1.0, 1.0]), None)
    array([1, 8, 9])
    """
    if ((share == 0) | (share == 1)).all():
        return np.where(share == 1, new, old)
    return np.where(rng.random(share.size) < share, new, old)


def by_frequency(cells: IntArray) -> IntArray:
    """Return the cells that occur, each once, the most frequent first; ties by index.

    >>> by_frequency(np.array([4, 7, 7, 9, 4]))
    array([4, 7, 9])
    """
    distinct, counts = np.unique(cells, return_counts=True)
    return distinct[np.argsort(-counts, kind="stable")]


def drawn(weights: FloatArray, size: int, rng: Generator) -> IntArray:
    """Draw cells by weight, independently of each other."""
    return np.asarray(thresholds(weights).searchsorted(rng.random(size), side="right"), dtype=np.int64)


def distances_km(grid: Grid, cell: int) -> FloatArray:
    """Return the straight-line distance of each cell from one, shape (n_cells,)."""
    return np.asarray(np.hypot(grid.x_km - grid.x_km[cell], grid.y_km - grid.y_km[cell]), dtype=np.float64)
