"""Control attacks: guesses of an adversary who has no report, from where the other users go.

Users are divided into `FOLDS` folds. The adversary who guesses about a user knows the visits and homes of the users of
all other folds, each user with the same weight, and guesses the cell that covers most of them within a scale. With at
most `FOLDS` users, these are all other users. Of the scales up to the radius, the one with the most success over all
folds counts, so that the success of a guess never decreases with the radius. The guess does not depend on the user's
own data, so its success needs no correction.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sim.analysis.answers.by_hour import HourlyVisits
from sim.analysis.answers.located import distances_km, within
from sim.analysis.answers.places import best_cells, covered_visits, positions_km
from sim.analysis.answers.radii import scales_within
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import Locations

FOLDS = 10
_DIGITS = 9
"""Decimals of sums of visits: ties must stay ties."""


class Folds:
    """Fold of each user, by order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def add(self, users: Iterable[str]) -> None:
        """Add users; known users keep their fold."""
        for user in users:
            self._numbers.setdefault(user, len(self._numbers))

    def __getitem__(self, user: str) -> int:
        return self._numbers[user] % FOLDS

    def __len__(self) -> int:
        return len(self._numbers)


class ControlAttacks:
    """Guesses for the users of each fold, in one world."""

    def __init__(self, locations: Locations) -> None:
        self.locations = locations
        self._hourly = HourlyVisits(FOLDS, locations.n_cells)
        self._masses: dict[tuple[int, float], FloatArray] = {}
        self._visits = np.zeros((FOLDS, locations.n_cells))
        self._homes = np.zeros((FOLDS, locations.n_cells))
        self._guesses: dict[tuple[str, int, float, int], list[int]] = {}
        self._scales: dict[tuple[str, float], float] = {}

    def add(self, fold: int, cells: IntArray, hours: IntArray, home: int) -> None:
        """Add the visited cells of a user, who has weight 1, the hours of the visits, and the cell of their home."""
        self._hourly.add(fold, hours, cells)
        self._visits[fold] += np.bincount(cells, minlength=self.locations.n_cells) / len(cells)
        self._homes[fold, home] += 1

    def place(self, fold: int, radius_km: float) -> int | None:
        """Return the cell that covers most visits of the other folds; None without other users."""
        return self._at_best_scale("visits", self._visits, fold, radius_km)

    def place_at(self, fold: int, radius_km: float, hour: int) -> int | None:
        """Return the cell that covers most visits of the other folds in an hour of the day, at the scale of `place`.

        In an hour that nobody else has visits in, and without other users, it is that of `place`.
        """
        place = self.place(fold, radius_km)
        key = (f"hour {hour}", fold, self._scales["visits", radius_km], 1)
        if key not in self._guesses:
            self._guesses[key] = best_cells(self._hourly.of_others(fold, hour), self.locations, key[2])
        return next(iter(self._guesses[key]), place)

    def mass(self, fold: int, radius_km: float) -> FloatArray | None:
        """Return the share of the visits of the other folds within the radius of each cell; None without other users.

        It is the prior probability of an adversary who knows where the other users go.
        """
        if (fold, radius_km) not in self._masses:
            others = np.delete(self._visits, fold, axis=0).sum(axis=0)
            if not others.any():
                return None
            self._masses[fold, radius_km] = covered_visits(others, self.locations, radius_km) / others.sum()
        return self._masses[fold, radius_km]

    def places(self, fold: int, radius_km: float, count: int) -> list[int]:
        """Return the cells that together cover most visits of the other folds; empty without other users."""
        return self._best("visits", self._visits, fold, radius_km, count)

    def home(self, fold: int, radius_km: float) -> int | None:
        """Return the cell that covers most homes of the other folds; None without other users."""
        return self._at_best_scale("homes", self._homes, fold, radius_km)

    def _at_best_scale(self, name: str, counts: FloatArray, fold: int, radius_km: float) -> int | None:
        if (name, radius_km) not in self._scales:
            covered = {scale: self._covered(name, counts, scale, radius_km) for scale in scales_within(radius_km)}
            self._scales[name, radius_km] = max(covered, key=lambda scale: covered[scale])
        return next(iter(self._best(name, counts, fold, self._scales[name, radius_km], 1)), None)

    def _covered(self, name: str, counts: FloatArray, scale_km: float, radius_km: float) -> float:
        """Return the visits of each fold within the radius of the guess at a scale from the other folds, together."""
        at, covered = positions_km(self.locations), 0.0
        for fold, own in enumerate(counts):
            for guess in self._best(name, counts, fold, scale_km, 1) if own.any() else ():
                covered += float(own[within(distances_km(at, at[guess]), radius_km)].sum())
        return round(covered, _DIGITS)

    def _best(self, name: str, counts: FloatArray, fold: int, radius_km: float, count: int) -> list[int]:
        key = (name, fold, radius_km, count)
        if key not in self._guesses:
            # Added, not subtracted from the total: rounding would leave visits that nobody made.
            others = np.delete(counts, fold, axis=0).sum(axis=0)
            self._guesses[key] = best_cells(others, self.locations, radius_km, count)
        return self._guesses[key]
