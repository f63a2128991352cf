"""Presence of reports: sent, dropped at random, or dropped or moved inside a circle around a place of each user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from sim.audit.displacement import Sample
from sim.audit.hypothesis import ATOM_M2, RARE, Estimate, share_interval
from sim.interfaces import BoolArray, FloatArray, Generator, IntArray

_LEAST_ROWS = 3
_MOST_EXCEPTIONS = 0.05
_CENTRED = 0.9
_REACHES = np.linspace(0.05, 1.0, 20)
"""Largest distances of a random centre from the most visited place, as shares of the radius."""
_NO_RADIUS = 1e-4
_SAME_VISIT_M = 30.0
_CENTRE_ERROR_M = 10.0
"""Error of the centre of a place from the errors of its positions."""
_CENTRES = 61
"""Number of centres along each axis of a grid."""
_RADII_M = np.geomspace(10.0, 30_000.0, 1601)
_PER_ZONE = 3
"""Free parameters of a zone: two coordinates and the radius."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A circle that separates altered from unaltered positions of a user."""

    user: int
    lat: float
    lon: float
    radius_m: float
    low_m: float
    """Lower end of the 95 % interval of the radius."""
    high_m: float
    exceptions: int


@dataclass(frozen=True)
class Presence:
    """Which positions are altered: dropped, or moved in a zone."""

    kind: str
    """`all`, `dropping` or `zone`."""
    share: float
    """Share of altered rows."""
    estimates: tuple[Estimate, ...] = ()
    zones: tuple[Zone, ...] = ()
    gain: float = 0.0
    """Advantage of the zones over random alterations, in units of the Bayesian information criterion."""


def fit_dropping(sample: Sample) -> Presence:
    """Return whether reports are dropped; not if only the first, or only the last rows of users have none.

    Those are rows before or after the recording of the sent positions.
    """
    missing = ~sample.sent
    if missing.sum() >= _LEAST_ROWS and (only_first(missing, sample.user) or only_last(missing, sample.user)):
        return Presence("all", 0.0)
    return fit_presence(sample, missing)


def only_first(rows: BoolArray, user: IntArray) -> bool:
    """Return whether the chosen rows of each user come before all its others; `user` is sorted.

    >>> only_first(np.array([True, False, True, True, False]), np.array([0, 0, 1, 1, 1]))
    True
    """
    return not (rows[1:] & ~rows[:-1] & (user[1:] == user[:-1])).any()


def only_last(rows: BoolArray, user: IntArray) -> bool:
    """Return whether the chosen rows of each user come after all its others; `user` is sorted."""
    return only_first(rows[::-1], user[::-1])


def fit_presence(sample: Sample, altered: BoolArray) -> Presence:
    """Return whether rows are altered, at random or in zones."""
    count, total = int(altered.sum()), len(sample)
    share = count / total
    if count == 0:
        return Presence("all", 0.0)
    random = Presence("dropping", share, (Estimate("drop_probability", share, *share_interval(count, total)),))
    if count < _LEAST_ROWS or count == total:
        return random
    fitted = [zone for user in np.unique(sample.user[altered]) if (zone := _zone(sample, altered, int(user)))]
    if not fitted:
        return random
    zones = [zone for zone, _ in fitted]
    exceptions = sum(zone.exceptions for zone in zones) + _outside(sample, altered, zones)
    gain = _log_binomial(exceptions, total) - _log_binomial(count, total) - _PER_ZONE * len(zones) * math.log(total) / 2
    if gain <= 0 or exceptions > _MOST_EXCEPTIONS * total:
        return random
    radius = _common_radius(sample, altered, zones, [share for _, share in fitted])
    return Presence("zone", share, (radius, *_places(zones)), tuple(zones), gain)


def _log_binomial(count: int, total: int) -> float:
    share = min(max(count / total, 0.5 / total), 1 - 0.5 / total)
    return count * math.log(share) + (total - count) * math.log1p(-share)


def _outside(sample: Sample, altered: BoolArray, zones: list[Zone]) -> int:
    """Return the number of altered rows of users without a zone."""
    return int((altered & ~np.isin(sample.user, [zone.user for zone in zones])).sum())


def _most_visited(points: FloatArray) -> FloatArray:
    """Return the place with the most positions."""
    near: Any = cKDTree(points).query_ball_point(points, _SAME_VISIT_M)
    return np.asarray(np.median(points[max(near, key=len)], axis=0))


def _centred_bounds(sample: Sample, altered: BoolArray, user: int) -> tuple[float, float]:
    """Return the least and the greatest radius of a circle around the altered place that a user visits most."""
    own = sample.user == user
    x, y = sample.true_xy_m
    points, inside = np.column_stack([x[own], y[own]]), altered[own]
    centre = _most_visited(points[inside])
    away = np.hypot(*(points - centre).T)
    return float(away[inside].max()), float(away[~inside].min())


