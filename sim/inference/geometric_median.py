"""Geometric median restricted to a finite set of locations: the optimal estimate under the Euclidean distance.

The expected distance g(y) = sum_x w(x) |x - y| is convex in the plane. A tangent at any point p is therefore a lower
bound for all locations, also if the term of a location at p itself is kept exact:

    g(y) >= g(p) + s . (y - p) + w(p) |y - p|,    s the gradient of the other terms at p.

The search starts near the median of the whole plane, then evaluates the location with the lowest bound until every
other bound exceeds the best cost (Kelley 1960, J. SIAM 8, 703-712). The result is exact and needs O(n) memory; about
twenty evaluations suffice for any number of locations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.inference import kernels
from sim.inference.ties import MASS_FLOOR, TIE
from sim.interfaces import FloatArray, IntArray

POINT_GAP_KM = 1e-9
"""Largest excess of the expected distance of `best_point` over the minimum, in km: a micrometre."""
_MOST_STEPS = 200
_HALVINGS = 40
_ROUNDING = 1e-13  # relative error of a cost
_SNAP_EVERY = 3  # steps after which the location that attracts most is tried
_NEWTON_STEPS = 8
_SHRINK_BELOW = 0.7  # share of remaining candidates at which the arrays are compressed


class Tangent(NamedTuple):
    """The expected distance from a point of the plane, with derivatives of the terms of all other locations."""

    cost_km: float
    """g(p): the weighted sum of distances to p."""
    slope_x: float
    slope_y: float
    own: float
    """Weight of the locations at p itself."""
    bend_xx: float
    bend_xy: float
    bend_yy: float
    """Second derivatives at p, per km."""


def tangent(x_km: FloatArray, y_km: FloatArray, weights: FloatArray, at_x_km: float, at_y_km: float) -> Tangent:
    """Return the cost of the point (at_x_km, at_y_km) and its derivatives, for locations with weights.

    >>> tangent(np.array([0.0, 4.0]), np.array([0.0, 0.0]), np.array([0.5, 0.5]), 0.0, 0.0)[:4]
    (2.0, -0.5, 0.0, 0.5)
    """
    if (fast := kernels.compiled()) is not None:
        return Tangent(*fast.tangent(x_km, y_km, weights, at_x_km, at_y_km))
    east, north = at_x_km - x_km, at_y_km - y_km
    away = np.hypot(east, north)
    apart = away > 0
    per_km = np.divide(weights, away, out=np.zeros_like(away), where=apart)
    curve = np.divide(per_km, away * away, out=np.zeros_like(away), where=apart)
    return Tangent(
        float(weights @ away),
        float(per_km @ east),
        float(per_km @ north),
        float(weights[~apart].sum()),
        float(curve @ (north * north)),
        -float(curve @ (east * north)),
        float(curve @ (east * east)),
    )


def best_location(weights: FloatArray, x_km: FloatArray, y_km: FloatArray, *, longest_km: float) -> int:
    """Return the location with the smallest expected distance; -1 if the weights have no mass.

    Costs within `TIE` of the total weight times `longest_km` are ties, which go to the lowest index.

    >>> best_location(np.array([1.0, 1.0, 1.5]), np.array([0.0, 1.0, 2.0]), np.zeros(3), longest_km=2.0)
    1
    """
    total = float(weights.sum())
    if not total > MASS_FLOOR:
        return -1
    support = np.flatnonzero(weights)
    search = _Search(weights[support] / total, x_km[support], y_km[support], tie_km=TIE * longest_km)
    search.approach()
    return search.among(x_km, y_km)


def best_point(weights: FloatArray, x_km: FloatArray, y_km: FloatArray) -> tuple[float, float]:
    """Return the point of the plane with the smallest expected distance, its geometric median; NaN without mass.

    The expected distance exceeds its minimum by at most `POINT_GAP_KM` times the total weight. Newton's method with
    step halving converges away from locations with weight; a location is the median if and only if its weight is at
    least the slope of the other terms there (Kuhn 1973, Math. Programming 4, 98-107).

    >>> best_point(np.array([1.0, 1.0, 1.5]), np.array([0.0, 2.0, 1.0]), np.zeros(3))
    (1.0, 0.0)
    """
    total = float(weights.sum())
    if not total > MASS_FLOOR:
        return np.nan, np.nan
    support = np.flatnonzero(weights)
    weights, x_km, y_km = weights[support] / total, x_km[support], y_km[support]
    reach = float(np.hypot(np.ptp(x_km), np.ptp(y_km)))
    x, y = float(weights @ x_km), float(weights @ y_km)
    here = tangent(x_km, y_km, weights, x, y)
    for step in range(_MOST_STEPS):
        slope = float(np.hypot(here.slope_x, here.slope_y))
        if (slope - here.own) * reach <= POINT_GAP_KM:
            return x, y
        snapped = _snapped(weights, x_km, y_km, (x, y), here) if step % _SNAP_EVERY == _SNAP_EVERY - 1 else None
        moved = snapped or _stepped(weights, x_km, y_km, (x, y), here) or _snapped(weights, x_km, y_km, (x, y), here)
        if moved is None:
            return x, y
        x, y, here = moved
    return x, y


def _snapped(
    weights: FloatArray, x_km: FloatArray, y_km: FloatArray, at: tuple[float, float], here: Tangent
) -> tuple[float, float, Tangent] | None:
    """Return the location that attracts most, its tangent last; None if its cost is higher or the point is the same."""
    heaviest = int((weights / (np.hypot(x_km - at[0], y_km - at[1]) + 1e-9)).argmax())
    x, y = float(x_km[heaviest]), float(y_km[heaviest])
    candidate = tangent(x_km, y_km, weights, x, y)
    return (x, y, candidate) if candidate.cost_km <= here.cost_km and (x, y) != at else None


def _stepped(
    weights: FloatArray, x_km: FloatArray, y_km: FloatArray, at: tuple[float, float], here: Tangent
) -> tuple[float, float, Tangent] | None:
    """Return a better point, its tangent last: a Newton step, or a step of Weiszfeld's, halved if needed.

    Near the minimum, costs differ by less than their rounding errors; a better point then has a smaller slope. None:
    no better point is known.
    """
    slope = float(np.hypot(here.slope_x, here.slope_y))
    determinant = here.bend_xx * here.bend_yy - here.bend_xy**2
    trace = here.bend_xx + here.bend_yy
    if here.own == 0 and determinant > 1e-12 * trace**2:
        step_x = (here.bend_yy * here.slope_x - here.bend_xy * here.slope_y) / determinant
        step_y = (here.bend_xx * here.slope_y - here.bend_xy * here.slope_x) / determinant
    else:  # at a location with weight, the others decide the direction (Vardi and Zhang 2000); the trace is Weiszfeld's
        share = max(1 - here.own / slope, 0.0) / trace
        step_x, step_y = share * here.slope_x, share * here.slope_y
    for _ in range(_HALVINGS):
        x, y = at[0] - step_x, at[1] - step_y
        candidate = tangent(x_km, y_km, weights, x, y)
        if candidate.cost_km < here.cost_km * (1 - _ROUNDING):
            return x, y, candidate
        if (
            candidate.cost_km <= here.cost_km * (1 + _ROUNDING)
            and np.hypot(candidate.slope_x, candidate.slope_y) < slope / 2
        ):
            return x, y, candidate
        step_x, step_y = step_x / 2, step_y / 2
    return None


class _Search:
    """The locations with weight, and the tangents evaluated so far."""

    def __init__(self, weights: FloatArray, x_km: FloatArray, y_km: FloatArray, *, tie_km: float) -> None:
        self._weights, self._x_km, self._y_km = weights, x_km, y_km
        self._tie_km = tie_km
        self._cuts: list[tuple[float, float, Tangent]] = []

    def approach(self) -> None:
        """Take Newton steps from the mean towards the median of the whole plane; each adds a tangent."""
        x, y = float(self._weights @ self._x_km), float(self._weights @ self._y_km)
        west, east, south, north = self._x_km.min(), self._x_km.max(), self._y_km.min(), self._y_km.max()
        best = np.inf
        for _ in range(_NEWTON_STEPS):
            cut = self._cut(x, y)
            determinant = cut.bend_xx * cut.bend_yy - cut.bend_xy**2
            flat = determinant <= 1e-9 * (cut.bend_xx + cut.bend_yy) ** 2  # all locations are nearly on one line
            if cut.own > 0 or flat or not cut.cost_km < best - 1e-9 * cut.cost_km:
                break
            best = cut.cost_km
            step_x = (cut.bend_yy * cut.slope_x - cut.bend_xy * cut.slope_y) / determinant
            step_y = (cut.bend_xx * cut.slope_y - cut.bend_xy * cut.slope_x) / determinant
            # Tangents far outside would round their bounds.
            x, y = float(np.clip(x - step_x, west, east)), float(np.clip(y - step_y, south, north))

    def among(self, x_km: FloatArray, y_km: FloatArray) -> int:
        """Return the best of these locations."""
        cells: IntArray = np.arange(x_km.size)
        bounds = np.zeros(x_km.size)
        for x, y, cut in self._cuts:
            np.maximum(bounds, _bounds(cut, x_km - x, y_km - y), out=bounds)
        costs: dict[int, float] = {}
        best = np.inf
        while cells.size:
            place = int(bounds.argmin())
            if bounds[place] > best + 2 * self._tie_km:
                break
            x, y = float(x_km[place]), float(y_km[place])
            cut = self._cut(x, y)
            costs[int(cells[place])] = cut.cost_km
            best = min(best, cut.cost_km)
            np.maximum(bounds, _bounds(cut, x_km - x, y_km - y), out=bounds)
            bounds[place] = np.inf
            left = bounds <= best + 2 * self._tie_km
            if np.count_nonzero(left) < _SHRINK_BELOW * cells.size:
                cells, bounds, x_km, y_km = cells[left], bounds[left], x_km[left], y_km[left]
        return min(cell for cell, cost in costs.items() if cost <= best + self._tie_km)

    def _cut(self, x: float, y: float) -> Tangent:
        cut = tangent(self._x_km, self._y_km, self._weights, x, y)
        self._cuts.append((x, y, cut))
        return cut


def _bounds(cut: Tangent, east_km: FloatArray, north_km: FloatArray) -> FloatArray:
    """Return the lower bounds of the costs of locations, given their displacements from the point of a tangent."""
    bounds: FloatArray = cut.cost_km + cut.slope_x * east_km + cut.slope_y * north_km
    if cut.own > 0:
        bounds += cut.own * np.hypot(east_km, north_km)
    return bounds
