"""Attacks on the sent positions with the fitted channel: optimal sporadic and Markov, with controls.

The first half of each user's pairs is what the adversary knows of the past; the second half is attacked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from sim.audit.displacement import Plane, Sample
from sim.audit.families import FAMILIES
from sim.audit.hypothesis import Fit
from sim.audit.memory_attack import MEMORY_ATTACK, estimates_from_memory, has_memory
from sim.audit.noise import NoiseFit
from sim.audit.selection import SEED, Finding
from sim.inference.bayes import condition, normalise
from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.rng import stream

MOST_FINE = 1_500
_COARSE_CELLS = 21
_CELLS_PER_DISPLACEMENT = 3.0
_LEAST_CELL_M = 25.0
_PSEUDO_VISITS = 2.0
"""Weight of the profile in each row of the transitions."""
_UNIFORM_SHARE = 0.01
_FLOOR = 1e-6
"""Weight of a wide likelihood, so that a report between two cells is never impossible."""
_LONGEST_GAP_S = 6 * 3600.0
_ROWS_AT_A_TIME = 40_000

FEWEST_ROWS = 10
"""Least number of attacked reports, and of past pairs."""

CONTROLS = ("no report", "random")
ATTACKS = ("report taken literally", "sporadic, other users", "sporadic, own past", "markov, own past")


@dataclass(frozen=True)
class AttackGrid:
    """Places that an estimate can be: fine cells that were visited in the past, and coarse cells everywhere."""

    plane: Plane
    x_m: FloatArray
    y_m: FloatArray
    cell_m: float
    """Side of the fine cells."""
    wanted_cell_m: float
    """Cell size that would resolve the mechanism; smaller than `cell_m` if that takes too many cells."""

    def cell_of(self, sample: Sample) -> IntArray:
        """Return the nearest place of each true position."""
        return self.nearest(sample.lat, sample.lon)

    def nearest(self, lat: FloatArray, lon: FloatArray) -> IntArray:
        """Return the nearest place of each position."""
        _, nearest = self._tree.query(np.column_stack(self.plane.to_m(lat, lon)))
        return np.asarray(nearest, dtype=np.int64)

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(np.column_stack([self.x_m, self.y_m]))

    @property
    def distance_m(self) -> FloatArray:
        """Distances between all places, shape (n_places, n_places)."""
        return np.hypot(self.x_m[:, None] - self.x_m, self.y_m[:, None] - self.y_m)


@dataclass(frozen=True)
class AttackResult:
    """Estimates of the attacked rows by each attack and control."""

    grid: AttackGrid
    sample: Sample
    """The attacked pairs."""
    true_xy_m: FloatArray
    """Shape (n, 2)."""
    estimates_m: dict[str, FloatArray]
    """By attack, shape (n, 2)."""
    notes: tuple[str, ...]

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks, without controls."""
        return tuple(name for name in self.estimates_m if name not in CONTROLS)


def attack(sample: Sample, finding: Finding) -> AttackResult | None:
    """Return the estimates of all attacks; None with too few pairs."""
    past = first_halves(sample)
    target = sample.rows(~past & sample.sent)
    if len(target) < FEWEST_ROWS or past.sum() < FEWEST_ROWS:
        return None
    grid = grid_of(sample, past)
    fit = finding.fit.memoryless()
    likelihood, group = likelihoods(fit, target, grid)
    profiles = _profiles(sample.rows(past), grid, target)
    more = (MEMORY_ATTACK,) if has_memory(finding.fit) else ()
    estimates = {name: np.empty((len(target), 2)) for name in (*CONTROLS, *ATTACKS, *more)}
    estimates[ATTACKS[0]] = np.column_stack(grid.plane.to_m(target.sent_lat, target.sent_lon))
    distance = grid.distance_m
    rng = stream(SEED, "audit.random_guess")
    known = sample.rows(past)
    for user, own, others in profiles:
        rows = np.flatnonzero(target.user == user)
        estimates["no report"][rows] = _places(grid, _decided(own[None], distance))
        estimates["random"][rows] = _places(grid, rng.integers(0, len(grid.x_m), len(rows)))
        for name, prior in zip(ATTACKS[1:3], (others, own), strict=True):
            posteriors = np.array([_posterior(prior, likelihood[group[row]]) for row in rows])
            estimates[name][rows] = _places(grid, _decided(posteriors, distance))
        moves = Moves.of(known.rows(known.user == user), grid, own)
        posteriors = np.array(list(_filtered(target.rows(rows), own, moves, likelihood[group[rows]])))
        estimates[ATTACKS[3]][rows] = _places(grid, _decided(posteriors, distance))
        if has_memory(finding.fit):
            before = known.rows((known.user == user) & known.sent)
            own_rows, otherwise = target.rows(rows), estimates[ATTACKS[3]][rows]
            estimates[MEMORY_ATTACK][rows] = estimates_from_memory(finding.fit, before, own_rows, grid.plane, otherwise)
    true = np.column_stack(grid.plane.to_m(target.lat, target.lon))
    return AttackResult(grid, target, true, estimates, tuple(_notes(finding, grid)))


