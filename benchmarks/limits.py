"""Limits of the rows, in NumPy and SimPy: unavoidable work, or the textbook algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import simpy

from sim.inference.em import em
from sim.interfaces import FloatArray, IntArray


def gradient_pass(queries: int, n_cells: int) -> Callable[[], FloatArray]:
    """Return a function that computes the gradient of the mean log-likelihood: two matrix-vector products."""
    rows = 0.01 + np.random.default_rng(0).random((queries, n_cells))
    profile, weights = np.full(n_cells, 1 / n_cells), np.full(queries, 1 / queries)

    def once() -> FloatArray:
        fitted = rows @ profile
        return np.asarray((weights / fitted) @ rows)

    return once


def prediction(n_cells: int) -> Callable[[], FloatArray]:
    """Return a function for one step of a Markov chain: a vector times a matrix."""
    transition = np.random.default_rng(0).random((n_cells, n_cells))
    posterior = np.full(n_cells, 1 / n_cells)
    return lambda: np.asarray(posterior @ transition)


def bare_timeouts(agents: int, queries: int, every_s: int) -> None:
    """Run processes in one SimPy environment that only wait."""
    environment = simpy.Environment()

    def wait() -> Iterator[simpy.Event]:
        for _ in range(queries):
            yield environment.timeout(every_s)

    for _ in range(agents):
        environment.process(wait())  # type: ignore[arg-type]
    environment.run()


def textbook_cost(channel: FloatArray, prior: FloatArray, distance_km: FloatArray) -> FloatArray:
    """Return sum over x of prior(x) f(z | x) d(x, y) for each output z and cell y: the n x n x n product."""
    return np.asarray((prior[:, None] * channel).T @ distance_km)


def textbook_remap(channel: FloatArray, prior: FloatArray, distance_km: FloatArray) -> IntArray:
    """Return the best cell for each output by the n x n x n product and the argmin of its rows."""
    return np.asarray(textbook_cost(channel, prior, distance_km).argmin(axis=1))


def textbook_query(seen: FloatArray, channel: FloatArray, distance_km: FloatArray, gap: float) -> None:
    """Do the work of PEB at a query with textbook algorithms: EM from the uniform profile to the gap, then the remap.

    EM stops after `sim.inference.em.EM_ITERATIONS` steps, so its cost is a lower bound.
    """
    textbook_remap(channel, em(seen, gap=gap).profile, distance_km)
