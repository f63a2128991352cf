"""Estimation problems for the tests of all solvers."""

from __future__ import annotations

import numpy as np
import pytest

from sim.interfaces import FloatArray


def exponential_rows(count: int, rows: int, cols: int, epsilon_per_km: float, seed: int = 0) -> FloatArray:
    """Return the likelihoods of `count` outputs of the exponential mechanism for a user with six favourite cells."""
    rng = np.random.default_rng(seed)
    row, col = np.divmod(np.arange(rows * cols), cols)
    distance_km = 1.1 * (np.abs(row[:, None] - row) + np.abs(col[:, None] - col))
    channel = np.exp(-epsilon_per_km * distance_km)
    channel /= channel.sum(axis=1, keepdims=True)
    favourites = rng.permutation(rows * cols)[:6]
    cells = rng.choice(favourites, size=count)
    outputs = [rng.choice(rows * cols, p=channel[cell]) for cell in cells]
    return np.asarray(channel[:, outputs].T)


def hiding_rows(count: int, n_cells: int, reveal_probability: float, seed: int = 0) -> FloatArray:
    """Return likelihoods of location hiding: a constant with a peak at the reported cell."""
    rng = np.random.default_rng(seed)
    rows = np.full((count, n_cells), (1 - reveal_probability) / (n_cells - 1))
    rows[np.arange(count), rng.integers(0, n_cells // 4, count)] = reveal_probability
    return rows


PROBLEMS = {
    "exponential 0.3": exponential_rows(60, 6, 5, 0.3),
    "exponential 1": exponential_rows(60, 6, 5, 1.0),
    "exponential 2": exponential_rows(60, 6, 5, 2.0),
    "hiding 0.4": hiding_rows(60, 40, 0.4),
    "random": np.random.default_rng(3).random((30, 12)),
    "zeros": np.random.default_rng(4).random((20, 8)) * (np.arange(160).reshape(20, 8) % 3 > 0),
    "one row": np.array([[0.2, 0.5, 0.3]]),
    "one cell": np.array([[0.2], [0.7]]),
}


every_problem = pytest.mark.parametrize("rows", PROBLEMS.values(), ids=PROBLEMS.keys())
