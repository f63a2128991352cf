"""Planar Laplace and planar geometric noise as matrices over a grid.

Both densities depend on the distance r only and decay as exp(-epsilon r). Probability mass outside the grid goes to
the nearest cell: a cell at the border collects the mass beyond it. The privacy guarantee is a bound on ratios, so the
probabilities of distant cells must be accurate in relative terms too. Therefore every probability is a sum of positive
terms, never a difference.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from sim.interfaces import FloatArray, IntArray
from sim.world.grid import Grid

Truncate = Literal["nearest", "renormalise"]


def laplace_matrix(grid: Grid, epsilon_per_km: float, truncate: Truncate = "nearest") -> FloatArray:
    """Return f(z | x), the mass of the planar Laplace density centred in x over the rectangle of z.

    Andrés et al. 2013, Sect. 4. With `nearest`, mass outside the grid goes to the nearest cell. This is
    post-processing of the sampled point, so f guarantees epsilon between cell centres in the Euclidean distance. With
    `renormalise`, each row is normalised instead, which reveals how close x is to the border and guarantees only
    2 epsilon. `epsilon_per_km` is in [0, inf); at 0 the limit is returned, which reveals nothing.
    """
    _require_epsilon(epsilon_per_km)
    if truncate == "renormalise" and epsilon_per_km == 0:
        return np.full((grid.n_cells, grid.n_cells), 1 / grid.n_cells)
    (south, north), (west, east) = (_cells(count, epsilon_per_km * step) for count, step in _axes(grid))
    masses = _interval_sums(quadrant_mass(west, east, south[:, None], north[:, None]), grid)
    matrix = _over_grid(masses, grid, beyond=truncate == "nearest")
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def geometric_matrix(grid: Grid, epsilon_per_km: float) -> FloatArray:
    """Return f(z | x) ∝ exp(-epsilon r) on the infinite lattice of cell centres, with r the Euclidean distance.

    All x share one normalising constant, and mass outside the grid goes to the nearest cell, so f guarantees epsilon.
    (Normalised row by row it would be the exponential mechanism, which guarantees 2 epsilon.) `epsilon_per_km` is in
    [0, inf); at 0 f reveals nothing.
    """
    _require_epsilon(epsilon_per_km)
    if epsilon_per_km * min(step for _, step in _axes(grid)) < _NEGLIGIBLE:
        return laplace_matrix(grid, 0.0)
    span = epsilon_per_km * (grid.width_km + grid.height_km)
    (rows, row_weight), (cols, col_weight) = (
        _lattice(count, epsilon_per_km * step, span) for count, step in _axes(grid)
    )
    weights = np.exp(-np.hypot(rows[:, None], cols)) * (row_weight[:, None] * col_weight)
    masses = _interval_sums(weights, grid)
    return _over_grid(masses / (4 * masses[_HALF, _HALF]), grid, beyond=True)


def geometric_kernel(count: int, epsilon: float) -> FloatArray:
    """Return the truncated geometric mechanism on a line (Ghosh et al. 2009), shape (count, count).

    f(j | i) = (1 - a) / (1 + a) a^|i - j| with a = exp(-epsilon). The two ends collect the mass beyond them:
    a^|i - j| / (1 + a). `epsilon` is that of one step.

    >>> geometric_kernel(3, np.log(2.0)).round(3).tolist()[0]
    [0.667, 0.167, 0.167]
    """
    _require_epsilon(epsilon)
    if count == 1:
        return np.ones((1, 1))
    away = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    kernel = np.exp(-epsilon * away) / (1 + np.exp(-epsilon))
    kernel[:, 1:-1] *= -np.expm1(-epsilon)
    return np.asarray(kernel)


def quadrant_mass(west: FloatArray, east: FloatArray, south: FloatArray, north: FloatArray) -> FloatArray:
    """Return the mass of exp(-r) / (2 pi) over rectangles in one quadrant.

    The sides satisfy 0 <= west <= east <= inf and 0 <= south <= north <= inf. The integral is computed in polar
    coordinates. Along a ray that enters at r and leaves at r + d it has the closed form
    exp(-r) (r (1 - exp(-d)) + P(2, d)), with P the regularised incomplete gamma function. As a function of t, the
    logarithm of the ray's slope, it is smooth between corners, and the double exponential rule (Takahasi and Mori
    1974) handles any decay at either end.

    >>> whole = np.array([0.0]), np.array([np.inf])
    >>> quadrant_mass(*whole, *whole).round(12)
    array([0.25])
    """
    west, east, south, north = np.broadcast_arrays(west, east, south, north)
    sides = np.stack([west, east, south, north]).reshape(4, -1)
    owner, begin, length = _panels(*sides)
    share, weight = _RULE
    slope = np.exp(begin[:, None] + length[:, None] * share)
    cos = 1 / np.sqrt(1 + slope**2)
    sin = slope * cos
    low_x, high_x, low_y, high_y = sides[:, owner, None]
    enters = np.maximum(low_x / cos, low_y / sin)
    inside = np.clip(np.minimum(high_x / cos, high_y / sin) - enters, 0.0, _FAR)
    along = np.exp(-enters) * (_gamma_2(inside) - enters * np.expm1(-inside)) * (sin * cos)
    mass = np.bincount(owner, along @ weight * length, minlength=west.size) / (2 * np.pi)
    return np.asarray(mass.reshape(west.shape))


def _gamma_2(x: FloatArray) -> FloatArray:
    """Return P(2, x) = 1 - (1 + x) exp(-x), by its series for small x to avoid cancellation."""
    values = 1 - (1 + x) * np.exp(-x)
    small = x < _SMALL
    values[small] = x[small] ** 2 * np.polynomial.polynomial.polyval(x[small], _SERIES)
    return np.asarray(values)


def _panels(
    west: FloatArray, east: FloatArray, south: FloatArray, north: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return intervals of t, at most `_LONGEST` long, that end at corners: their rectangles, starts and lengths."""
    with np.errstate(divide="ignore", invalid="ignore"):
        corners = [np.log(y) - np.log(x) for x, y in ((east, south), (west, south), (east, north), (west, north))]
    first, one, other, last = np.clip(np.nan_to_num(corners, nan=0.0), -_STEEPEST, _STEEPEST)
    ends = np.stack([first, *np.sort(np.clip([one, other], first, last), axis=0), last])
    begin, length = ends[:-1].ravel(), np.diff(ends, axis=0).ravel()
    pieces = np.ceil(length / _LONGEST).astype(np.int64)
    owner = np.repeat(np.tile(np.arange(west.size), 3), pieces)
    nth = np.arange(owner.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    piece = np.repeat(length / np.maximum(pieces, 1), pieces)
    return owner, np.repeat(begin, pieces) + nth * piece, piece


def _double_exponential(step: float, reach: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes in (0, 1), dense at both ends, and weights."""
    at = np.arange(-reach, reach + step / 2, step)
    share = 1 / (1 + np.exp(-np.pi * np.sinh(at)))
    weight = step * np.pi * np.cosh(at) * share * (1 - share)
    return share, weight


_SMALL, _FAR = 0.1, 800.0
_SERIES = [(-1) ** k * (k - 1) / math.factorial(k) for k in range(2, 13)]
_RULE = _double_exponential(step=0.07, reach=3.15)
_STEEPEST, _LONGEST = 45.0, 3.0
_CENTRE, _HALF = 0, 1
_NEGLIGIBLE = 1e-9
_LISTED = 256


def _axes(grid: Grid) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return the number of cells and the cell size in km, northwards and eastwards."""
    return (grid.rows, grid.height_km / grid.rows), (grid.cols, grid.width_km / grid.cols)


def _cells(count: int, step: float) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of intervals on one side of a cell's centre: half the cell, its neighbours, all beyond."""
    begin = np.maximum(np.arange(count + 1) - 0.5, 0.0) * step
    return begin, np.append(begin[1:], np.inf)


# Along one axis and relative to x, the mass collected by a cell is a sum over 2n intervals on one side of x: half of
# the cell of x, the half line, the cells 1 to n - 1 steps away, and everything from 1 to n - 1 steps onwards.


def _interval_sums(weights: FloatArray, grid: Grid) -> FloatArray:
    """Return sums of weights over all pairs of these intervals, [northwards, eastwards].

    Weights are indexed by steps from x; index 0 is half of the cell of x.
    """
    for count in grid.shape:
        onwards = np.cumsum(weights[::-1], axis=0)[::-1]
        weights = np.concatenate([weights[:1], onwards[:1], weights[1:count], onwards[1:count]]).T
    return weights


def _owned(count: int, *, beyond: bool) -> FloatArray:
    """Return how often cell z collects each of these intervals relative to x, shape (count, count, 2 count)."""
    x, z = np.indices((count, count))
    away = np.abs(x - z)
    ends = beyond & ((z == 0) | (z == count - 1))
    owned = np.zeros((count, count, 2 * count))
    other = away > 0
    owned[x[other], z[other], (away + np.where(ends, count, 1))[other]] = 1
    own = np.arange(count)
    for end in (0, count - 1):
        np.add.at(owned, (own, own, np.where(beyond & (own == end), _HALF, _CENTRE)), 1)
    return owned


def _over_grid(masses: FloatArray, grid: Grid, *, beyond: bool) -> FloatArray:
    """Return the matrix [x, z] from the masses of all pairs of intervals, [northwards, eastwards]."""
    north, east = (_owned(count, beyond=beyond) for count in grid.shape)
    product = np.tensordot(np.tensordot(north, masses, 1), east, (2, 2))  # [x row, z row, x col, z col]
    return np.asarray(product.swapaxes(1, 2).reshape(grid.n_cells, grid.n_cells))


def _lattice(count: int, step: float, span: float) -> tuple[FloatArray, FloatArray]:
    """Return points on the half line and weights whose weighted sums equal sums over 0 (halved), 1, 2, ... steps.

    The first points are the steps themselves. Beyond them, sums are replaced by integrals with the Euler-Maclaurin
    formula, sum_{k >= m} g(k) = integral from m - 1/2 of g + g'(m - 1/2) / 24 - ..., over blocks that grow with the
    distance.
    """
    reach = count + (60 + 10 * np.sqrt(min(span, 745.0))) / step
    listed = int(min(count + _LISTED, reach + 1))
    weights = np.ones(listed + 1)
    weights[0], weights[-2:] = 0.5, (1 - 1 / 24, 1 / 24)
    ends = [listed - 0.5]
    while ends[-1] < reach:
        ends.append(ends[-1] + min(ends[-1], 8 / step))
    node, weight = np.polynomial.legendre.leggauss(16)
    half = np.diff(ends)[:, None] / 2
    middle = (np.array(ends[:-1]) + np.array(ends[1:]))[:, None] / 2
    points = np.concatenate([np.arange(listed + 1), (middle + half * node).ravel()])
    return points * step, np.concatenate([weights, (half * weight).ravel()])


def _require_epsilon(epsilon: float) -> None:
    if not 0 <= epsilon < np.inf:
        raise ValueError(f"epsilon must be in [0, inf), got {epsilon}")
