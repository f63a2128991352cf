"""Mixtures: the true place with some probability, otherwise a uniform place, a fixed place, or noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sim.audit.deterministic import log_mass_of, own_cell
from sim.audit.displacement import M_PER_DEGREE, Sample, metres_per_degree_east
from sim.audit.families import Family
from sim.audit.hypothesis import ATOM_M2, RARE, Estimate, Fit, maximised, profile_interval, share_interval
from sim.audit.lattice import Lattice
from sim.audit.noise import Mass, NoiseFit, fit_noise, lattice_estimates, snapped_displacement
from sim.interfaces import BoolArray, FloatArray, Generator

_LEAST_SHARE = 0.005


@dataclass(frozen=True)
class UniformFit:
    """A uniform place in a rectangle, whatever the true position."""

    south: float
    north: float
    west: float
    east: float
    lattice: Lattice | None
    kind: str = "uniform_region"
    estimates: tuple[Estimate, ...] = ()
    n_free: int = 4

    @property
    def n_places(self) -> float:
        """Number of lattice points, or of events of `ATOM_M2`."""
        middle = np.array([(self.south + self.north) / 2])
        if self.lattice is not None:
            (row0, row1), (col0, col1) = self.lattice.sent_cell(
                np.array([self.south, self.north]), np.array([self.west, self.east])
            )
            return float((row1 - row0 + 1) * (abs(col1 - col0) + 1))
        height = (self.north - self.south) * M_PER_DEGREE
        return float(max(1.0, height * ((self.east - self.west) * metres_per_degree_east(middle))[0] / ATOM_M2))

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report."""
        slack = 1e-9
        inside = (sample.sent_lat >= self.south - slack) & (sample.sent_lat <= self.north + slack)
        inside &= (sample.sent_lon >= self.west - slack) & (sample.sent_lon <= self.east + slack)
        return np.where(inside, -math.log(self.n_places), math.log(RARE) - math.log(self.n_places))

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return displacements to uniform places."""
        if self.lattice is not None:
            rows, cols = self.lattice.sent_cell(np.array([self.south, self.north]), np.array([self.west, self.east]))
            lat = self.lattice.lat.value(rng.integers(rows[0], rows[1] + 1, len(sample)))
            scale = np.cos(np.radians(lat)) if self.lattice.metric else 1.0
            lon = self.lattice.lon.value(rng.integers(cols.min(), cols.max() + 1, len(sample))) / scale
        else:
            lat = rng.uniform(self.south, self.north, len(sample))
            lon = rng.uniform(self.west, self.east, len(sample))
        return (lon - sample.lon) * metres_per_degree_east(sample.lat), (lat - sample.lat) * M_PER_DEGREE

    def memoryless(self) -> UniformFit:
        """Return itself."""
        return self


@dataclass(frozen=True)
class FixedPlaceFit:
    """The same place, whatever the true position."""

    lat: float
    lon: float
    share: float
    kind: str = "fixed_place"
    n_free: int = 2

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The place."""
        lat, lon = self.lat, self.lon
        return Estimate("place_lat", lat, lat, lat, "degrees"), Estimate("place_lon", lon, lon, lon, "degrees")

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report."""
        at_place = (np.abs(sample.sent_lat - self.lat) < 1e-6) & (np.abs(sample.sent_lon - self.lon) < 1e-6)
        return log_mass_of(at_place, self.share)

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return the displacements to the place."""
        del rng
        dx = (self.lon - sample.lon) * metres_per_degree_east(sample.lat)
        return dx, (self.lat - sample.lat) * M_PER_DEGREE

    def memoryless(self) -> FixedPlaceFit:
        """Return itself."""
        return self


