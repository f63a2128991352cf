"""Another life for somebody's queries: other cells at the same moments, and how much of them.

Everything here is about the cells of one trace, in order; how they came about does not matter, so that recorded
people can change their lives like synthetic ones. Where attraction is 0 nobody goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.interfaces import FloatArray, Generator, IntArray
from sim.mobility.synthetic.city import fading, pick, thresholds

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
    """Return the cells that occur, each once, the most frequent first; of equals the lowest.

    >>> by_frequency(np.array([4, 7, 7, 9, 4]))
    array([4, 7, 9])
    """
    found, counts = np.unique(cells, return_counts=True)
    return found[np.argsort(-counts, kind="stable")]


def drawn(weights: FloatArray, size: int, rng: Generator) -> IntArray:
    """Draw cells by weight, independently of each other."""
    return np.asarray(thresholds(weights).searchsorted(rng.random(size), side="right"), dtype=np.int64)


def relocated(
    cells: IntArray, *, grid: Grid, attraction: FloatArray, place: int, apart_from: int | None, rng: Generator
) -> IntArray:
    """Move cells so that `place` comes to lie on another cell, drawn by attraction, and the others keep around it.

    With `apart_from`, only those move that are nearer to the place than to that cell. What would leave the grid, or
    come to lie where nobody goes, ends in the nearest cell where people do go. To keep that rare, a life is mirrored,
    east for west or north for south or both, where its queries then fit better in.
    """
    life = attraction.copy()
    life[place] = 0.0
    if not life.any():
        raise ValueError(f"there is no cell to move to but {place}, where she is: the grid has no other place to go")
    goal = pick(thresholds(life), rng.random())
    found, at, counts = np.unique(cells, return_inverse=True, return_counts=True)
    if apart_from is None:
        moves = np.ones(found.size, dtype=bool)
    else:
        moves = _away_km(grid, place)[found] < _away_km(grid, apart_from)[found]
    east_km, north_km = grid.x_km[found] - grid.x_km[place], grid.y_km[found] - grid.y_km[place]
    ways = [_nearest(grid, attraction, goal, x * east_km, y * north_km) for y in (1, -1) for x in (1, -1)]
    misses_km = [float((counts * off_km)[moves].sum()) for _, off_km in ways]
    best = next(way for way, missed_km in zip(ways, misses_km, strict=True) if missed_km <= min(misses_km) + 1e-9)
    return np.asarray(np.where(moves, best[0], found)[at], dtype=np.int64)


def _nearest(
    grid: Grid, attraction: FloatArray, goal: int, east_km: FloatArray, north_km: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the cells where people go that are nearest to places around a cell, and how far off they are."""
    open_to = np.flatnonzero(attraction > 0)
    x_km, y_km = grid.x_km[goal] + east_km, grid.y_km[goal] + north_km
    away_km = np.hypot(x_km[:, None] - grid.x_km[open_to], y_km[:, None] - grid.y_km[open_to])
    off_km = away_km.min(axis=1)
    # Of equally near cells the lowest, whatever the rounding.
    return open_to[(away_km <= off_km[:, None] + 1e-9).argmax(axis=1)], off_km


def with_new_places(cells: IntArray, *, grid: Grid, attraction: FloatArray, home: int, rng: Generator) -> IntArray:
    """Replace every cell but home by another one, drawn without repetition by A(x) exp(-d(home, x) / spread).

    The most frequent are drawn first. The spread is half of the mean distance from home of the queries elsewhere,
    which it would be if they were drawn like this on an even plane; at least the size of a cell. If the cells run out,
    the rest stays.
    """
    away_km = _away_km(grid, home)
    least_km = float(np.hypot(grid.width_km / grid.cols, grid.height_km / grid.rows))
    elsewhere = cells[cells != home]
    spread_km = max(float(away_km[elsewhere].mean()) / 2, least_km) if elsewhere.size else least_km
    life = np.where(np.arange(grid.n_cells) == home, 0.0, attraction)
    # The order in which cells come if one after the other is drawn by weight (the Gumbel trick): nothing underflows.
    noise = rng.gumbel(size=grid.n_cells)
    with np.errstate(divide="ignore"):
        keys = np.log(life) - away_km / spread_km + noise
    left = np.argsort(-keys, kind="stable")[: np.count_nonzero(life)].tolist()
    new = np.arange(grid.n_cells)
    for cell in by_frequency(cells).tolist():
        if cell != home and (other := next((place for place in left if place != cell), None)) is not None:
            new[cell] = other
            left.remove(other)
    return np.asarray(new[cells], dtype=np.int64)


def holiday(
    *, grid: Grid, attraction: FloatArray, home: int, away_km: float, spread_km: float, rng: Generator
) -> FloatArray:
    """Return where somebody goes on holiday: around a place that is drawn by attraction, far from home.

    Where nothing is so far away it is the farthest cell where people go.
    """
    from_home_km = np.where(attraction > 0, _away_km(grid, home), -1.0)
    far = np.where(from_home_km >= away_km, attraction, 0.0)
    place = pick(thresholds(far), rng.random()) if far.any() else int(from_home_km.argmax())
    return np.asarray(attraction * fading(grid, place, spread_km), dtype=np.float64)


def _away_km(grid: Grid, cell: int) -> FloatArray:
    return np.asarray(np.hypot(grid.x_km - grid.x_km[cell], grid.y_km - grid.y_km[cell]), dtype=np.float64)