def _notes(finding: Finding, grid: AttackGrid) -> Iterator[str]:
    if has_memory(finding.fit):
        yield (
            "The protection is overstated: the mechanism has a hidden memory, such as an offset or repeated reports. "
            f"Only the attack '{MEMORY_ATTACK}' learns it, from true positions of the user. All others treat reports "
            "as independent draws, while an adversary may also learn it from the reports alone, such as from roads."
        )
    if finding.n_sent < finding.n_pairs:
        yield "The attacks and their shares concern sent reports only, not the positions without a report."
    if grid.cell_m > 1.5 * grid.wanted_cell_m:
        yield (
            f"The attack grid has cells of {grid.cell_m:,.0f} m, while {grid.wanted_cell_m:,.0f} m would resolve the "
            "mechanism: errors below half a cell are not resolved."
        )
    if finding.rejected:
        yield "No known mechanism fits: the attacks use the best one that does not, and are therefore not optimal."


def first_halves(sample: Sample) -> BoolArray:
    """Return the mask of the first half of the pairs of each user."""
    count = np.bincount(sample.user)
    start = np.concatenate([[0], np.cumsum(count)])[:-1]
    return np.asarray(np.arange(len(sample)) - start[sample.user] < count[sample.user] / 2)


def grid_of(sample: Sample, past: BoolArray) -> AttackGrid:
    """Return the places of an attack.

    The side of the fine cells is a third of the mean displacement, or larger if that takes too many cells.
    """
    plane = sample.plane
    kept = sample.rows(sample.sent)
    resolving_m = max(_LEAST_CELL_M, float(kept.distance_m.mean()) / _CELLS_PER_DISPLACEMENT)
    visited = np.column_stack(plane.to_m(sample.lat[past], sample.lon[past]))
    cell = resolving_m
    while len(fine := np.unique(np.rint(visited / cell), axis=0)) > MOST_FINE:
        cell *= 1.2
    x, y = plane.to_m(sample.lat, sample.lon)
    axes = [np.linspace(side.min(), side.max(), _COARSE_CELLS) for side in (x, y)]
    coarse = np.column_stack([side.ravel() for side in np.meshgrid(*axes)])
    places = np.concatenate([fine * cell, coarse])
    return AttackGrid(plane, places[:, 0], places[:, 1], cell, resolving_m)


