"""Prior error P0: the adversary error of the best guess without any report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sim.interfaces import FloatArray, IntArray
from sim.mobility.statistics import Statistics
from sim.mobility.traces import Trace
from sim.world.distance import Distance

Held = Mapping[str, Statistics] | None
"""Statistics of each user that an adversary holds; None: the adversary has no belief, and P0 is the smallest one."""


def prior_errors_km(traces: Sequence[Trace], held: Sequence[Held], distance: Distance) -> FloatArray:
    """Return P0 of each user and adversary in km, shape (n_users, n_attacks).

    P0 = 1/R sum_r d_P(x^r, h) with h = argmin_y sum_x pi(x) d_P(x, y): the mean error over the user's test cells x^r of
    the best guess under the profile pi that the adversary holds. If pi is the profile of the test itself, as for an
    adversary who knows the test statistics, this is min_y sum_x pi(x) d_P(x, y), the smallest P0. Shifts do not change
    it: pi counts the whole test. NaN for an empty trace.
    """
    errors = np.full((len(traces), len(held)), np.nan)
    shared: dict[int, int] = {}
    for row, trace in enumerate(traces):
        if not len(trace):
            continue
        smallest: float | None = None
        for column, statistics in enumerate(held):
            if statistics is None:
                smallest = smallest_prior_error_km(trace.cells, distance) if smallest is None else smallest
                errors[row, column] = smallest
                continue
            own = statistics[trace.user]
            # Users with the same training set share its statistics.
            if id(own) not in shared:
                shared[id(own)] = distance.best_cell(own.profile)
            errors[row, column] = distance.between_km(trace.cells, shared[id(own)]).mean()
    return errors


def smallest_prior_error_km(cells: Sequence[int] | IntArray, distance: Distance) -> float:
    """Return min_y 1/R sum_r d_P(x^r, y) in km, the P0 of an adversary who knows how often each cell is visited.

    >>> from sim.world import Grid, manhattan
    >>> line = manhattan(Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0))
    >>> smallest_prior_error_km([0, 0, 0, 2], line)
    0.5
    """
    guess = distance.best_cell(np.bincount(cells, minlength=distance.n_cells) / len(cells))
    return float(distance.between_km(cells, guess).mean())
