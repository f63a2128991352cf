"""Noise with or without snapping: independent displacements from a family with one scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sim.audit.displacement import M_PER_DEGREE, Sample, metres_per_degree_east
from sim.audit.families import Family
from sim.audit.hypothesis import ATOM_M2, REGULAR_DROP, SHARP_DROP, Estimate, maximised, profile_interval
from sim.audit.lattice import Lattice
from sim.audit.lattice_bounds import Bounds
from sim.interfaces import FloatArray, Generator, IntArray

_TINY = 1e-300
_MOST_NODES = 20

Box = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class NoiseFit:
    """A family with its scale, snapped to a lattice if there is one."""

    family: Family
    scale_m: float
    lattice: Lattice | None = None
    interval: tuple[float, float] = (math.nan, math.nan)
    from_cell: bool = False
    """Whether the true position is snapped before the noise is added."""

    @property
    def kind(self) -> str:
        """Name of the family, with the snapping."""
        return self.family.kind + ("+snapping" if self.lattice else "")

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Scale; for the planar Laplace mechanism its epsilon too."""
        low, high = self.interval
        parameters = [Estimate(self.family.parameter, self.scale_m, low, high, "m")]
        if self.family.kind == "planar_laplace":
            parameters.append(Estimate("epsilon_per_km", 1e3 / self.scale_m, 1e3 / high, 1e3 / low, "per km"))
        return (*parameters, *(lattice_estimates(self.lattice) if self.lattice else ()))

    @property
    def n_free(self) -> int:
        """The scale."""
        return 1

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report."""
        return Mass(self.family, _start(sample, self.lattice, self.from_cell), self.lattice, self.scale_m)(self.scale_m)

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return drawn displacements in metres."""
        x, y = self.family.draw(len(sample), rng)
        start = _start(sample, self.lattice, self.from_cell)
        dx, dy = snapped_displacement(start, x * self.scale_m, y * self.scale_m, self.lattice)
        dx = dx + (start.lon - sample.lon) * metres_per_degree_east(sample.lat)
        return dx, dy + (start.lat - sample.lat) * M_PER_DEGREE

    def memoryless(self) -> NoiseFit:
        """Return itself: draws are independent."""
        return self


def fit_noise(
    family: Family,
    sample: Sample,
    lattice: Lattice | None,
    *,
    from_cell: bool = False,
    intervals: bool = True,
) -> NoiseFit | None:
    """Return the family with the scale of maximum likelihood; None without a displacement."""
    if lattice is not None and family.singular:
        return None
    mean = float(sample.distance_m.mean()) if len(sample) else 0.0
    if not mean > 0:
        return None
    guess = mean / family.mean_distance
    mass = Mass(family, _start(sample, lattice, from_cell), lattice, guess)

    def log_likelihood(scale: float) -> float:
        return float(mass(scale).sum())

    if family.norm is not None and lattice is None:
        scale = float(family.norm(sample.dx_m, sample.dy_m).max())
    else:
        scale = maximised(log_likelihood, guess, reach=3.0, points=9 if family.norm is None else 45)
    drop = SHARP_DROP if family.norm is not None and lattice is None else REGULAR_DROP
    interval = profile_interval(log_likelihood, scale, drop=drop) if intervals else (math.nan, math.nan)
    return NoiseFit(family, scale, lattice, interval, from_cell)


def _start(sample: Sample, lattice: Lattice | None, from_cell: bool) -> Sample:
    """Return the sample with snapped true positions, if the noise starts there."""
    if not from_cell or lattice is None:
        return sample
    lat, lon = lattice.snap(sample.lat, sample.lon)
    return replace(sample, lat=lat, lon=lon)


