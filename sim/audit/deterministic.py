"""Deterministic mechanisms: the true position, a snapped position, one fixed place, or regions of any form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from sim.audit.cell_displacement import cell_displacement
from sim.audit.displacement import Plane, Sample
from sim.audit.hypothesis import RARE, Estimate, share_interval
from sim.audit.lattice import Lattice
from sim.audit.noise import lattice_estimates
from sim.interfaces import BoolArray, FloatArray, Generator, IntArray

_LEAST_SHARE = 0.98
_LEAST_AGREEMENT = 0.85
_LEAST_AGREEMENT_OF_USERS = 0.7
_LEAST_PER_REGION = 4.0
_MOST_DIAMETERS = 3.0
_BORDER = 1e-3
"""Width of the border of a cell, in steps, where rounding may lead to the neighbouring cell."""


def log_mass_of(predicted: BoolArray, share: float) -> FloatArray:
    """Return the log probability of reports that a deterministic rule predicts or excludes."""
    return np.where(predicted, math.log(share), math.log(RARE))


@dataclass(frozen=True)
class IdentityFit:
    """The true position."""

    share: float = 1.0
    kind: str = "identity"
    estimates: tuple[Estimate, ...] = ()
    n_free: int = 0

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report."""
        return log_mass_of(sample.identical, min(self.share, 1 - RARE))

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return displacements of zero."""
        del rng
        return np.zeros(len(sample)), np.zeros(len(sample))

    def memoryless(self) -> IdentityFit:
        """Return itself."""
        return self


def fit_identity(sample: Sample) -> IdentityFit | None:
    """Return the identity if it explains almost all reports."""
    share = float(sample.identical.mean())
    return IdentityFit(share) if share >= _LEAST_SHARE else None


@dataclass(frozen=True)
class SnappingFit:
    """The point of a lattice for the cell that contains the true position."""

    lattice: Lattice
    share: float
    displacement: tuple[Estimate, ...] = ()
    """Displacement from the centres of the cells; empty if it may be 0."""
    kind: str = "snapping"
    n_free: int = 4

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Steps, origins, and the displacement from the centres of the cells."""
        return (*lattice_estimates(self.lattice), *self.displacement)

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report."""
        return log_mass_of(own_cell(self.lattice, sample), min(self.share, 1 - RARE))

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return the displacements of the snapping."""
        from sim.audit.noise import snapped_displacement

        del rng
        return snapped_displacement(sample, np.zeros(len(sample)), np.zeros(len(sample)), self.lattice)

    def memoryless(self) -> SnappingFit:
        """Return itself."""
        return self


def own_cell(lattice: Lattice, sample: Sample) -> BoolArray:
    """Return whether each report stands for the cell of the true position, within rounding."""
    west, east, south, north = lattice.box(sample)
    slack_x, slack_y = _BORDER * (east - west) + 0.2, _BORDER * (north - south) + 0.2
    inside = (west <= slack_x) & (east >= -slack_x) & (south <= slack_y) & (north >= -slack_y)
    return np.asarray(inside)


def fit_snapping(sample: Sample, lattice: Lattice | None) -> SnappingFit | None:
    """Return the snapping if it explains almost all reports."""
    if lattice is None:
        return None
    own = own_cell(lattice, sample)
    share = float(own.mean())
    return SnappingFit(lattice, share, cell_displacement(sample, lattice, own)) if share >= _LEAST_SHARE else None


@dataclass(frozen=True)
class RegionsFit:
    """One report for each of some regions, which need not form a lattice: report of the nearest known position."""

    tree: cKDTree
    plane: Plane
    report: IntArray
    """Number of the report of each known position."""
    places: FloatArray
    """Reports in degrees, shape (n_reports, 2)."""
    agreement: float
    interval: tuple[float, float]
    diameter_m: float
    kind: str = "regions"

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Number of regions, their size, and how well neighbours predict the report."""
        count, size = float(len(self.places)), self.diameter_m
        return (
            Estimate("regions", count, count, math.inf),
            Estimate("median_diameter_m", size, size, math.inf, "m"),
            Estimate("predicted_share", self.agreement, *self.interval),
        )

    @property
    def n_free(self) -> int:
        """The share alone: each report is predicted by the other positions."""
        return 1

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report, by the nearest known position at another place."""
        xy = np.column_stack(self.plane.to_m(sample.lat, sample.lon))
        near = self._nearest(xy)
        same = (
            np.abs(self.places[self.report[near]] - np.column_stack([sample.sent_lat, sample.sent_lon])).max(1) < 1e-7
        )
        return np.where(same, math.log(self.agreement), math.log((1 - self.agreement) / len(self.places)))

    def _nearest(self, xy: FloatArray) -> IntArray:
        """Return the nearest known position that is not the position itself."""
        distance, near = (np.asarray(part) for part in self.tree.query(xy, k=2))
        return np.where(distance[:, 0] > 1e-3, near[:, 0], near[:, 1]).astype(np.int64)

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return the displacements to the reports of the nearest known positions."""
        from sim.audit.displacement import M_PER_DEGREE, metres_per_degree_east

        del rng
        xy = np.column_stack(self.plane.to_m(sample.lat, sample.lon))
        place = self.places[self.report[self._nearest(xy)]]
        dx = (place[:, 1] - sample.lon) * metres_per_degree_east(sample.lat)
        return dx, (place[:, 0] - sample.lat) * M_PER_DEGREE

    def memoryless(self) -> RegionsFit:
        """Return itself."""
        return self


def fit_regions(sample: Sample) -> RegionsFit | None:
    """Return regions if near positions have equal reports and there are several positions for each report."""
    sent = np.column_stack([sample.sent_lat, sample.sent_lon]).astype(np.float64).round(8)
    places, report = np.unique(sent, axis=0, return_inverse=True)
    report = report.reshape(-1)
    plane = sample.plane
    xy = np.column_stack(plane.to_m(sample.lat, sample.lon))
    _, first = np.unique(np.round(xy, 2), axis=0, return_index=True)
    if len(first) < _LEAST_PER_REGION * len(places) or len(first) < 3:
        return None
    tree = cKDTree(xy[first])
    near = np.asarray(tree.query(xy[first], k=2)[1])
    agreed = int((report[first][near[:, 1]] == report[first]).sum())
    agreement = agreed / len(first)
    if agreement < _LEAST_AGREEMENT or _between_users(xy, report, sample.user) < _LEAST_AGREEMENT_OF_USERS:
        return None
    corners = [np.ptp(xy[report == number], axis=0) for number in range(len(places))]
    diameter = float(np.median([math.hypot(*corner) for corner in corners]))
    if np.median(sample.distance_m) > _MOST_DIAMETERS * diameter:  # one report for each place, but of another place
        return None
    interval = share_interval(agreed, len(first))
    return RegionsFit(tree, plane, report[first], places, min(agreement, 1 - RARE), interval, diameter)


def _between_users(xy: FloatArray, report: IntArray, user: IntArray) -> float:
    """Return how often the nearest position of another user has the same report; 1 for a single user."""
    users = np.unique(user)
    if users.size == 1:
        return 1.0
    agreed = 0
    for one in users:
        own = user == one
        _, near = cKDTree(xy[~own]).query(xy[own])
        agreed += int((report[~own][near] == report[own]).sum())
    return agreed / len(user)
