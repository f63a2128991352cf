"""A small city for the tests of shifts of places."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from sim.interfaces import FloatArray
from sim.mobility.synthetic.city import attraction
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=6, cols=7, width_km=7, height_km=6)


LIFE = attraction(GRID, seed=5)


EVEN = np.full(GRID.n_cells, 1 / GRID.n_cells)


traces = st.lists(st.integers(0, GRID.n_cells - 1), min_size=1, max_size=40).map(np.array)


seeds = st.integers(0, 1000)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def at(row: int, col: int) -> int:
    return row * GRID.cols + col


def only(*cells: int) -> FloatArray:
    """Return an attraction that is positive only in these cells."""
    life = np.zeros(GRID.n_cells)
    life[list(cells)] = 1 / len(cells)
    return life
