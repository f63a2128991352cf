"""The remap of location hiding without a matrix of distances, for distances that satisfy the triangle inequality.

The posterior weights of an output z~ are the same for all outputs except for a step s at z~ itself. The cost of an
estimate y is therefore C(y) + s d(z~, y), with one function C for all outputs and the best cell m for s = 0. Two bounds
leave few estimates to compare for each output:

- y can be better than m only if C(y) - C(m) <= s d(y, m), since d(z~, m) - d(z~, y) <= d(y, m);
- y can be better than z~ or m only if s d(z~, y) is at most the lower cost of these two, less C(m).
"""

from __future__ import annotations

import numpy as np

from sim.inference import kernels
from sim.inference.bayes import cheapest
from sim.inference.planar_grid import PlanarGrid
from sim.inference.ties import TIE
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import Distance
from sim.world.distances.euclidean import EuclideanDistance


def hiding_by_bounds(weights: FloatArray, step: FloatArray, total: FloatArray, distance: Distance) -> IntArray:
    """Return the cell of smallest cost for each output, shape (n_cells,).

    An output has the given weights, plus `step` at the output itself; `total` is the sum of both for each output.
    """
    costs = distance.costs_km(weights)
    best = int(costs.argmin())
    tie_km = TIE * distance.longest_km
    common = float(weights.sum())
    (without_step,) = cheapest(costs[None], np.array([common]), longest_km=distance.longest_km)
    table = np.full(weights.size, without_step)
    away_km = np.maximum(distance.row_km(best), distance.column_km(best))
    slopes = (costs - costs[best] - 2 * tie_km * common) / (away_km + 2 * tie_km)
    slopes[best] = np.inf
    own = (step != 0) & (np.abs(step) >= slopes.min())
    outputs = np.flatnonzero(own)
    table[(step != 0) & ~own] = best
    if isinstance(distance, EuclideanDistance) and distance.planar is not None:
        table[outputs] = _in_windows(outputs, costs, step[outputs], tie_km * total[outputs], distance.planar)
    else:
        for output in outputs.tolist():
            each = costs + step[output] * distance.row_km(output)
            table[output] = cheapest(each[None], total[output : output + 1], longest_km=distance.longest_km)[0]
    return table


def _in_windows(outputs: IntArray, costs: FloatArray, step: FloatArray, tie: FloatArray, grid: PlanarGrid) -> IntArray:
    """Return the cheapest cell for each output on a grid: only cells within a distance of the output are compared.

    `step` and `tie`, the tolerance of its costs, have one entry for each output.
    """
    if (fast := kernels.compiled()) is not None:
        steps_km = (grid.row_step_km, grid.col_step_km)
        return np.asarray(fast.hiding_in_windows(outputs, costs, step, tie, grid.away_km, *steps_km))
    cells = []
    for output, own_step, own_tie in zip(outputs.tolist(), step, tie, strict=True):
        each = costs + own_step * grid.row_km(output)
        cells.append(int((each <= each.min() + own_tie).argmax()))
    return np.array(cells, dtype=np.int64)
