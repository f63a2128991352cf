"""Exponential noise between the cells of a grid: the exponential and the planar geometric mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from sim.audit.displacement import M_PER_DEGREE, Sample, metres_per_degree_east
from sim.audit.hypothesis import Estimate, maximised, profile_interval
from sim.audit.lattice import Lattice
from sim.audit.noise import lattice_estimates
from sim.interfaces import FloatArray, Generator, IntArray

Metric = Literal["euclidean", "manhattan"]
Border = Literal["normalised", "clamped"]
_MOST_CELLS = 3_000
_MARGIN = 40
"""Most cells beyond the border whose mass a clamped border collects."""
_TINY = 1e-300


@dataclass(frozen=True)
class Extent:
    """Rectangle of lattice cells that reports come from."""

    row: int
    col: int
    rows: int
    cols: int
    height_m: float
    """Height of a cell."""
    width_m: float

    def number(self, row: IntArray, col: IntArray) -> IntArray:
        """Return the number of each cell, row by row, of the nearest cell for those outside."""
        row, col = np.clip(row - self.row, 0, self.rows - 1), np.clip(col - self.col, 0, self.cols - 1)
        return np.asarray(row * self.cols + col)


@dataclass(frozen=True)
class GridExponentialFit:
    """f(z | x) proportional to exp(-epsilon d(x, z)) between the cells of the true and the sent position.

    With a `normalised` border each row of the channel is normalised over the grid (exponential mechanism); with a
    `clamped` one the noise is that of the infinite lattice and outputs outside become the nearest cell (planar
    geometric mechanism).
    """

    lattice: Lattice
    extent: Extent
    metric: Metric
    border: Border
    epsilon_per_km: float
    interval: tuple[float, float] = (math.nan, math.nan)
    n_free: int = 1

    @property
    def kind(self) -> str:
        """The exponential and the planar geometric mechanism, which differ only at the border."""
        return "exponential_on_grid"

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Epsilon, then the grid."""
        epsilon = Estimate("epsilon_per_km", self.epsilon_per_km, *self.interval, "per km")
        return (epsilon, *lattice_estimates(self.lattice))

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report."""
        true, sent = cells_of(self.lattice, self.extent, sample)
        table = channel(self.extent, self.metric, self.border, self.epsilon_per_km)
        return np.log(np.maximum(table[true, sent], _TINY))

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return drawn displacements in metres."""
        true, _ = cells_of(self.lattice, self.extent, sample)
        table = channel(self.extent, self.metric, self.border, self.epsilon_per_km).cumsum(axis=1)
        drawn = np.minimum(
            (table[true] < rng.uniform(size=(len(sample), 1)) * table[true][:, -1:]).sum(1), len(table) - 1
        )
        row, col = np.divmod(drawn, self.extent.cols)
        lat = self.lattice.lat.value(row + self.extent.row)
        scale = np.cos(np.radians(lat)) if self.lattice.metric else 1.0
        lon = self.lattice.lon.value(col + self.extent.col) / scale
        return (lon - sample.lon) * metres_per_degree_east(sample.lat), (lat - sample.lat) * M_PER_DEGREE

    def memoryless(self) -> GridExponentialFit:
        """Return itself."""
        return self


def cells_of(lattice: Lattice, extent: Extent, sample: Sample) -> tuple[IntArray, IntArray]:
    """Return the cells of the true and of the sent positions."""
    return extent.number(*lattice.cell(sample.lat, sample.lon)), extent.number(
        *lattice.sent_cell(sample.sent_lat, sample.sent_lon)
    )


def extent_of(lattice: Lattice, sample: Sample) -> Extent | None:
    """Return the bounding box of the reports; None for too many cells."""
    row, col = lattice.sent_cell(sample.sent_lat, sample.sent_lon)
    rows, cols = int(np.ptp(row)) + 1, int(np.ptp(col)) + 1
    if rows * cols > _MOST_CELLS:
        return None
    width, height = (float(np.median(side)) for side in lattice.size_m(sample.sent_lat))
    return Extent(int(row.min()), int(col.min()), rows, cols, height, width)


