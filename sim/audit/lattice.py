"""Lattices of reported coordinates: step and origin by axis, in degrees or in metres."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sim.audit.displacement import M_PER_DEGREE, Sample
from sim.audit.lattice_bounds import AxisBounds, Bounds, axis_bounds
from sim.interfaces import FloatArray, IntArray

_FEWEST_VALUES = 3
_MOST_DIVISOR = 12
_SHARE = 0.995
"""Least share of the values on a lattice."""
_LEAST_STEP = 30.0
"""Least step in units of the tolerance: below, random values fit."""
_FLOAT_TOLERANCE = 2e-9
_LEAST_FIXED = 0.1
"""Least share of the reports at a place that may be sent for all others."""
_FAR_STEPS = 2.0
_SLACK = 0.01
"""Slack of the centre of a cell, in steps."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Values origin + k step for integers k."""

    step: float
    origin: float
    """In [0, step)."""
    bounds: AxisBounds | None = None
    """Bounds that the values allow; None if they are unknown."""

    @property
    def bounded(self) -> AxisBounds:
        """Step, origin and a line with what the values allow; NaN if that is unknown."""
        unknown = (math.nan, math.nan)
        lines = (Bounds(value, *unknown) for value in (self.step, self.origin, self.origin))
        return self.bounds or AxisBounds(*lines)

    def index(self, values: FloatArray) -> IntArray:
        """Return k of the nearest lattice value."""
        return np.rint((values - self.origin) / self.step).astype(np.int64)

    def value(self, index: IntArray) -> FloatArray:
        """Return the lattice value of k."""
        return np.asarray(self.origin + index * self.step, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Lattice:
    """A lattice of positions whose cell holds the true positions that snap to one point."""

    lat: Axis
    lon: Axis
    metric: bool
    """Whether the step of the longitude is that of `lon` divided by the cosine of the snapped latitude."""
    shift_lat: float = 0.0
    """Centre of the cell relative to the reported point, in steps: 0 for the nearest point, 0.5 for rounding down."""
    shift_lon: float = 0.0

    def cell(self, lat: FloatArray, lon: FloatArray) -> tuple[IntArray, IntArray]:
        """Return row and column of the cell that contains each position."""
        row = self.lat.index(lat - self.shift_lat * self.lat.step)
        return row, self.lon.index(lon * self._cos(self.lat.value(row)) - self.shift_lon * self.lon.step)

    def sent_cell(self, lat: FloatArray, lon: FloatArray) -> tuple[IntArray, IntArray]:
        """Return row and column of the cell that each reported point stands for."""
        row = self.lat.index(lat)
        return row, self.lon.index(lon * self._cos(self.lat.value(row)))

    def snap(self, lat: FloatArray, lon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the reported point of each position."""
        row, col = self.cell(lat, lon)
        snapped = self.lat.value(row)
        return snapped, self.lon.value(col) / self._cos(snapped)

    def size_m(self, lat: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the width and height in metres of the cells at reported latitudes."""
        scale = np.ones_like(lat) if self.metric else np.cos(np.radians(lat))
        return self.lon.step * M_PER_DEGREE * scale, np.full_like(lat, self.lat.step * M_PER_DEGREE)

    def box(self, sample: Sample) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the displacements in metres (west, east, south, north) that lead to each report."""
        width, height = self.size_m(sample.sent_lat)
        x, y = sample.dx_m + self.shift_lon * width, sample.dy_m + self.shift_lat * height
        return x - width / 2, x + width / 2, y - height / 2, y + height / 2

    def _cos(self, lat: FloatArray) -> FloatArray:
        return np.cos(np.radians(lat)) if self.metric else np.ones_like(lat)


def find_lattice(sample: Sample) -> Lattice | None:
    """Return the coarsest lattice of the reports, or None.

    The steps of latitude and longitude are found separately. The longitude is tried in degrees and multiplied by the
    cosine of the reported latitude, as for a grid in metres; the coarser of both is used.
    """
    lat, lon = sample.sent_lat, sample.sent_lon
    rows = find_axis(lat)
    if rows is None:
        return None
    snapped = rows.value(rows.index(lat))
    slant = np.abs(lon).max() * math.radians(1) + 1
    columns = find_axis(lon)
    metric = find_axis(lon * np.cos(np.radians(snapped)), tolerance=slant * tolerance_of(lon, lat))
    if metric is not None and np.unique(rows.index(lat)).size < _FEWEST_VALUES and not _square(metric, rows):
        metric = None
    chosen = max((axis for axis in (columns, metric) if axis is not None), key=lambda axis: axis.step, default=None)
    if chosen is None:
        return None
    lattice = Lattice(rows, chosen, metric=chosen is metric and metric is not columns)
    return _with_shifts(lattice, sample)


def _square(a: Axis, b: Axis) -> bool:
    return abs(a.step / b.step - 1) < 1e-3


def _with_shifts(lattice: Lattice, sample: Sample) -> Lattice:
    """Return the lattice with the cells placed where the true positions are relative to the reports, in steps."""
    sample = _without_fixed_place(lattice, sample)
    west, east, south, north = lattice.box(sample)
    lat = _shift((south + north) / 2 / (north - south))
    return Lattice(lattice.lat, lattice.lon, lattice.metric, lat, _shift((west + east) / 2 / (east - west)))


def _without_fixed_place(lattice: Lattice, sample: Sample) -> Sample:
    """Return the rows without the most frequent report if most of its true positions are far from it.

    Such a place says nothing about the cells, but would determine the median displacement.
    """
    _, report, counts = np.unique(
        np.column_stack(lattice.sent_cell(sample.sent_lat, sample.sent_lon)),
        axis=0,
        return_inverse=True,
        return_counts=True,
    )
    at_place = report.reshape(-1) == counts.argmax()
    width, height = lattice.size_m(sample.sent_lat)
    steps = np.hypot(sample.dx_m / width, sample.dy_m / height)
    fixed = _LEAST_FIXED * len(sample) <= at_place.sum() < len(sample) and np.median(steps[at_place]) > _FAR_STEPS
    return sample.rows(~at_place) if fixed else sample


def _shift(displacement: FloatArray) -> float:
    """Return the centre of the cell relative to its report from displacements in steps.

    If all true positions are within one step, it is their middle, rounded to quarters within a tenth if they are then
    in the cell. Otherwise, with
    noise, it is the nearest half step to their median.
    """
    low, high = np.quantile(-displacement, [0.01, 0.99])
    if high - low <= 1.0:
        middle = float(low + high) / 2
        quarter = round(4 * middle) / 4
        possible = high - 0.5 - _SLACK <= quarter <= low + 0.5 + _SLACK
        return quarter if possible and abs(middle - quarter) < 0.1 else middle
    shift = -float(np.median(displacement))
    return 0.5 if 0.25 < shift < 0.75 else -0.5 if -0.75 < shift < -0.25 else 0.0


def tolerance_of(*columns: FloatArray) -> float:
    """Return the rounding error of the numbers of a file: half a unit of their last decimal, at least 2e-9 degrees.

    >>> tolerance_of(np.array([37.12, 37.5])), tolerance_of(np.array([1 / 3]))
    (0.006, 2e-09)
    """
    for decimals in range(9):
        if all(np.abs(np.round(column, decimals) - column).max() < 1e-11 for column in columns):
            return float(max(_FLOAT_TOLERANCE, 0.6 * 10.0**-decimals))
    return _FLOAT_TOLERANCE


def find_axis(values: FloatArray, tolerance: float | None = None) -> Axis | None:
    """Return the coarsest lattice of numbers within a tolerance, or None.

    >>> axis = find_axis(0.01 + 0.25 * np.array([3, 4, 9, 14, 16, 31]), tolerance=1e-6)
    >>> axis is not None and (round(axis.step, 6), round(float(axis.origin), 6))
    (0.25, 0.01)
    """
    tolerance = tolerance_of(values) if tolerance is None else tolerance
    exact = _coarsest(values, tolerance)
    if exact is None and tolerance > _FLOAT_TOLERANCE:  # numbers with few decimals are a lattice of these decimals
        exact = _coarsest(values, _FLOAT_TOLERANCE)
    return exact


def _coarsest(values: FloatArray, tolerance: float) -> Axis | None:
    distinct = np.unique(values)
    distinct = distinct[np.concatenate([[True], np.diff(distinct) > 2 * tolerance])]
    if distinct.size < _FEWEST_VALUES:
        return None
    smallest = float(np.diff(distinct).min())
    for divisor in range(1, _MOST_DIVISOR + 1):
        step = smallest / divisor
        if step < _LEAST_STEP * tolerance:
            return None
        axis = _refined(distinct, step, tolerance)
        if axis is not None:
            return axis
    return None


def _refined(distinct: FloatArray, step: float, tolerance: float) -> Axis | None:
    """Return the lattice of about this step that fits the values, or None.

    The step is estimated by least squares over a range that doubles, so that the indices are always exact.
    """
    start = int(np.diff(distinct).argmin())
    offsets = distinct - distinct[start]
    reach = 4 * step
    while True:
        near = offsets[np.abs(offsets) <= reach]
        index = np.rint(near / step)
        if np.abs(near - index * step).max() > 0.25 * step:
            return None
        if np.ptp(index) > 0:
            centred = index - index.mean()
            step = float(centred @ near / (centred @ centred))
        if reach >= np.abs(offsets).max():
            break
        reach *= 2
    index = np.rint(offsets / step)
    rest = offsets - index * step
    fits = np.abs(rest - np.median(rest)) <= 3 * tolerance
    if fits.mean() < _SHARE:
        return None
    axis = Axis(
        _nice(step, tolerance, index), _origin(distinct[start] + float(np.median(rest)), step, tolerance, index)
    )
    used = distinct[fits]
    return replace(axis, bounds=axis_bounds(used, axis.index(used), axis.step, axis.origin, tolerance))


def _nice(step: float, tolerance: float, index: FloatArray) -> float:
    """Return a decimal or binary fraction of a degree if it is within the error of the step, otherwise the step."""
    error = 4 * tolerance / max(float(np.ptp(index)), 1.0)
    exponent = math.floor(math.log10(step))
    fractions = [factor * 10.0**exponent for factor in (1, 2, 2.5, 5, 10)]
    fractions.append(360.0 / 2 ** round(math.log2(360.0 / step)))
    fractions.append(1e-7 * 2.0 ** round(math.log2(step * 1e7)))
    near = [fraction for fraction in fractions if abs(fraction - step) <= error]
    return near[0] if near else step


def _origin(value: float, step: float, tolerance: float, index: FloatArray) -> float:
    """Return the offset of the lattice in [0, step), rounded to 0 or half a step within its error."""
    nice = _nice(step, tolerance, index)
    origin = value % nice
    error = 4 * tolerance + 1e-9 * abs(value)
    for simple in (0.0, nice / 2, nice):
        if abs(origin - simple) <= error:
            return simple % nice
    return origin
