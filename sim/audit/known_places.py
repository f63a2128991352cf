"""True homes and most visited places of the attacked users, and guesses of them without a report.

A place is a disc of `PLACE_KM` with the most positions. The control attack `others` knows where the users of all other
folds go; the control attack `habits` knows the user's own past. They are compared with attacks that know the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from sim.analysis.answers.control_attacks import FOLDS
from sim.analysis.answers.home_exposure import DAY_S, Night, at_home
from sim.analysis.answers.located import distances_km, random_success, within
from sim.analysis.answers.radii import scales_within
from sim.analysis.answers.reidentified_places import COUNTS, top_places
from sim.audit.attack import AttackResult, first_halves
from sim.audit.displacement import Sample
from sim.interfaces import BoolArray, FloatArray, IntArray

OTHERS, HABITS = "others", "habits"
PLACE_KM = 0.1
"""Radius of a place."""
_RESOLUTION_KM = 0.01
"""Positions are rounded to this, so that a place has few distinct ones."""


def control_of(attack: str) -> str:
    """Return the control attack that knows as much as an attack, without a report.

    >>> control_of("markov, own past"), control_of("report taken literally")
    ('habits', 'others')
    """
    return HABITS if "own past" in attack else OTHERS


@dataclass(frozen=True)
class KnownUser:
    """True data of a user. Positions are in km on the plane of the attack."""

    number: int
    rows: IntArray
    """Attacked rows of the user; empty if nothing was sent in the second half."""
    times_s: IntArray
    days_observed: int
    """Days of the second half, whether sent or not."""
    home: FloatArray
    top: FloatArray
    """Most visited places, at most max(COUNTS)."""
    past_home: FloatArray
    past_top: FloatArray


@dataclass(frozen=True)
class KnownPlaces:
    """All users of an audit with the estimates of the attacks."""

    users: tuple[KnownUser, ...]
    result: AttackResult
    night: Night
    cells_km: FloatArray
    """Places of the attack, shape (n_places, 2)."""
    visits: FloatArray
    """Past visits of the users of each fold by place, shape (FOLDS, n_places); each user has weight 1."""
    _guesses: dict[tuple[int, float], FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, result: AttackResult, sample: Sample, night: Night) -> Self:
        """Collect the true data of all users of the pairs."""
        past = first_halves(sample)
        grid = result.grid
        cell = grid.cell_of(sample)
        xy = np.column_stack(grid.plane.to_m(sample.lat, sample.lon)) / 1000
        times = np.floor(sample.time_s).astype(np.int64)
        visits = np.zeros((FOLDS, len(grid.x_m)))
        users = []
        for number in np.unique(sample.user).tolist():
            own = sample.user == number
            before = own & past
            visits[number % FOLDS] += np.bincount(cell[before], minlength=visits.shape[1]) / before.sum()
            later = times[own & ~past]
            attacked = np.flatnonzero(result.sample.user == number)
            users.append(
                KnownUser(
                    number,
                    attacked,
                    np.floor(result.sample.time_s[attacked]).astype(np.int64),
                    int((later.max() - later.min()) // DAY_S + 1) if later.size else 1,
                    _most(xy[own], at_home(times[own], night), 1)[0],
                    _most(xy[own], None, max(COUNTS)),
                    _most(xy[before], at_home(times[before], night), 1)[0],
                    _most(xy[before], None, max(COUNTS)),
                )
            )
        return cls(tuple(users), result, night, np.column_stack([grid.x_m, grid.y_m]) / 1000, visits)

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks, without controls."""
        return self.result.attacks

    def estimates(self, attack: str, user: KnownUser) -> FloatArray:
        """Return the estimates of the attacked rows of a user in km, shape (n, 2)."""
        return np.asarray(self.result.estimates_m[attack][user.rows] / 1000)

    def home_control(self, radius_km: float, kind: str) -> FloatArray:
        """Return for each user whether the control attack guesses the home; NaN without other users."""
        if kind == HABITS:
            apart = [distances_km(user.past_home, user.home) for user in self.users]
            return within(np.array(apart), radius_km).astype(float)
        # Of the scales up to the radius, the one with the most success counts: it never decreases with the radius.
        by_scale = [self._others_hit(scale, radius_km) for scale in scales_within(radius_km)]
        return max(by_scale, key=np.nansum)

    def _others_hit(self, scale_km: float, radius_km: float) -> FloatArray:
        """Return for each user whether the place with the most homes of the other folds within a scale is the home."""
        guesses: dict[int, FloatArray | None] = {}
        for fold in {user.number % FOLDS for user in self.users}:
            others = np.array([user.home for user in self.users if user.number % FOLDS != fold])
            near = None if not len(others) else top_places(others, np.ones(len(others)), 1, merge_km=scale_km)[0]
            guesses[fold] = near
        return np.array([self._hit(user, guesses[user.number % FOLDS], radius_km) for user in self.users])

    def _hit(self, user: KnownUser, guess: FloatArray | None, radius_km: float) -> float:
        return np.nan if guess is None else float(within(distances_km(user.home, guess), radius_km))

    def control_places(self, user: KnownUser, radius_km: float, kind: str) -> FloatArray:
        """Return the guesses of the most visited places by a control attack."""
        if kind == HABITS:
            return user.past_top
        fold = user.number % FOLDS
        if (fold, radius_km) not in self._guesses:
            weights = np.delete(self.visits, fold, axis=0).sum(axis=0)
            seen = weights > 0
            guesses = top_places(self.cells_km[seen], weights[seen], max(COUNTS), merge_km=radius_km)
            self._guesses[fold, radius_km] = guesses
        return self._guesses[fold, radius_km]

    def random(self, places: FloatArray, radius_km: float) -> FloatArray:
        """Return the probability that a random place of the attack is within the radius of each of some places."""
        return random_success(places, self.cells_km, radius_km)


def _most(xy_km: FloatArray, chosen: BoolArray | None, count: int) -> FloatArray:
    """Return the most visited places among some rows, shape (<= count, 2)."""
    places = np.round((xy_km if chosen is None else xy_km[chosen]) / _RESOLUTION_KM) * _RESOLUTION_KM
    return top_places(places, np.ones(len(places)), count, merge_km=PLACE_KM)
