"""Exposure of homes: the day from which on an adversary knows where a user lives.

A day runs from the start of one night to the start of the next, so that a night is not cut; day 1 has the user's first
report. The true home is the place of most queries at night. The adversary forms an estimate of it from the estimates of
the user's place at night: by the *median* rule, the median of the coordinates of all nights so far, which averages
noise out (of an even number the lower one, which is a cell if the estimates are); by the *latest* rule, the median of
the last night, which is better for adversaries that themselves accumulate evidence, such as the belief `home`; by the
*frequent* rule, the place with the most estimates of all nights so far within a scale, which is better for users who
are often elsewhere at night. Scales are fixed, and an adversary uses those up to the radius: the rules for a radius are
also rules for each larger one, so that a user's home is never known later within a larger radius. A user without
queries at night counts with all of them.

The home is known from the first night on after which the estimate is within the radius, and stays within it until the
end of the observation. That the home is known is only established by at least `STABLE_NIGHTS` nights, because even a
random estimate may be within the radius at the last one. Other users are censored at their last day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.analysis.answers.located import distances_km, within
from sim.analysis.answers.radii import scales_within
from sim.errors import InvalidValue
from sim.interfaces import FloatArray, IntArray

HOUR_S, DAY_S = 3_600, 86_400
STABLE_NIGHTS = 3
Kind = Literal["median", "latest", "frequent"]


class Rule(NamedTuple):
    """A rule by which an adversary estimates a home; it does not depend on the radius asked for."""

    kind: Kind
    scale_km: float = 0.0
    """Scale of the rule *frequent*."""

    def __str__(self) -> str:
        return f"frequent within {self.scale_km:g} km" if self.kind == "frequent" else self.kind


def rules_within(radius_km: float) -> tuple[Rule, ...]:
    """Return the rules of an adversary who looks for homes within a radius.

    >>> [str(rule) for rule in rules_within(0.1)]
    ['median', 'latest', 'frequent within 0 km', 'frequent within 0.1 km']
    """
    return Rule("median"), Rule("latest"), *(Rule("frequent", scale) for scale in scales_within(radius_km))


@dataclass(frozen=True, slots=True)
class Night:
    """The hours of the local day at which users are at home; across midnight if `from_h` is later than `until_h`."""

    from_h: float = 22.0
    until_h: float = 6.0
    utc_offset_h: float = 0.0
    """Local time minus the time of the queries, in hours."""

    def __post_init__(self) -> None:
        if self.from_h % 24 == self.until_h % 24:
            raise InvalidValue(
                f"the night must have different hours of the day, got {self.from_h:g} and {self.until_h:g}",
                code="empty-interval",
            )

    def contains(self, times_s: IntArray) -> NDArray[np.bool_]:
        """Return which times are at night.

        >>> Night().contains(np.array([0, 12, 21, 22]) * 3600).tolist()
        [True, False, False, True]
        """
        return self._since(times_s) % DAY_S < round((self.until_h - self.from_h) % 24 * HOUR_S)

    def day_of(self, times_s: IntArray) -> IntArray:
        """Return the number of the day of each time; a day starts with the night.

        >>> Night().day_of(np.array([21, 22, 24, 46]) * 3600).tolist()
        [-1, 0, 0, 1]
        """
        return np.asarray(self._since(times_s) // DAY_S)

    def hour_of(self, times_s: IntArray) -> IntArray:
        """Return the hour of the local day of each time, from 0 to 23."""
        return self._local(times_s) % DAY_S // HOUR_S

    def date_of(self, times_s: IntArray) -> IntArray:
        """Return the number of the local day of each time; a day starts at midnight."""
        return self._local(times_s) // DAY_S

    def _local(self, times_s: IntArray) -> IntArray:
        return np.asarray(times_s) + round(self.utc_offset_h * HOUR_S)

    def _since(self, times_s: IntArray) -> IntArray:
        return np.asarray(times_s) + round((self.utc_offset_h - self.from_h) * HOUR_S)


class Home(NamedTuple):
    """A user's true home and whether it was found from queries at night, or else from all."""

    place: FloatArray
    """Position in km, shape (2,)."""
    at_night: bool


def at_home(times_s: IntArray, night: Night) -> NDArray[np.bool_]:
    """Return which queries count for the home: those at night or, if there are none, all."""
    at_night = night.contains(times_s)
    return at_night if at_night.any() else np.ones(len(at_night), dtype=bool)


