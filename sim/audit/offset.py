"""Constant and drifting offsets: a displacement of each user that changes slowly or never (AR(1) in time)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sim.audit.displacement import Sample
from sim.audit.families import FAMILIES
from sim.audit.hypothesis import ATOM_M2, Estimate, Fit, maximised, profile_interval
from sim.audit.lattice import Lattice
from sim.audit.noise import NoiseFit, lattice_estimates, snapped_displacement
from sim.audit.offset_filter import box_log_mass, constant_box_log_mass, kalman_log_density, kalman_predictions
from sim.audit.offset_length import mean_length
from sim.interfaces import FloatArray, Generator

_GAUSSIAN = next(family for family in FAMILIES if family.kind == "gaussian")
LEAST_WHITE_M = 0.05
"""Least standard deviation of independent noise per axis: rounding of the file."""
_CONSTANT_NATS = 3.0
"""Advantage in log-likelihood below which an offset counts as constant."""
_LEAST_MOVED_M = 1.0
"""Least drift over the whole time that counts as one."""
_LEAST_CORRELATION = 0.15


@dataclass(frozen=True)
class OffsetFit:
    """An Ornstein-Uhlenbeck process on each axis, added to the position before the snapping.

    `drift_m` is the standard deviation of the change in an hour; 0 for a constant offset. `white_m` is the standard
    deviation of independent noise on each axis.
    """

    sd_m: float
    drift_m: float
    white_m: float
    lattice: Lattice | None
    intervals: tuple[tuple[float, float], ...] = ()
    length: Estimate | None = None
    """Mean length of constant offsets."""
    n_free: int = 3

    @property
    def kind(self) -> str:
        """Constant or drifting, with the snapping."""
        name = "constant_offset" if self.drift_m == 0 else "drifting_offset"
        return name + ("+snapping" if self.lattice else "")

    @property
    def time_constant_h(self) -> float:
        """Time in hours after which the autocorrelation is 1 / e."""
        return math.inf if self.drift_m == 0 else 2 * self.sd_m**2 / self.drift_m**2

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Standard deviation, drift, time constant and independent noise."""
        sd, drift = self.intervals or ((math.nan,) * 2,) * 2
        parameters = [] if self.drift_m or self.length is None else [self.length]
        parameters.append(Estimate("sd_m", self.sd_m, *sd, "m"))
        if self.drift_m:
            hours = self.time_constant_h
            low = hours * min((sd[0] / self.sd_m) ** 2, (self.drift_m / drift[1]) ** 2)
            high = hours * max((sd[1] / self.sd_m) ** 2, (self.drift_m / drift[0]) ** 2 if drift[0] > 0 else math.inf)
            parameters.append(Estimate("drift_m", self.drift_m, *drift, "m per sqrt(h)"))
            parameters.append(Estimate("time_constant_h", hours, low, high, "h"))
        if self.white_m > 2 * LEAST_WHITE_M:
            parameters.append(Estimate("independent_noise_m", self.white_m, math.nan, math.nan, "m"))
        return (*parameters, *(lattice_estimates(self.lattice) if self.lattice else ()))

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report given the earlier reports of the user."""
        if self.lattice is None:
            return kalman_log_density(sample, self.sd_m, self.drift_m, self.white_m) + math.log(ATOM_M2)
        west, east, south, north = self.lattice.box(sample)
        if self.drift_m == 0:
            along = constant_box_log_mass(sample, west, east, self.sd_m)
            return along + constant_box_log_mass(sample, south, north, self.sd_m)
        low, high = np.stack([west, south]), np.stack([east, north])
        return box_log_mass(sample, low, high, self.sd_m, self.drift_m)

    def innovations(self, sample: Sample) -> FloatArray:
        """Return the standardised deviations from the predictions on both axes, except those of first rows.

        They are standard normal if the model holds, without snapping and beyond the rounding of the file.
        """
        x, y, variance = kalman_predictions(sample, self.sd_m, self.drift_m, self.white_m)
        deviations = np.concatenate([(sample.dx_m - x)[sample.follows], (sample.dy_m - y)[sample.follows]])
        return np.asarray(deviations / np.sqrt(np.tile(variance[sample.follows], 2)))

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return drawn displacements in metres."""
        keep, change = transitions(sample, self.sd_m, self.drift_m)
        x, y = np.zeros(len(sample)), np.zeros(len(sample))
        for row, (share, spread) in enumerate(zip(keep, change, strict=True)):
            before = (x[row - 1], y[row - 1]) if row else (0.0, 0.0)
            x[row] = share * before[0] + spread * rng.normal()
            y[row] = share * before[1] + spread * rng.normal()
        noise = rng.normal(0.0, self.white_m, (2, len(sample)))
        return snapped_displacement(sample, x + noise[0], y + noise[1], self.lattice)

    def memoryless(self) -> Fit:
        """Return independent Gaussian noise of the same standard deviation."""
        return NoiseFit(_GAUSSIAN, math.hypot(self.sd_m, self.white_m), self.lattice)


