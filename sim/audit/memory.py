"""Memoised reports: the same report for the same place, for positions near an earlier one, or for some time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sim.audit.displacement import M_PER_DEGREE, Sample, metres_per_degree_east
from sim.audit.families import FAMILIES
from sim.audit.hypothesis import Estimate, Fit
from sim.audit.lattice import Lattice
from sim.audit.noise import NoiseFit, fit_noise
from sim.interfaces import BoolArray, FloatArray, Generator, IntArray

_LEAST_REPEATS = 0.02
_LEAST_AGREEMENT = 0.9
_TILES_DEG = (0.01, 0.005, 0.002, 0.001, 0.0005, 0.0001)
_MOST_TESTED = 24


@dataclass(frozen=True)
class Rule:
    """When an earlier report is sent again."""

    kind: str
    """`place`: positions in the same tile; `near`: near an earlier one; `time`: until a time has passed."""
    value: float
    """Side of a tile, distance in metres, or time in seconds; 0 for exactly the same position."""
    unit: str
    sources: Callable[[Sample], IntArray]
    """Row whose report each row repeats, or itself for a new draw."""


@dataclass(frozen=True)
class MemoFit:
    """Reports drawn once and sent again by a rule; new draws follow another mechanism."""

    rule: Rule
    other: Fit
    agreement: float
    interval: tuple[float, float]
    n_draws: int

    @property
    def kind(self) -> str:
        """Kind of the draws, memoised by place or by time."""
        return f"memoised_by_{'time' if self.rule.kind == 'time' else 'place'}+{self.other.kind}"

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Parameters of the draws, the reach of the memory, and the share of rows that the rule predicts."""
        name = {"place": "tile", "near": "near", "time": "lifetime"}[self.rule.kind]
        reach = Estimate(f"{name}_{self.rule.unit}", self.rule.value, *self.interval, self.rule.unit)
        share = Estimate("predicted_share", self.agreement, math.nan, math.nan)
        return (*self.other.estimates, reach, share, Estimate("draws", self.n_draws, self.n_draws, self.n_draws))

    @property
    def n_free(self) -> int:
        """One more than the draws."""
        return self.other.n_free + 1

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report given the earlier reports of the user."""
        source = self.rule.sources(sample)
        repeats = source != np.arange(len(sample))
        same = same_report(sample, source)
        drawn = self.other.log_mass(sample)
        wrong = math.log(max(1 - self.agreement, 1e-4))
        right = math.log(min(self.agreement, 1 - 1e-4))
        return np.where(repeats, np.where(same, right, wrong + drawn), drawn)

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return drawn displacements in metres."""
        source = self.rule.sources(sample)
        dx, dy = self.other.simulate(sample, rng)
        lat = (sample.lat + dy / M_PER_DEGREE)[source]
        lon = (sample.lon + dx / metres_per_degree_east(sample.lat))[source]
        return (lon - sample.lon) * metres_per_degree_east(sample.lat), (lat - sample.lat) * M_PER_DEGREE

    def memoryless(self) -> Fit:
        """Return the mechanism of the draws."""
        return self.other


def same_report(sample: Sample, source: IntArray) -> BoolArray:
    """Return whether each report equals that of another row."""
    same = np.abs(sample.sent_lat - sample.sent_lat[source]) < 1e-8
    return np.asarray(same & (np.abs(sample.sent_lon - sample.sent_lon[source]) < 1e-8))


def fit_memory(sample: Sample, lattice: Lattice | None, *, intervals: bool = True) -> MemoFit | None:
    """Return the rule that predicts best which rows repeat a report, with the family of the new draws."""
    actual = repeated(sample)
    if actual.mean() < _LEAST_REPEATS:
        return None
    best: tuple[float, Rule] | None = None
    for rule in _rules(sample, actual):
        agreement = _agreement(rule, sample, actual)
        if best is None or agreement > best[0] + 1e-3:
            best = agreement, rule
    if best is None or best[0] < _LEAST_AGREEMENT:
        return None
    agreement, rule = best
    fresh = sample.rows(~actual)
    fits = [fit_noise(family, fresh, lattice, intervals=False) for family in FAMILIES]
    known = [fit for fit in fits if fit is not None]
    if not known:
        return None
    draws: NoiseFit | None = max(known, key=lambda fit: float(fit.log_mass(fresh).sum()))
    assert draws is not None
    if intervals:
        draws = fit_noise(draws.family, fresh, lattice)
        assert draws is not None
    return MemoFit(rule, draws, agreement, _reach(rule, sample, actual), int((~actual).sum()))


