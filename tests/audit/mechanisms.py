"""Independent simulators of mechanisms in continuous coordinates, from their published descriptions, and of designs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import sim
from sim.audit.displacement import Sample
from sim.interfaces import FloatArray, Generator
from tests.audit.movement import CENTRE, EAST, M_PER_DEGREE, people

Movement = Callable[..., Sample]
Release = Callable[[Sample, Generator], Sample]


@dataclass(frozen=True)
class Case:
    """A mechanism with the kinds that count as recovered, and its main parameter."""

    name: str
    release: Release
    kinds: tuple[str, ...]
    parameter: str | None
    truth: float | Callable[[Sample], float] = math.nan
    movement: Movement = people

    def true_value(self, sample: Sample) -> float:
        return self.truth(sample) if callable(self.truth) else self.truth


def moved(sample: Sample, dx: FloatArray, dy: FloatArray) -> Sample:
    east = M_PER_DEGREE * np.cos(np.radians(sample.lat))
    return replace(sample, sent_lat=sample.lat + dy / M_PER_DEGREE, sent_lon=sample.lon + dx / east)


def identity(sample: Sample, rng: Generator) -> Sample:
    return sample


def laplace(scale_m: float) -> Release:
    def release(sample: Sample, rng: Generator) -> Sample:
        angle, radius = rng.uniform(0, 2 * math.pi, len(sample)), rng.gamma(2.0, scale_m, len(sample))
        return moved(sample, radius * np.cos(angle), radius * np.sin(angle))

    return release


def gaussian(sigma_m: float) -> Release:
    return lambda sample, rng: moved(sample, *rng.normal(0, sigma_m, (2, len(sample))))


def disc(radius_m: float) -> Release:
    def release(sample: Sample, rng: Generator) -> Sample:
        angle, radius = rng.uniform(0, 2 * math.pi, len(sample)), radius_m * np.sqrt(rng.uniform(size=len(sample)))
        return moved(sample, radius * np.cos(angle), radius * np.sin(angle))

    return release


def disc_distance(radius_m: float) -> Release:
    def release(sample: Sample, rng: Generator) -> Sample:
        angle, radius = rng.uniform(0, 2 * math.pi, len(sample)), radius_m * rng.uniform(size=len(sample))
        return moved(sample, radius * np.cos(angle), radius * np.sin(angle))

    return release


def decimals(count: int) -> Release:
    def release(sample: Sample, rng: Generator) -> Sample:
        return replace(sample, sent_lat=np.round(sample.sent_lat, count), sent_lon=np.round(sample.sent_lon, count))

    return release


def truncated_decimals(count: int) -> Release:
    def release(sample: Sample, rng: Generator) -> Sample:
        unit = 10.0**count
        return replace(
            sample, sent_lat=np.floor(sample.sent_lat * unit) / unit, sent_lon=np.floor(sample.sent_lon * unit) / unit
        )

    return release


def precision_bits(bits: int) -> Release:
    """Meshtastic: keep the first bits of the 32-bit integer of 1e-7 degrees and report the middle of the cell."""

    def cut(degrees: FloatArray) -> FloatArray:
        whole = np.floor(degrees * 1e7).astype(np.int64)
        return np.asarray(((whole >> (32 - bits) << (32 - bits)) + (1 << (31 - bits))) * 1e-7, dtype=np.float64)

    def release(sample: Sample, rng: Generator) -> Sample:
        return replace(sample, sent_lat=cut(sample.lat), sent_lon=cut(sample.lon))

    return release


def metric_grid(step_m: float) -> Release:
    """Snap to a grid in metres: longitude steps by the snapped latitude."""

    def release(sample: Sample, rng: Generator) -> Sample:
        step = step_m / 111_000.0
        lat = np.round(sample.sent_lat / step) * step
        step_lon = step / np.cos(np.radians(lat))
        return replace(sample, sent_lat=lat, sent_lon=np.round(sample.sent_lon / step_lon) * step_lon)

    return release


def in_turn(*releases: Release) -> Release:
    def release(sample: Sample, rng: Generator) -> Sample:
        for one in releases:
            sample = one(sample, rng)
        return sample

    return release


def fudger(accuracy_m: float = 2000.0) -> Release:
    """Android's coarse location: an offset of sd accuracy / 4 per axis, redrawn by 3 % an hour, then a grid.

    The offset changes when an hour has passed since its last change; a coarse location is kept for ten minutes.
    """

    def release(sample: Sample, rng: Generator) -> Sample:
        new, old = 0.03, math.sqrt(1 - 0.03**2)
        dx, dy, keep = np.zeros(len(sample)), np.zeros(len(sample)), np.arange(len(sample))
        offset, changed, made = np.zeros(2), 0.0, 0
        for row in range(len(sample)):
            if not sample.follows[row]:
                offset, changed, made = rng.normal(0, accuracy_m / 4, 2), sample.time_s[row], row
            elif sample.time_s[row] - sample.time_s[made] < 600:
                keep[row] = made
                dx[row], dy[row] = dx[made], dy[made]
                continue
            for _ in range(int((sample.time_s[row] - changed) // 3600)):
                offset = old * offset + new * rng.normal(0, accuracy_m / 4, 2)
                changed += 3600
            made = row
            dx[row], dy[row] = offset
        coarse = metric_grid(accuracy_m)(moved(sample, dx, dy), rng)
        return replace(coarse, sent_lat=coarse.sent_lat[keep], sent_lon=coarse.sent_lon[keep])

    return release


def constant_offset(sd_m: float) -> Release:
    def release(sample: Sample, rng: Generator) -> Sample:
        offset = rng.normal(0, sd_m, (2, int(sample.user.max()) + 1))
        return moved(sample, offset[0, sample.user], offset[1, sample.user])

    return release


def drifting_offset(sd_m: float, hours: float) -> Release:
    def release(sample: Sample, rng: Generator) -> Sample:
        gap = np.diff(sample.time_s, prepend=0.0) / 3600
        keep = np.where(sample.follows, np.exp(-np.maximum(gap, 0) / hours), 0.0)
        offset = np.zeros((len(sample), 2))
        for row in range(len(sample)):
            fresh = rng.normal(0, sd_m, 2)
            offset[row] = keep[row] * offset[row - 1] + math.sqrt(1 - keep[row] ** 2) * fresh
        return moved(sample, offset[:, 0], offset[:, 1])

    return release


def zone(radius_m: float, *, away_m: float = 0.0, hidden: bool = True) -> Release:
    """Drop or move reports within a circle around the place where each user is most often at night."""

    def release(sample: Sample, rng: Generator) -> Sample:
        sent_lat, sent_lon = sample.sent_lat.copy(), sample.sent_lon.copy()
        for user in np.unique(sample.user):
            rows = np.flatnonzero(sample.user == user)
            night = rows[np.argsort((sample.time_s[rows] / 3600 + 18) % 24)[: max(3, rows.size // 10)]]
            shift = rng.uniform(-1, 1, 2) * away_m
            lat = np.median(sample.lat[night]) + shift[0] / M_PER_DEGREE
            lon = np.median(sample.lon[night]) + shift[1] / EAST
            away = np.hypot((sample.lat[rows] - lat) * M_PER_DEGREE, (sample.lon[rows] - lon) * EAST)
            inside = rows[away < radius_m]
            sent_lat[inside], sent_lon[inside] = (np.nan, np.nan) if hidden else (lat, lon)
        return replace(sample, sent_lat=sent_lat, sent_lon=sent_lon)

    return release


def memoised_by_time(release_new: Release, lifetime_s: float) -> Release:
    """Location Guard's cache: a report is sent again until it is older than the lifetime of its level."""

    def release(sample: Sample, rng: Generator) -> Sample:
        drawn = release_new(sample, rng)
        source = np.arange(len(sample))
        for row in range(1, len(sample)):
            start = source[row - 1]
            if sample.follows[row] and sample.time_s[row] - sample.time_s[start] < lifetime_s:
                source[row] = start
        return replace(drawn, sent_lat=drawn.sent_lat[source], sent_lon=drawn.sent_lon[source])

    return release