def likelihoods(fit: Fit, target: Sample, grid: AttackGrid) -> tuple[FloatArray, IntArray]:
    """Return f(z | x) of each distinct report for all places, scaled to a maximum of 1, and the report of each row.

    The place nearest to a report is evaluated at the report itself: a mechanism finer than the places, such as the
    identity, excludes all of their centres.
    """
    sent = np.column_stack([target.sent_lat, target.sent_lon])
    _, first, group = np.unique(sent, axis=0, return_index=True, return_inverse=True)
    lat, lon = grid.plane.to_degrees(grid.x_m, grid.y_m)
    wide = NoiseFit(FAMILIES[0], max(grid.cell_m, 1.0))
    table = np.empty((len(first), lat.size))
    step = max(1, _ROWS_AT_A_TIME // lat.size)
    for start in range(0, len(first), step):
        chosen = first[start : start + step]
        rows = np.repeat(chosen, lat.size)
        true = np.tile(lat, (len(chosen), 1)), np.tile(lon, (len(chosen), 1))
        at = grid.nearest(target.sent_lat[chosen], target.sent_lon[chosen])
        true[0][np.arange(len(chosen)), at] = target.sent_lat[chosen]
        true[1][np.arange(len(chosen)), at] = target.sent_lon[chosen]
        crossed = Sample(
            target.user[rows],
            target.time_s[rows],
            true[0].ravel(),
            true[1].ravel(),
            target.sent_lat[rows],
            target.sent_lon[rows],
        )
        log_mass = np.logaddexp(fit.log_mass(crossed), math.log(_FLOOR) + wide.log_mass(crossed))
        part = log_mass.reshape(len(chosen), lat.size)
        table[start : start + step] = np.exp(part - part.max(axis=1, keepdims=True))
    return table, np.asarray(group.reshape(-1))


def _profiles(past: Sample, grid: AttackGrid, target: Sample) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Yield each attacked user with the histogram of the own past and that of all other users."""
    n_cells = len(grid.x_m)
    cell = grid.cell_of(past)
    every = np.bincount(cell, minlength=n_cells).astype(float)
    for user in np.unique(target.user).tolist():
        own = np.bincount(cell[past.user == user], minlength=n_cells).astype(float)
        others = every - own
        yield user, _smoothed(own), _smoothed(others)


def _smoothed(counts: FloatArray) -> FloatArray:
    uniform = np.full(counts.size, 1 / counts.size)
    return uniform if counts.sum() == 0 else (1 - _UNIFORM_SHARE) * normalise(counts) + _UNIFORM_SHARE * uniform


@dataclass(frozen=True)
class Moves:
    """Transitions counted in the own past; each row is completed by the profile."""

    source: IntArray
    target: IntArray
    visits: FloatArray
    """Number of counted transitions from each cell."""
    profile: FloatArray

    @classmethod
    def of(cls, past: Sample, grid: AttackGrid, profile: FloatArray) -> Moves:
        """Count the transitions between consecutive rows without a long gap."""
        cell = grid.cell_of(past)
        near = np.diff(past.time_s) <= _LONGEST_GAP_S
        source, target = cell[:-1][near], cell[1:][near]
        return cls(source, target, np.bincount(source, minlength=profile.size).astype(float), profile)

    def predict(self, posterior: FloatArray) -> FloatArray:
        """Return the distribution of the next cell."""
        scaled = posterior / (self.visits + _PSEUDO_VISITS)
        moved = np.bincount(self.target, scaled[self.source], minlength=posterior.size)
        return np.asarray(moved + _PSEUDO_VISITS * scaled.sum() * self.profile)


def _filtered(rows: Sample, profile: FloatArray, moves: Moves, likelihood: FloatArray) -> Iterator[FloatArray]:
    """Yield the posterior of each row of a user; a long gap restarts at the profile."""
    posterior = profile
    gaps = np.diff(rows.time_s, prepend=-math.inf)
    for gap, row in zip(gaps.tolist(), likelihood, strict=True):
        prior = profile if gap > _LONGEST_GAP_S else moves.predict(posterior)
        posterior = _posterior(prior, row)
        yield posterior


def _posterior(prior: FloatArray, likelihood: FloatArray) -> FloatArray:
    """Return the posterior; without common mass the likelihood alone."""
    posterior, mass = condition(prior, likelihood)
    return posterior if mass > 0 else normalise(likelihood)


def _decided(posteriors: FloatArray, distance: FloatArray) -> IntArray:
    """Return the cell with the least expected distance, for each posterior."""
    return np.asarray((posteriors @ distance).argmin(axis=1))


def _places(grid: AttackGrid, cells: IntArray) -> FloatArray:
    return np.column_stack([grid.x_m[cells], grid.y_m[cells]])