def true_home(places: FloatArray, times_s: IntArray, night: Night = Night()) -> Home:  # noqa: B008
    """Return the place of most queries at night, the first visited one if tied; places in km, shape (n, 2).

    Places of continuous coordinates must be merged beforehand (`sim.analysis.answers.reidentified_places.merged`).

    >>> true_home(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), np.array([0, 1, 2]) * 3600).place.tolist()
    [1.0, 0.0]
    """
    chosen = places[at_home(times_s, night)]
    distinct, first, counts = np.unique(chosen, axis=0, return_index=True, return_counts=True)
    place = min(range(len(distinct)), key=lambda i: (-counts[i], first[i]))
    return Home(distinct[place], bool(night.contains(times_s).any()))


class HomeEstimates(NamedTuple):
    """The estimates of a user's home after each day with estimates at night."""

    days: IntArray
    """Days since the first report, from 1."""
    places: FloatArray
    """Positions in km, shape (n_days, 2)."""
    last_day: int
    """The day of the last report."""


def home_estimates(
    places: FloatArray,
    times_s: IntArray,
    *,
    rule: Kind,
    night: Night = Night(),  # noqa: B008
    scale_km: float = 0.0,
) -> HomeEstimates:
    """Return the estimates of a user's home from the estimates of their places, in km, shape (n, 2), in order of time.

    `scale_km` is that of the rule *frequent*.

    >>> at = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]])
    >>> home_estimates(at, np.array([0, 24, 48]) * 3600, rule="median").places[:, 0].tolist()
    [0.0, 0.0, 2.0]
    >>> home_estimates(at, np.array([0, 24, 48]) * 3600, rule="latest").days.tolist()
    [1, 2, 3]
    """
    all_days = night.day_of(times_s)
    used = at_home(times_s, night)
    chosen, own_days = places[used], all_days[used]
    days, starts = np.unique(own_days, return_index=True)
    ends = np.append(starts[1:], len(own_days))
    if rule == "frequent":
        estimates = _most_frequent(chosen, ends, scale_km)
    else:
        begins = np.zeros_like(starts) if rule == "median" else starts
        estimates = np.array([_median(chosen[a:b]) for a, b in zip(begins, ends, strict=True)])
    return HomeEstimates(days - all_days[0] + 1, estimates.reshape(-1, 2), int(all_days[-1] - all_days[0] + 1))


def _median(places: FloatArray) -> FloatArray:
    """Return the lower median of each coordinate: of centres of cells again a centre of a cell."""
    middle = (len(places) - 1) // 2
    return np.asarray(np.partition(places, middle, axis=0)[middle])


def _most_frequent(places: FloatArray, ends: IntArray, scale_km: float) -> FloatArray:
    """Return the place with the most places within the scale among those before each end; the first if tied."""
    distinct, first, which = np.unique(places, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    distinct, which = distinct[order], np.argsort(order)[which.ravel()]
    counts = np.array([np.bincount(which[:end], minlength=len(distinct)) for end in ends.tolist()])
    covered = counts @ within(distances_km(distinct[:, None], distinct[None]), scale_km)
    return np.asarray(distinct[np.where(counts > 0, covered, -1).argmax(axis=1)])


class KnownHome(NamedTuple):
    """The day from which on a home is known, or the last day of the observation."""

    day: int
    known: bool
    """False: censored, not known until this day."""


def day_known(
    estimates: HomeEstimates, home: FloatArray, radius_km: float, *, stable_nights: int = STABLE_NIGHTS
) -> KnownHome:
    """Return the first day from which on all estimates are within the radius of the home, in at least some nights.

    >>> estimates = HomeEstimates(np.arange(1, 6), np.array([[9.0, 0], [0, 0], [9, 0], [1, 0], [0, 0]]), 7)
    >>> day_known(estimates, np.zeros(2), 1.0, stable_nights=2), day_known(estimates, np.zeros(2), 1.0)
    (KnownHome(day=4, known=True), KnownHome(day=7, known=False))
    """
    outside = np.flatnonzero(~within(distances_km(estimates.places, home), radius_km))
    first = int(outside[-1]) + 1 if len(outside) else 0
    if len(estimates.days) - first < stable_nights:
        return KnownHome(estimates.last_day, known=False)
    return KnownHome(int(estimates.days[first]), known=True)


def days_known(
    places: FloatArray,
    times_s: IntArray,
    home: FloatArray,
    radii_km: Sequence[float],
    night: Night = Night(),  # noqa: B008
) -> dict[tuple[float, Rule], KnownHome]:
    """Return the day from which on a home is known, by radius and rule, from the estimates of a user's places."""
    known = {}
    for rule in rules_within(max(radii_km)):
        homes = home_estimates(places, times_s, rule=rule.kind, scale_km=rule.scale_km, night=night)
        for radius in radii_km:
            if rule.scale_km <= radius:
                known[radius, rule] = day_known(homes, home, radius)
    return known
