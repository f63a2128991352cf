"""Metrics on cells and few pairs of them that speak for all: greedy spanners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.interfaces import FloatArray, IntArray

_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Spanner:
    """Edges whose ways are never longer than `dilation` times the distance."""

    start: IntArray
    end: IntArray
    length_km: FloatArray
    dilation: float
    """What is reached, not what was asked for."""


def metric(distance_km: FloatArray) -> FloatArray:
    """Return the greatest metric below a distance: the shorter of both ways, by detours where these are shorter still.

    >>> metric(np.array([[0.0, 1.0, 9.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    shortest: FloatArray = np.minimum(distance_km, distance_km.T)
    for via in range(len(shortest)):
        shortest = np.minimum(shortest, shortest[:, via, np.newaxis] + shortest[via])
    return shortest


def greedy_spanner(metric_km: FloatArray, dilation: float) -> Spanner:
    """Take pairs from near to far, each if no way along those taken is short enough (Althöfer et al. 1993).

    With a dilation of 1 all ways are as long as the distance; on a Manhattan grid neighbours are enough for that.

    >>> line_km = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> greedy_spanner(line_km, 1.0).end.tolist()
    [1, 2, 3]
    """
    if not 1 <= dilation < np.inf:
        raise ValueError(f"spanner_dilation must be in [1, inf), got {dilation}")
    n_cells = len(metric_km)
    starts, ends = np.triu_indices(n_cells, 1)
    lengths = metric_km[starts, ends]
    way_km = np.full((n_cells, n_cells), np.inf)
    np.fill_diagonal(way_km, 0.0)
    taken = []
    for pair in np.argsort(np.round(lengths, 9), kind="stable"):
        start, end, length = starts[pair], ends[pair], lengths[pair]
        if way_km[start, end] > dilation * length * (1 + _SLACK) + _SLACK:
            taken.append(pair)
            there = way_km[:, start, np.newaxis] + (length + way_km[end])
            way_km = np.minimum(way_km, np.minimum(there, there.T))
    apart = lengths > 0
    reached = way_km[starts, ends][apart] / lengths[apart]
    return Spanner(starts[taken], ends[taken], lengths[taken], max(float(reached.max(initial=1.0)), 1.0))