def repeated(sample: Sample) -> BoolArray:
    """Return whether the same user sent each report before."""
    keys = np.column_stack([sample.user, np.rint(sample.sent_lat * 1e8), np.rint(sample.sent_lon * 1e8)])
    _, first, group = np.unique(keys.astype(np.int64), axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[group.reshape(-1)] != np.arange(len(sample)))


def _agreement(rule: Rule, sample: Sample, actual: BoolArray) -> float:
    """Return the share of rows for which the rule predicts whether a report is repeated, and which one."""
    source = rule.sources(sample)
    predicted = source != np.arange(len(sample))
    return float(np.where(predicted, same_report(sample, source), ~actual).mean())


def _rules(sample: Sample, actual: BoolArray) -> Iterator[Rule]:
    yield Rule("place", 0.0, "m", lambda s: tile_sources(s, 0.01, metric=True))
    for tile in _TILES_DEG:
        yield Rule("place", tile, "degrees", lambda s, t=tile: tile_sources(s, t, metric=False))  # type: ignore[misc]
    for near in _reaches(_distance_to_first(sample)[actual]):
        yield Rule("near", near, "m", lambda s, d=near: near_sources(s, d))  # type: ignore[misc]
    for lifetime in _lifetimes(sample, actual):
        yield Rule("time", lifetime, "s", lambda s, t=lifetime: time_sources(s, t))  # type: ignore[misc]


def _reaches(distances: FloatArray) -> list[float]:
    used = distances[distances > 0.01]
    if used.size == 0:
        return []
    return sorted({float(value) for value in np.quantile(used, np.linspace(0.5, 1.0, _MOST_TESTED // 2))})


def _ages(sample: Sample) -> FloatArray:
    """Return the time since the report of each row was sent first without interruption."""
    start = np.arange(len(sample))
    same = np.concatenate([[False], same_report(sample, np.arange(len(sample)) - 1)[1:]]) & sample.follows
    for row in np.flatnonzero(same):
        start[row] = start[row - 1]
    return sample.time_s - sample.time_s[start]


def _lifetimes(sample: Sample, actual: BoolArray) -> list[float]:
    ages = _ages(sample)[actual]
    if not (ages > 0).any():
        return []
    longest = float(ages.max())
    simple = [60.0 * m for m in (1, 2, 5, 10, 15, 20, 30, 60, 120, 360, 720, 1440)]
    return [value for value in simple if longest < value <= 2 * longest] + [longest + 1]


def _reach(rule: Rule, sample: Sample, actual: BoolArray) -> tuple[float, float]:
    """Return the interval of the reach that the pairs do not exclude."""
    if rule.kind != "time":
        return rule.value, rule.value
    ages = _ages(sample)
    start = np.flatnonzero(~actual & sample.follows)
    gaps = sample.time_s[start] - sample.time_s[start - 1] + ages[start - 1]
    longest = float(ages[actual].max())
    return longest, float(gaps[gaps > longest].min(initial=math.inf))


def tile_sources(sample: Sample, side: float, *, metric: bool) -> IntArray:
    """Return the first row of the user in the same tile."""
    x, y = sample.true_xy_m if metric else (sample.lon, sample.lat)
    keys = np.column_stack([sample.user, np.floor(x / side), np.floor(y / side)]).astype(np.int64)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[group.reshape(-1)])


def time_sources(sample: Sample, lifetime_s: float) -> IntArray:
    """Return the row of the draw that is still valid: a draw is repeated until its lifetime has passed."""
    source = np.arange(len(sample))
    for row in np.flatnonzero(sample.follows):
        start = source[row - 1]
        if sample.time_s[row] - sample.time_s[start] < lifetime_s:
            source[row] = start
    return source


def near_sources(sample: Sample, distance_m: float) -> IntArray:
    """Return the nearest earlier draw of the user within a distance, or the row itself."""
    xy = np.column_stack(sample.true_xy_m)
    source = np.arange(len(sample))
    for user in np.unique(sample.user):
        rows = np.flatnonzero(sample.user == user)
        drawn: list[int] = []
        for row in rows.tolist():
            if drawn:
                away = np.hypot(*(xy[drawn] - xy[row]).T)
                best = int(away.argmin())
                if away[best] <= distance_m:
                    source[row] = drawn[best]
                    continue
            drawn.append(row)
    return source


def _distance_to_first(sample: Sample) -> FloatArray:
    """Return the distance of each position to the position where its report was first sent by the user."""
    keys = np.column_stack([sample.user, np.rint(sample.sent_lat * 1e8), np.rint(sample.sent_lon * 1e8)])
    _, first, group = np.unique(keys.astype(np.int64), axis=0, return_index=True, return_inverse=True)
    x, y = sample.true_xy_m
    start = first[group.reshape(-1)]
    return np.asarray(np.hypot(x - x[start], y - y[start]))