class Mass:
    """Log probability of each report as a function of the scale."""

    def __init__(self, family: Family, sample: Sample, lattice: Lattice | None, guess_m: float) -> None:
        self._family = family
        self._box: Box | None = None
        self._group: IntArray = np.arange(len(sample))
        if lattice is None:
            self._x, self._y, self._area = sample.dx_m[:, None], sample.dy_m[:, None], np.full(len(sample), ATOM_M2)
            return
        box, self._group = _distinct(lattice.box(sample))
        self._area = (box[1] - box[0]) * (box[3] - box[2])
        if family.axis_cdf is not None:
            self._box = box
            return
        ratio = math.sqrt(float(np.median(self._area))) / guess_m
        self._x, self._y, self._weights = nodes(
            box, min(_MOST_NODES, int((10 if family.norm is not None else 5) + 3 * ratio))
        )

    def __call__(self, scale_m: float) -> FloatArray:
        """Return the log probabilities, shape (n,)."""
        if self._box is not None and self._family.axis_cdf is not None:
            cdf = self._family.axis_cdf
            west, east, south, north = (side / scale_m for side in self._box)
            mass: FloatArray = _between(cdf, west, east) * _between(cdf, south, north)
            return np.asarray(np.log(np.maximum(mass, _TINY))[self._group])
        log_density = self._family.log_density(self._x / scale_m, self._y / scale_m) - 2 * math.log(scale_m)
        if log_density.shape[1] == 1:
            return np.asarray(np.maximum(log_density[:, 0] + np.log(self._area), math.log(_TINY)))
        mean = np.exp(log_density) @ self._weights
        return np.asarray(np.log(np.maximum(mean * self._area, _TINY))[self._group])


def _distinct(box: Box) -> tuple[Box, IntArray]:
    """Return the distinct boxes, to a millimetre, and the number of each row's box."""
    sides = np.rint(np.column_stack(box) * 1e3)
    _, first, group = np.unique(sides, axis=0, return_index=True, return_inverse=True)
    west, east, south, north = (side[first] for side in box)
    return (west, east, south, north), np.asarray(group.reshape(-1))


def _between(cdf: object, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the mass of intervals, computed in the lower tail for precision."""
    assert callable(cdf)
    flip = low > 0
    return np.asarray(cdf(np.where(flip, -low, high)) - cdf(np.where(flip, -high, low)))


def nodes(box: Box, count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes of boxes, each of shape (n, count²), and their weights, which sum to 1."""
    at, weight = np.polynomial.legendre.leggauss(count)
    share, weight = (at + 1) / 2, weight / 2
    west, east, south, north = (side[:, None] for side in box)
    x = (west + (east - west) * share)[:, :, None]
    y = (south + (north - south) * share)[:, None, :]
    shape = (len(west), count * count)
    x, y = (np.broadcast_to(part, (len(west), count, count)).reshape(shape) for part in (x, y))
    return x, y, np.outer(weight, weight).ravel()


def snapped_displacement(
    sample: Sample, dx_m: FloatArray, dy_m: FloatArray, lattice: Lattice | None
) -> tuple[FloatArray, FloatArray]:
    """Return displacements after the snapping of the displaced positions."""
    if lattice is None:
        return dx_m, dy_m
    east = metres_per_degree_east(sample.lat)
    lat, lon = lattice.snap(sample.lat + dy_m / M_PER_DEGREE, sample.lon + dx_m / east)
    return (lon - sample.lon) * east, (lat - sample.lat) * M_PER_DEGREE


def lattice_estimates(lattice: Lattice) -> tuple[Estimate, ...]:
    """Return the steps, origins, and lines near the reports, with what the rounding of the file allows."""
    lat, lon = lattice.lat, lattice.lon
    scaled = "lon_scaled" if lattice.metric else "lon"
    lon_step = ("step_lon_m", "m", M_PER_DEGREE) if lattice.metric else ("step_lon_deg", "degrees", 1.0)
    return (
        _bounded("step_lat_deg", "degrees", lat.bounded.step),
        _bounded("step_lat_m", "m", lat.bounded.step, M_PER_DEGREE),
        _bounded(*lon_step[:2], lon.bounded.step, lon_step[2]),
        _bounded("line_lat_deg", "degrees", lat.bounded.line),
        _bounded(f"line_{scaled}_deg", "degrees", lon.bounded.line),
        _bounded("origin_lat_deg", "degrees", lat.bounded.origin),
        _bounded(f"origin_{scaled}_deg", "degrees", lon.bounded.origin),
    )


def _bounded(name: str, unit: str, bounds: Bounds, factor: float = 1.0) -> Estimate:
    return Estimate(name, factor * bounds.value, factor * bounds.low, factor * bounds.high, unit)
