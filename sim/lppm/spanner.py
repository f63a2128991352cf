"""Metrics on cells, and greedy spanners: few pairs of cells whose paths approximate all distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.interfaces import FloatArray, IntArray

_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Spanner:
    """Edges whose shortest paths are at most `dilation` times as long as the distance."""

    start: IntArray
    end: IntArray
    length_km: FloatArray
    dilation: float
    """Dilation attained, which may be smaller than the one requested."""


def metric(distance_km: FloatArray) -> FloatArray:
    """Return the largest metric below a distance: the smaller of both directions, shortened by detours.

    >>> metric(np.array([[0.0, 1.0, 9.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    shortest: FloatArray = np.minimum(distance_km, distance_km.T)
    for via in range(len(shortest)):
        shortest = np.minimum(shortest, shortest[:, via, np.newaxis] + shortest[via])
    return shortest


def greedy_spanner(metric_km: FloatArray, dilation: float) -> Spanner:
    """Return the greedy spanner of a metric (Althöfer et al. 1993).

    Pairs are considered in order of distance; a pair becomes an edge if no path along earlier edges is short enough.
    `dilation` is in [1, inf). With a dilation of 1 all paths are as long as the distance; on a Manhattan grid the edges
    then join neighbouring cells only.

    >>> line_km = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> greedy_spanner(line_km, 1.0).end.tolist()
    [1, 2, 3]
    """
    if not 1 <= dilation < np.inf:
        raise ValueError(f"spanner_dilation must be in [1, inf), got {dilation}")
    n_cells = len(metric_km)
    starts, ends = np.triu_indices(n_cells, 1)
    lengths = metric_km[starts, ends]
    path_km = np.full((n_cells, n_cells), np.inf)
    np.fill_diagonal(path_km, 0.0)
    edges = []
    for pair in np.argsort(np.round(lengths, 9), kind="stable"):
        start, end, length = starts[pair], ends[pair], lengths[pair]
        if path_km[start, end] > dilation * length * (1 + _SLACK) + _SLACK:
            edges.append(pair)
            through_km = path_km[:, start, np.newaxis] + (length + path_km[end])
            path_km = np.minimum(path_km, np.minimum(through_km, through_km.T))
    apart = lengths > 0
    attained = path_km[starts, ends][apart] / lengths[apart]
    return Spanner(starts[edges], ends[edges], lengths[edges], max(float(attained.max(initial=1.0)), 1.0))
