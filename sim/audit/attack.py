"""Attacks on the sent positions with the fitted channel: optimal sporadic and Markov, with controls.

The first half of each user's pairs is what the adversary knows of the past; the second half is attacked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.audit.attack_grid import AttackGrid, grid_of
from sim.audit.displacement import Sample
from sim.audit.families import FAMILIES
from sim.audit.hypothesis import Fit
from sim.audit.joint_filter import JOINT_ATTACK, Places, joint_posteriors, reported
from sim.audit.memory_attack import MEMORY_ATTACK, estimates_from_memory, has_memory
from sim.audit.moves import LONGEST_GAP_S, Moves
from sim.audit.noise import NoiseFit
from sim.audit.offset import OffsetFit
from sim.audit.selection import SEED, Finding
from sim.inference.bayes import condition, normalise
from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.rng import stream

_UNIFORM_SHARE = 0.01
_FLOOR = 1e-6
"""Weight of a wide likelihood, so that a report between two cells is never impossible."""
_ROWS_AT_A_TIME = 40_000

FEWEST_ROWS = 10
"""Least number of attacked reports, and of past pairs."""

CONTROLS = ("no report", "random")
ATTACKS = ("report taken literally", "sporadic, other users", "sporadic, own past", "markov, own past")


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
    new_places: float
    """Share of the attacked positions in cells that the user did not visit in the past."""
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
    more: tuple[str, ...] = (MEMORY_ATTACK,) if has_memory(finding.fit) else ()
    more += (JOINT_ATTACK,) if isinstance(finding.fit, OffsetFit) else ()
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
        if isinstance(finding.fit, OffsetFit):
            posteriors = _jointly(finding.fit, sample.rows((sample.user == user) & sample.sent), grid, known)
            estimates[JOINT_ATTACK][rows] = _places(grid, _decided(posteriors[-len(rows) :], distance))
    true = np.column_stack(grid.plane.to_m(target.lat, target.lon))
    new_places = _new_places(known, target, grid)
    return AttackResult(grid, target, true, estimates, new_places, tuple(_notes(finding, grid)))


def _new_places(past: Sample, target: Sample, grid: AttackGrid) -> float:
    """Return the share of positions in cells that the same user did not visit before."""
    visited, attacked = (sample.user * len(grid.x_m) + grid.cell_of(sample) for sample in (past, target))
    return float(1 - np.isin(attacked, visited).mean())


def _notes(finding: Finding, grid: AttackGrid) -> Iterator[str]:
    if isinstance(finding.fit, OffsetFit):
        yield (
            f"The offset of a user is hidden. Only two attacks learn it: '{MEMORY_ATTACK}' from true positions of the "
            f"user, and '{JOINT_ATTACK}' from the reports and the places of other users alone, which needs users who "
            "share places. The other attacks take reports as independent draws: they overstate the protection."
        )
    elif has_memory(finding.fit):
        yield (
            "The protection is overstated: the mechanism sends reports again. Only the attack "
            f"'{MEMORY_ATTACK}' uses this, with true positions of the user. All others take reports as independent "
            "draws, while an adversary may also recognise repeated reports without any true position."
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


def _filtered(rows: Sample, profile: FloatArray, moves: Moves, likelihood: FloatArray) -> Iterator[FloatArray]:
    """Yield the posterior of each row of a user; a long gap restarts at the profile."""
    posterior = profile
    gaps = np.diff(rows.time_s, prepend=-math.inf)
    for gap, row in zip(gaps.tolist(), likelihood, strict=True):
        prior = profile if gap > LONGEST_GAP_S else moves.predict(posterior)
        posterior = _posterior(prior, row)
        yield posterior


def _jointly(fit: OffsetFit, reports: Sample, grid: AttackGrid, known: Sample) -> FloatArray:
    """Return the posterior of each report of a user by an adversary who knows the past of the other users only."""
    others = known.rows(known.user != reports.user[0])
    correction, error = reported(fit, reports)
    position = np.column_stack(grid.plane.to_m(reports.sent_lat, reports.sent_lon)) + correction
    profile = _with_own_places(others, grid)
    places = Places(np.column_stack([grid.x_m, grid.y_m]), grid.side_m**2 / 12, profile)
    moves = Moves.of(others, grid, profile)
    return np.array(list(joint_posteriors(fit, position, error, reports.time_s, places, moves.after)))


def _with_own_places(others: Sample, grid: AttackGrid) -> FloatArray:
    """Return the histogram of the places of other users, with a uniform place as often as these have one of their own.

    Without the latter, a wrong offset that moves the user to places of other users would be more probable than the true
    one.
    """
    cell = grid.cell_of(others)
    visitors = np.bincount(np.unique(np.column_stack([cell, others.user]), axis=0)[:, 0], minlength=grid.x_m.size)
    alone = float((visitors[cell] < 2).mean()) if len(others) else 1.0
    share = min(max(alone, _UNIFORM_SHARE), 1 - _UNIFORM_SHARE)
    area = grid.side_m.prod(axis=1) * (np.arange(grid.x_m.size) >= grid.n_fine)
    counts = np.bincount(cell, minlength=grid.x_m.size).astype(float)
    uniform = normalise(area)
    return uniform if len(others) == 0 else (1 - share) * normalise(counts) + share * uniform


def _posterior(prior: FloatArray, likelihood: FloatArray) -> FloatArray:
    """Return the posterior; without common mass the likelihood alone."""
    posterior, mass = condition(prior, likelihood)
    return posterior if mass > 0 else normalise(likelihood)


def _decided(posteriors: FloatArray, distance: FloatArray) -> IntArray:
    """Return the cell with the least expected distance, for each posterior."""
    return np.asarray((posteriors @ distance).argmin(axis=1))


def _places(grid: AttackGrid, cells: IntArray) -> FloatArray:
    return np.column_stack([grid.x_m[cells], grid.y_m[cells]])
