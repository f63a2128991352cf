"""Success of attacks and control attacks on one user in one replication, in the cells of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.analysis.answers.by_hour import located_by_habits
from sim.analysis.answers.control_attacks import ControlAttacks
from sim.analysis.answers.home_exposure import Rule, at_home, days_known, true_home
from sim.analysis.answers.located import best_guess, distances_km, prior_mass, within
from sim.analysis.answers.places import cells_within, positions_km
from sim.analysis.answers.questions import (
    HOME,
    LOCATED,
    PLACES,
    POSTERIOR,
    POSTERIOR_WITHIN,
    REPORTS,
    Questions,
    key,
    recorded_radii,
)
from sim.analysis.answers.reidentified_places import found_share, random_found_share, top_places
from sim.interfaces import FloatArray, IntArray

OTHERS, HABITS, RANDOM = "others", "habits", "random"
"""Knowledge of a control attack: where the other users go; how often this user visits each place; nothing."""
BY_HOUR = "_by_hour"
"""End of the name of a control attack that also knows the hour of the day of each query and each visit."""
CONTROLS = (OTHERS, HABITS, RANDOM, OTHERS + BY_HOUR, HABITS + BY_HOUR)


class Truth(NamedTuple):
    """True data of a user, and the success of control attacks on them."""

    cells: IntArray
    times_s: IntArray
    places: FloatArray
    """Positions of the queries in km, (n_queries, 2)."""
    home: FloatArray
    at_night: bool
    """Whether the home was found from queries at night."""
    top: FloatArray
    """The most visited places."""
    controls: Mapping[str, Mapping[str, float]]
    """Success of each control attack by question: of `CONTROLS`, or the first three if times are not times."""


class KnownDay(NamedTuple):
    """The day from which on the home of a user is known, or, if it is not, the last day."""

    radius_km: float
    rule: Rule
    day: int
    known: bool
    last_day: int


class UsersOfWorld:
    """Success on the users of a sweep point, whose places are the cells of a grid."""

    def __init__(self, controls: ControlAttacks, questions: Questions, *, timed: bool, posterior: bool) -> None:
        self._controls, self._questions, self._timed = controls, questions, timed
        locations = controls.locations
        self._positions = positions_km(locations)
        self._random = {radius: cells_within(locations, radius) / locations.n_cells for radius in questions.radii_km}
        self._masses = {key(POSTERIOR_WITHIN, km): km for km in recorded_radii(questions)} if posterior else {}
        if posterior:
            self._masses[key(POSTERIOR)] = 0.0

    def truth(self, cells: IntArray, times_s: IntArray, fold: int) -> Truth:
        """Return the true data of a user."""
        places = self._positions[cells]
        home, at_night = true_home(places, times_s, self._questions.night)
        top = top_places(places, np.ones(len(places)), max(self._questions.counts))
        own = Truth(cells, times_s, places, home, at_night, top, {})
        controls = {
            OTHERS: self._by_others(own, fold),
            HABITS: self._by_habits(own),
            RANDOM: self._at_random(own),
        }
        if self._timed:
            controls[OTHERS + BY_HOUR] = self._by_others_and_hour(own, fold, controls[OTHERS])
            controls[HABITS + BY_HOUR] = self._by_habits_and_hour(own)
        return own._replace(controls=controls)

    def _by_others(self, own: Truth, fold: int) -> dict[str, float]:
        success = {}
        for radius in self._questions.radii_km:
            guess, home = self._controls.place(fold, radius), self._controls.home(fold, radius)
            success[key(LOCATED, radius)] = np.nan if guess is None else self._hits(own.places, guess, radius).mean()
            success[key(HOME, radius)] = np.nan if home is None else float(self._hits(own.home, home, radius))
            guesses = self._controls.places(fold, radius, max(self._questions.counts))
            for count in self._questions.counts:
                share = found_share(own.top[:count], self._positions[guesses[:count]], radius) if guesses else np.nan
                success[key(PLACES, radius, count)] = share
        for name, radius in self._masses.items():
            mass = self._controls.mass(fold, radius)
            success[name] = np.nan if mass is None else float(mass[own.cells].mean())
        return success

    def _by_others_and_hour(self, own: Truth, fold: int, without_hour: Mapping[str, float]) -> dict[str, float]:
        """Return the success of guesses by the hour of the day; homes are guessed from nights anyway."""
        success = {key(HOME, radius): without_hour[key(HOME, radius)] for radius in self._questions.radii_km}
        hours, which = np.unique(self._questions.night.hour_of(own.times_s), return_inverse=True)
        for radius in self._questions.radii_km:
            guesses = [self._controls.place_at(fold, radius, hour) for hour in hours.tolist()]
            known = [guess for guess in guesses if guess is not None]  # nobody is known in any hour, or in all
            located = within(distances_km(own.places, self._positions[known][which]), radius) if known else np.nan
            success[key(LOCATED, radius)] = float(np.mean(located))
        return success

    def _by_habits_and_hour(self, own: Truth) -> dict[str, float]:
        """Return the success of guesses from the user's own visits at the same hour of other days, and at night."""
        success, night = {}, self._questions.night
        visited, which, counts = np.unique(own.cells, return_inverse=True, return_counts=True)
        at = self._positions[visited]
        nights = np.bincount(which[at_home(own.times_s, night)], minlength=len(at)).astype(float)
        hours, days = night.hour_of(own.times_s), night.date_of(own.times_s)
        for radius in self._questions.radii_km:
            otherwise = best_guess(at, counts.astype(float), at, radius)
            located = located_by_habits(at, which, hours, days, radius, otherwise)
            success[key(LOCATED, radius)] = float(located.mean())
            home = at[best_guess(at, nights, at, radius)]
            success[key(HOME, radius)] = float(within(distances_km(own.home, home), radius))
        return success

    def _by_habits(self, own: Truth) -> dict[str, float]:
        """Return the success of guesses from the user's own visits: the most that a guess without a report can know."""
        success = {}
        visited, counts = np.unique(own.cells, return_counts=True)
        at = self._positions[visited]
        for radius in self._questions.radii_km:
            guess = at[best_guess(at, counts.astype(float), at, radius)]
            success[key(LOCATED, radius)] = float(within(distances_km(own.places, guess), radius).mean())
            success[key(HOME, radius)] = float(within(distances_km(own.home, own.top[0]), radius))
            success |= {key(PLACES, radius, count): 1.0 for count in self._questions.counts}
        return success | {name: prior_mass(at, counts.astype(float), km) for name, km in self._masses.items()}

    def _at_random(self, own: Truth) -> dict[str, float]:
        success = {}
        top, home = (self._cells_at(own, places) for places in (own.top, own.home[None]))
        for radius in self._questions.radii_km:
            near = self._random[radius]
            success[key(LOCATED, radius)] = float(near[own.cells].mean())
            success[key(HOME, radius)] = float(near[home[0]])
            for count in self._questions.counts:
                success[key(PLACES, radius, count)] = random_found_share(near[top[:count]], count)
        for name, radius in self._masses.items():
            success[name] = float(self._random[radius][own.cells].mean()) if radius else 1 / len(self._positions)
        return success

    def _cells_at(self, own: Truth, places: FloatArray) -> IntArray:
        """Return the visited cells at some positions of a user."""
        return own.cells[[int(np.flatnonzero((own.places == place).all(axis=1))[0]) for place in places]]

    def _hits(self, places: FloatArray, guess: int, radius_km: float) -> NDArray[np.bool_]:
        return within(distances_km(places, self._positions[guess]), radius_km)

    def attacked(
        self, own: Truth, estimates: IntArray, reported: NDArray[np.bool_]
    ) -> tuple[dict[str, float], list[KnownDay]]:
        """Return the success of an attack by question, and the day on which the home is known by radius and rule.

        `reported` is true for queries with a report. The values of `REPORTS` are numbers of reports.
        """
        guessed = self._positions[estimates]
        apart = distances_km(own.places, guessed)
        cells, first, counts = np.unique(estimates, return_index=True, return_counts=True)
        # Ties go to the first estimated place, as for true places to the first visited one.
        order = np.argsort(first)
        places, weights = self._positions[cells[order]], counts[order].astype(float)
        success: dict[str, float] = {key(REPORTS): float(reported.sum())}
        known: list[KnownDay] = []
        for radius in self._questions.radii_km:
            located = within(apart, radius)
            success[key(LOCATED, radius)] = float(located.mean())
            success[key(REPORTS, radius)] = float(located[reported].sum())
            ranked = top_places(places, weights, max(self._questions.counts), merge_km=radius)
            for count in self._questions.counts:
                success[key(PLACES, radius, count)] = found_share(own.top[:count], ranked[:count], radius)
        if self._timed:
            known = list(self._days(own, guessed))
        return success, known

    def _days(self, own: Truth, guessed: FloatArray) -> Iterator[KnownDay]:
        """Yield the day on which the home is known within each radius by each rule."""
        days = self._questions.night.day_of(own.times_s)
        last = int(days[-1] - days[0] + 1)
        known = days_known(guessed, own.times_s, own.home, self._questions.radii_km, self._questions.night)
        for (radius, rule), (day, is_known) in known.items():
            yield KnownDay(radius, rule, day, is_known, last)