def transitions(sample: Sample, sd_m: float, drift_m: float) -> tuple[FloatArray, FloatArray]:
    """Return the weight of the previous offset and the standard deviation of the change, for each row."""
    hours = np.diff(sample.time_s, prepend=sample.time_s[:1]) / 3600
    keep = np.exp(-np.maximum(hours, 0.0) * drift_m**2 / (2 * sd_m**2)) * sample.follows
    return keep, sd_m * np.sqrt(np.maximum(1 - keep**2, 0.0))


def seems_correlated(sample: Sample) -> bool:
    """Return whether displacements of consecutive rows are correlated."""
    after = np.flatnonzero(sample.follows)
    if after.size < 10:
        return False
    product = sum((d[after] * d[after - 1]).sum() for d in (sample.dx_m, sample.dy_m))
    square = sum((d[after] ** 2).sum() for d in (sample.dx_m, sample.dy_m))
    return bool(square > 0 and product / square > _LEAST_CORRELATION)


def fit_offset(sample: Sample, lattice: Lattice | None, *, intervals: bool = True) -> OffsetFit | None:
    """Return the offset of maximum likelihood; None if consecutive displacements are not correlated."""
    if not seems_correlated(sample):
        return None
    guess = mean_length(sample, lattice, LEAST_WHITE_M).value / math.sqrt(2)
    start = OffsetFit(max(guess, 1.0), 0.0, LEAST_WHITE_M, lattice)
    constant = start if lattice is not None else _improved(start, sample, ("white_m", "sd_m"))
    constant = _improved(constant, sample, ("sd_m",))
    hours = max(float(np.ptp(sample.time_s)) / 3600, 1e-3)
    drifting = replace(constant, drift_m=constant.sd_m / math.sqrt(hours), n_free=4)
    names = ("drift_m", "sd_m") if lattice is not None else ("drift_m", "white_m", "sd_m")
    starts = [replace(drifting, white_m=LEAST_WHITE_M), *([] if lattice is not None else [drifting])]
    ends = []
    for start in starts:
        end = _improved(_improved(start, sample, ("drift_m", "sd_m")), sample, names)
        ends.append(_improved(end, sample, ("drift_m",)))
    drifting = max(ends, key=lambda fit: float(fit.log_mass(sample).sum()))
    gain = float(drifting.log_mass(sample).sum() - constant.log_mass(sample).sum())
    moved = drifting.drift_m * math.sqrt(hours)
    best = drifting if gain > _CONSTANT_NATS and moved > max(_LEAST_MOVED_M, 0.01 * drifting.sd_m) else constant
    best = replace(best, length=mean_length(sample, lattice, best.white_m))
    return with_intervals(best, sample) if intervals else best


def with_intervals(fit: OffsetFit, sample: Sample) -> OffsetFit:
    """Return a fit with the intervals of its parameters."""
    known = ("sd_m", "drift_m") if fit.drift_m else ("sd_m",)
    parameters = [profile_interval(_along(fit, sample, name), getattr(fit, name)) for name in known]
    return replace(fit, intervals=(*parameters, *([] if fit.drift_m else [(0.0, 0.0)])))


def _along(fit: OffsetFit, sample: Sample, name: str) -> Callable[[float], float]:
    return lambda value: float(_replaced(fit, name, value).log_mass(sample).sum())


def _replaced(fit: OffsetFit, name: str, value: float) -> OffsetFit:
    changes: dict[str, float] = {name: max(value, LEAST_WHITE_M) if name == "white_m" else value}
    return replace(fit, **changes)  # type: ignore[arg-type]


def _improved(fit: OffsetFit, sample: Sample, names: tuple[str, ...]) -> OffsetFit:
    """Maximise the likelihood along one parameter after the other."""
    for name in names:
        guess = getattr(fit, name) or 1.0
        reach, points = (1e4, 21) if name == "white_m" else (20.0, 9) if name == "drift_m" else (3.0, 5)
        fit = _replaced(fit, name, maximised(_along(fit, sample, name), guess, reach=reach, points=points))
    return fit