@lru_cache(maxsize=8)
def channel(extent: Extent, metric: Metric, border: Border, epsilon_per_km: float) -> FloatArray:
    """Return f(z | x) on the cells of an extent, shape (n_cells, n_cells)."""
    margin = 0 if border == "normalised" else _margin(extent, epsilon_per_km)
    reach = max(extent.rows, extent.cols) + margin
    kernel = _kernel(extent, metric, epsilon_per_km, reach)
    by_row = _folded(kernel, extent.rows, clamped=margin > 0)
    table = _folded(np.moveaxis(by_row, -1, 0), extent.cols, clamped=margin > 0)  # [col, to col, row, to row]
    flat = table.transpose(2, 0, 3, 1).reshape(extent.rows * extent.cols, -1)
    return np.asarray(flat / flat.sum(axis=1, keepdims=True))


def _folded(kernel: FloatArray, count: int, *, clamped: bool) -> FloatArray:
    """Return the kernel from each to each of `count` positions, from values by offset along the first axis.

    With a clamped border both ends collect the offsets beyond them. The result has shape (count, count, ...).
    """
    reach = (len(kernel) - 1) // 2
    offset = np.arange(count)[None, :] - np.arange(count)[:, None] + reach
    table = np.array(kernel[offset])
    if clamped and count > 1:
        below = np.cumsum(kernel, axis=0)
        table[:, 0] = below[offset[:, 0]]
        table[:, -1] = np.cumsum(kernel[::-1], axis=0)[::-1][offset[:, -1]]
    return table


def _margin(extent: Extent, epsilon_per_km: float) -> int:
    reach_m = 12e3 / epsilon_per_km
    return int(min(_MARGIN, math.ceil(reach_m / min(extent.width_m, extent.height_m))))


def _kernel(extent: Extent, metric: Metric, epsilon_per_km: float, reach: int) -> FloatArray:
    """Return exp(-epsilon d) of offsets in rows and columns from -reach to reach."""
    offset = np.abs(np.arange(-reach, reach + 1))
    x_km, y_km = offset * extent.width_m / 1e3, offset[:, None] * extent.height_m / 1e3
    distance = np.hypot(x_km, y_km) if metric == "euclidean" else x_km + y_km
    return np.exp(-epsilon_per_km * distance)


def fit_grid_exponential(sample: Sample, lattice: Lattice | None) -> list[GridExponentialFit]:
    """Return the mechanism with both metrics and both borders, without intervals.

    There is nothing without a grid of few cells.
    """
    extent = None if lattice is None else extent_of(lattice, sample)
    if lattice is None or extent is None:
        return []
    pairs, count = _counted(lattice, extent, sample)
    mean_km = float(sample.distance_m.mean()) / 1e3
    if not mean_km > 0:
        return []
    fits = []
    metrics: tuple[Metric, ...] = ("euclidean", "manhattan")
    borders: tuple[Border, ...] = ("normalised", "clamped")
    for metric in metrics:
        for border in borders:
            log_likelihood = _along(extent, metric, border, pairs, count)
            epsilon = maximised(log_likelihood, 2 / mean_km, reach=4.0, points=7)
            fits.append(GridExponentialFit(lattice, extent, metric, border, epsilon))
    return fits


def with_interval(fit: GridExponentialFit, sample: Sample) -> GridExponentialFit:
    """Return a fit with the interval of epsilon."""
    log_likelihood = _along(fit.extent, fit.metric, fit.border, *_counted(fit.lattice, fit.extent, sample))
    return replace(fit, interval=profile_interval(log_likelihood, fit.epsilon_per_km))


def _counted(lattice: Lattice, extent: Extent, sample: Sample) -> tuple[IntArray, IntArray]:
    """Return the distinct pairs of true and sent cell, shape (2, n), and their numbers."""
    return np.unique(np.stack(cells_of(lattice, extent, sample)), axis=1, return_counts=True)


def _along(
    extent: Extent, metric: Metric, border: Border, pairs: IntArray, count: IntArray
) -> Callable[[float], float]:
    """Return the log-likelihood of epsilon for distinct pairs of cells, shape (2, n), and their counts."""

    def log_likelihood(epsilon: float) -> float:
        table = channel(extent, metric, border, epsilon)
        return float(count @ np.log(np.maximum(table[pairs[0], pairs[1]], _TINY)))

    return log_likelihood