def _common_radius(sample: Sample, altered: BoolArray, zones: list[Zone], covered: list[FloatArray]) -> Estimate:
    """Return the radius that all users have in common.

    The hypotheses have equal prior weight: the centres are the places that users visit most, up to exceptions, or they
    are uniform within one of the shares `_REACHES` of the radius around these. Some users fit no radius. `covered` has
    for each user the share of feasible centres by reach and radius.
    """
    log_centred, log_random = np.zeros(_RADII_M.size), np.zeros((len(_REACHES), _RADII_M.size))
    for zone, share in zip(zones, covered, strict=True):
        low, high = _centred_bounds(sample, altered, zone.user)
        fits = (low - _CENTRE_ERROR_M <= _RADII_M) & (high + _CENTRE_ERROR_M > _RADII_M)
        anywhere = np.minimum(share, 1.0) + _NO_RADIUS
        log_centred += np.log(_CENTRED * fits + (1 - _CENTRED) * anywhere[-1])
        log_random += np.log(anywhere)
    log_all = np.logaddexp(log_centred, np.logaddexp.reduce(log_random) - math.log(len(_REACHES)))
    weights = np.exp(log_all - log_all.max())
    low, middle, high = _quantiles(weights / weights.sum())
    return Estimate("radius_m", middle, low, high, "m")


def _quantiles(weights: FloatArray) -> tuple[float, float, float]:
    """Return the 2.5 %, 50 % and 97.5 % quantile of a distribution over `_RADII_M`."""
    cumulative = (np.cumsum(weights) - weights / 2) / weights.sum()
    low, middle, high = np.interp([0.025, 0.5, 0.975], cumulative, _RADII_M)
    return float(low), float(middle), float(high)


def _places(zones: list[Zone]) -> tuple[Estimate, ...]:
    """Return the number of zones; with one zone its centre too."""
    count = Estimate("zones", len(zones), len(zones), len(zones))
    if len(zones) > 1:
        return (count,)
    (zone,) = zones
    return (
        count,
        Estimate("centre_lat", zone.lat, math.nan, math.nan, "degrees"),
        Estimate("centre_lon", zone.lon, math.nan, math.nan, "degrees"),
    )


def _zone(sample: Sample, altered: BoolArray, user: int) -> tuple[Zone, FloatArray] | None:
    """Return the circle that separates the altered from the other rows of a user, and the share of feasible centres
    within each radius.

    Without three rows of both, or without a circle for most rows, there is none.
    """
    own = sample.user == user
    inside = altered[own]
    if inside.sum() < _LEAST_ROWS or (~inside).sum() < _LEAST_ROWS:
        return None
    plane = sample.plane
    points = np.column_stack(plane.to_m(sample.lat[own], sample.lon[own]))
    centres, least, most, wrong = separating_circles(points, inside)
    if wrong > max(1, 0.2 * inside.sum()):
        return None
    away = np.hypot(*(centres - _most_visited(points[inside])).T)
    share = np.array([_feasible(least, most, away, reach) for reach in _REACHES]) * _area_of_cell(centres)
    if not share[-1].sum() > 0:
        return None
    posterior = share[-1] / share[-1].sum()
    weights = _weights_of_centres(least, most, posterior)
    lat, lon = plane.to_degrees(*(np.array(value) for value in weights @ centres / weights.sum()))
    low, radius, high = _quantiles(posterior)
    return Zone(user, float(lat), float(lon), radius, low, high, wrong), share


def _feasible(least: FloatArray, most: FloatArray, away_m: FloatArray, reach: float) -> FloatArray:
    """Return the number of feasible centres within `reach` radii of a place, per area, for each radius.

    A centre is feasible for the radii from `least` to `most`; `away_m` is its distance from the place.
    """
    start, end = _radii_between(np.maximum(least, away_m / reach), most)
    change = np.bincount(start, minlength=_RADII_M.size + 1) - np.bincount(end, minlength=_RADII_M.size + 1)
    return np.asarray(change.cumsum()[:-1] / (np.pi * (reach * _RADII_M) ** 2))


def _weights_of_centres(least: FloatArray, most: FloatArray, posterior: FloatArray) -> FloatArray:
    """Return the probability of each centre, if those that are feasible for a radius are equally probable."""
    start, end = _radii_between(least, most)
    change = np.bincount(start, minlength=_RADII_M.size + 1) - np.bincount(end, minlength=_RADII_M.size + 1)
    up_to = np.concatenate([[0.0], (posterior / np.maximum(change.cumsum()[:-1], 1)).cumsum()])
    return np.asarray(up_to[end] - up_to[start])