@dataclass(frozen=True)
class MixtureFit:
    """The true place, or its cell, with a probability; otherwise a report of another mechanism."""

    other: Fit
    reveal_probability: float
    """Probability beyond that of the other mechanism."""
    total: Estimate
    """Probability that the report is the true place."""
    lattice: Lattice | None

    @property
    def kind(self) -> str:
        """`location_hiding`, `coin`, or the kind of the other mechanism with identity."""
        named = {"uniform_region": "location_hiding", "fixed_place": "coin"}
        return named.get(self.other.kind, f"identity+{self.other.kind}")

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Probability of the true place, then the parameters of the other mechanism."""
        known = self.other.estimates
        if self.lattice is not None and not any(name.name == "step_lat_m" for name in known):
            known = (*known, *lattice_estimates(self.lattice))
        return (self.total, *known)

    @property
    def n_free(self) -> int:
        """One more than the other mechanism."""
        return self.other.n_free + 1

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report."""
        own = own_place(sample, self.lattice)
        reveal = min(max(self.reveal_probability, 1e-9), 1 - 1e-9)
        known = np.where(own, math.log(reveal), -np.inf)
        return np.logaddexp(known, math.log1p(-reveal) + self.other.log_mass(sample))

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return drawn displacements in metres."""
        zero = np.zeros(len(sample))
        known = snapped_displacement(sample, zero, zero, self.lattice)
        other = self.other.simulate(sample, rng)
        revealed = rng.uniform(size=len(sample)) < self.reveal_probability
        return np.where(revealed, known[0], other[0]), np.where(revealed, known[1], other[1])

    def memoryless(self) -> MixtureFit:
        """Return the mixture with the memoryless other mechanism."""
        return replace(self, other=self.other.memoryless())


def own_place(sample: Sample, lattice: Lattice | None) -> BoolArray:
    """Return whether each report is the true position or the lattice point of its cell."""
    return sample.identical if lattice is None else own_cell(lattice, sample)


def fit_uniform(sample: Sample, lattice: Lattice | None) -> UniformFit:
    """Return the uniform mechanism on the bounding box of the reports."""
    lat, lon = sample.sent_lat, sample.sent_lon
    return UniformFit(float(lat.min()), float(lat.max()), float(lon.min()), float(lon.max()), lattice)


def fit_fixed_place(sample: Sample) -> FixedPlaceFit | None:
    """Return the fixed place if almost all reports are there."""
    sent = np.round(np.column_stack([sample.sent_lat, sample.sent_lon]), 7)
    places, count = np.unique(sent, axis=0, return_counts=True)
    share = float(count.max() / len(sample))
    lat, lon = places[count.argmax()]
    return FixedPlaceFit(float(lat), float(lon), min(share, 1 - RARE)) if share >= 0.95 else None


def fit_hiding(sample: Sample, lattice: Lattice | None) -> MixtureFit | None:
    """Return the mixture of the true place with a fixed place, or else with a uniform one."""
    own = own_place(sample, lattice)
    if not _mixed_enough(own):
        return None
    rest = sample.rows(~own)
    fixed = fit_fixed_place(rest)
    other: Fit = fit_uniform(rest, lattice) if fixed is None else fixed
    return _mixture(other, own, other.log_mass(sample), lattice)


def fit_noise_mixture(
    family: Family, sample: Sample, lattice: Lattice | None, *, intervals: bool = True
) -> MixtureFit | None:
    """Return the mixture of the true place with a family of noise.

    For each scale the probability of the true place is that of maximum likelihood.
    """
    own = own_place(sample, lattice)
    if not _mixed_enough(own) or (lattice is not None and family.singular):
        return None
    if lattice is None:
        noise = fit_noise(family, sample.rows(~own), None, intervals=intervals)
        return None if noise is None else _mixture(noise, own, noise.log_mass(sample), None)
    guess = float(sample.distance_m[~own].mean()) / family.mean_distance
    mass = Mass(family, sample, lattice, guess)

    def log_likelihood(scale: float) -> float:
        log_other = mass(scale)
        reveal = _reveal(own, log_other)
        return float(
            np.logaddexp(np.where(own, math.log(max(reveal, 1e-12)), -np.inf), math.log1p(-reveal) + log_other).sum()
        )

    scale = maximised(log_likelihood, guess, reach=3.0, points=9 if family.norm is None else 45)
    interval = profile_interval(log_likelihood, scale) if intervals else (math.nan, math.nan)
    return _mixture(NoiseFit(family, scale, lattice, interval), own, mass(scale), lattice)


def _mixed_enough(own: BoolArray) -> bool:
    """Return whether both parts of a mixture occur."""
    return bool(_LEAST_SHARE <= own.mean() <= 1 - _LEAST_SHARE / 5 and (~own).sum() >= 5)


def _reveal(own: BoolArray, log_other: FloatArray) -> float:
    """Return the probability of the true place beyond that of the other mechanism, of maximum likelihood (EM)."""
    reveal = float(own.mean())
    for _ in range(30):
        known = np.where(own, reveal, 0.0)
        reveal = min(float((known / np.maximum(known + (1 - reveal) * np.exp(log_other), 1e-300)).mean()), 1 - 1e-9)
    return reveal


def _mixture(other: Fit, own: BoolArray, log_other: FloatArray, lattice: Lattice | None) -> MixtureFit:
    # At a fixed place both parts send the same report, so that these rows say nothing about the coin.
    certain = own & (log_other > math.log(0.5)) if isinstance(other, FixedPlaceFit) else np.zeros_like(own)
    count, total = int((own & ~certain).sum()), int((~certain).sum())
    estimate = Estimate("reveal_probability", count / max(total, 1), *share_interval(count, total))
    return MixtureFit(other, _reveal(own, log_other), estimate, lattice)