def memoised_by_place(release_new: Release, decimals_of_place: int) -> Release:
    """One draw for each user and each place, where a place is a position rounded to some decimals."""

    def release(sample: Sample, rng: Generator) -> Sample:
        drawn = release_new(sample, rng)
        keys = np.column_stack([sample.user, *np.floor(np.array([sample.lat, sample.lon]) * 10**decimals_of_place)])
        _, first, group = np.unique(keys.astype(np.int64), axis=0, return_index=True, return_inverse=True)
        source = first[group.reshape(-1)]
        return replace(drawn, sent_lat=drawn.sent_lat[source], sent_lon=drawn.sent_lon[source])

    return release


def hiding(reveal: float, extent_m: float = 10_000.0) -> Release:
    """Report the true position with a probability, otherwise a uniform one in a square."""

    def release(sample: Sample, rng: Generator) -> Sample:
        x, y = rng.uniform(-extent_m, extent_m, (2, len(sample)))
        known = rng.uniform(size=len(sample)) < reveal
        lat = np.where(known, sample.lat, CENTRE[0] + y / M_PER_DEGREE)
        return replace(sample, sent_lat=lat, sent_lon=np.where(known, sample.lon, CENTRE[1] + x / EAST))

    return release


def sometimes(reveal: float, other: Release) -> Release:
    def release(sample: Sample, rng: Generator) -> Sample:
        noisy, known = other(sample, rng), rng.uniform(size=len(sample)) < reveal
        lat = np.where(known, sample.lat, noisy.sent_lat)
        return replace(sample, sent_lat=lat, sent_lon=np.where(known, sample.lon, noisy.sent_lon))

    return release


def design(name: str, rows: int = 32, cols: int = 36, **parameters: Any) -> Release:
    """A design of lppm-sim on a grid over the city with a uniform prior: cells are reported as their centres."""

    def release(sample: Sample, rng: Generator) -> Sample:
        world = sim.make_world("region", rows=rows, cols=cols, south=37.56, north=37.88, west=-122.67, east=-122.21)
        grid = world.grid
        mechanism = sim.make_lppm(name, world=world, **parameters)
        channel = mechanism.design(np.full(grid.n_cells, 1 / grid.n_cells))
        x_km, y_km = grid.to_km(sample.lat, sample.lon)
        cell = grid.cell_of_km(np.clip(x_km, 0, grid.width_km), np.clip(y_km, 0, grid.height_km))
        output = np.array([channel.sample(int(c), rng) for c in cell])
        space = mechanism.output_space
        cells = [space.cells(int(z)) for z in output]
        lat, lon = grid.to_degrees(
            np.array([grid.x_km[np.asarray(c)].mean() if np.size(c) else math.nan for c in cells]),
            np.array([grid.y_km[np.asarray(c)].mean() if np.size(c) else math.nan for c in cells]),
        )
        return replace(sample, sent_lat=lat, sent_lon=lon)

    return release