def _radii_between(least: FloatArray, most: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first index of `_RADII_M` in each interval [least, most), and the index after the last one."""
    start, end = np.searchsorted(_RADII_M, least), np.searchsorted(_RADII_M, most)
    return start, np.maximum(start, end)


def _area_of_cell(centres: FloatArray) -> float:
    """Return the area that each centre of a grid stands for."""
    return float(np.prod(np.ptp(centres, axis=0) / (_CENTRES - 1)))


def separating_circles(points: FloatArray, inside: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Return centres of circles that contain exactly the inside points, with the least and the greatest radius.

    The centres are on two successive grids, the second over the feasible centres of the first. A centre is feasible if
    its farthest inside point is nearer than its nearest outside point. Without a feasible centre, points that the best
    centre does not separate are left out; their number is returned.
    """
    within, without = points[inside], points[~inside]
    middle = np.median(within, axis=0)
    spread = np.hypot(*(within - middle).T).max()
    half = float(spread + np.hypot(*(without - middle).T).min() + 10.0)
    wrong = 0
    for _ in range(3):
        centres = _grid(middle - half, middle + half)
        least, most = _radii(centres, within, without)
        if not (least < most).any():
            within, without, left_out = _without_exceptions(centres, within, without)
            wrong += left_out
            if len(within) == 0 or len(without) == 0:
                return centres, least, most, len(points)
            least, most = _radii(centres, within, without)
        feasible = centres[least < most]
        if len(feasible) == 0:
            return centres, least, most, len(points)
        step = 2 * half / _CENTRES
        low, high = feasible.min(axis=0) - step, feasible.max(axis=0) + step
        middle, half = (low + high) / 2, float((high - low).max() / 2)
    return centres, least, most, wrong


def _grid(low: FloatArray, high: FloatArray) -> FloatArray:
    x, y = np.meshgrid(np.linspace(low[0], high[0], _CENTRES), np.linspace(low[1], high[1], _CENTRES))
    return np.column_stack([x.ravel(), y.ravel()])


def _radii(centres: FloatArray, within: FloatArray, without: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distance of each centre to the farthest point within and to the nearest one without."""
    least = np.array([np.hypot(*(centres - point).T) for point in within]).max(axis=0)
    nearest, _ = cKDTree(without).query(centres)
    return least, np.asarray(nearest)


def _without_exceptions(
    centres: FloatArray, within: FloatArray, without: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    """Return the points that the circle with the fewest exceptions separates, and the number of the others."""
    inner, outer = (np.array([np.hypot(*(centres - point).T) for point in part]) for part in (within, without))
    best = (len(within) + len(without), 0, 0.0)
    for radius in np.unique(np.quantile(inner, np.linspace(0.1, 1, 40))):
        count = (inner > radius).sum(axis=0) + (outer <= radius).sum(axis=0)
        centre = int(count.argmin())
        best = min(best, (int(count[centre]), centre, float(radius)))
    count, centre, radius = best
    return within[inner[:, centre] <= radius], without[outer[:, centre] > radius], count


@dataclass(frozen=True)
class MovedZoneFit:
    """The true position outside the zones; inside, another position."""

    presence: Presence
    kind: str = "zone_moved"

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Radius and number of zones."""
        return self.presence.estimates

    @property
    def n_free(self) -> int:
        """Three for each zone."""
        return _PER_ZONE * len(self.presence.zones)

    def inside(self, sample: Sample) -> BoolArray:
        """Return whether each true position is in the zone of its user."""
        return inside_zones(sample, self.presence.zones)

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report; moved ones repeat the last moved report or are uniform."""
        inside = self.inside(sample)
        radius = self.presence.estimates[0].value
        spread = math.log(ATOM_M2 / (math.pi * max(2 * radius, 1.0) ** 2))
        last: dict[int, tuple[float, float]] = {}
        moved = np.full(len(sample), spread)
        for row in np.flatnonzero(inside).tolist():
            sent = (round(float(sample.sent_lat[row]), 7), round(float(sample.sent_lon[row]), 7))
            user = int(sample.user[row])
            if user in last:
                moved[row] = math.log(0.9) if last[user] == sent else math.log(0.1) + spread
            last[user] = sent
        known = np.where(sample.identical, math.log(1 - 1e-3), math.log(RARE))
        return np.where(inside, np.where(sample.identical, math.log(RARE), moved), known)

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return displacements: zero outside, uniform in a disc inside."""
        radius = self.presence.estimates[0].value * np.sqrt(rng.uniform(size=len(sample)))
        angle = rng.uniform(0, 2 * math.pi, len(sample))
        inside = self.inside(sample)
        return inside * radius * np.cos(angle), inside * radius * np.sin(angle)

    def memoryless(self) -> MovedZoneFit:
        """Return itself."""
        return self


def inside_zones(sample: Sample, zones: tuple[Zone, ...]) -> BoolArray:
    """Return whether each true position is in the zone of its user."""
    inside = np.zeros(len(sample), dtype=bool)
    x, y = sample.true_xy_m
    for zone in zones:
        centre = sample.plane.to_m(np.array(zone.lat), np.array(zone.lon))
        inside |= (sample.user == zone.user) & (np.hypot(x - centre[0], y - centre[1]) <= zone.radius_m)
    return inside


def fit_moved_zone(sample: Sample) -> MovedZoneFit | None:
    """Return zones around the positions whose report is another place, if a circle separates them for each user."""
    if not 0.3 < sample.identical.mean() < 1:
        return None
    presence = fit_presence(sample, ~sample.identical)
    return MovedZoneFit(presence) if presence.kind == "zone" else None
