"""The belief of somebody who knows that people sleep at home, and puts the reports of all nights together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sim.belief.regularised import lifted
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import FloatArray

HOUR_S = 3_600
DAY_S = 86_400


class HomeProfile:
    """Infer the user's home from the reports of all nights, however blurred each of them is.

    At a query between `from_h` and `until_h` (hours of the day, in [0, 24]; over midnight where the first is later) she
    is in one cell, her home, with probability 1 - `away` (in [0, 1]), and else anywhere by the profile, each time on
    its own. At other hours she is anywhere by the profile. The home itself is unknown. Before the first report it is
    where the profile says, of which a thousandth is spread over all cells, and each night report multiplies it by
    (1 - away) f(z | home) + away sum_x profile(x) f(z | x).

    The clock is time_s plus `utc_offset_h`. With `half_life_days` (above 0), what the reports say of the home counts
    half after so many days, so that a new home can be found.

    >>> belief = HomeProfile(profile=[0.5, 0.5], away=0.2)
    >>> belief.observe(23 * 3600, np.array([0.9, 0.1])).round(3), belief.home.round(3)
    (array([0.9, 0.1]), array([0.82, 0.18]))
    """

    fixed: bool = False

    def __init__(
        self,
        *,
        profile: ArrayLike,
        from_h: float = 22.0,
        until_h: float = 6.0,
        away: float = 0.1,
        utc_offset_h: float = 0.0,
        half_life_days: float | None = None,
    ) -> None:
        for name, hour in (("from_h", from_h), ("until_h", until_h)):
            if not 0 <= hour <= 24:
                raise ValueError(f"{name} must be in [0, 24], got {hour}")
        if from_h % 24 == until_h % 24:
            raise ValueError(f"from_h and until_h must be different hours of the day, got {from_h} and {until_h}")
        if not 0 <= away <= 1:
            raise ValueError(f"away must be in [0, 1], got {away}")
        if half_life_days is not None and not half_life_days > 0:
            raise ValueError(f"half_life_days must be above 0, got {half_life_days}")
        self._profile = distribution(profile, "profile")
        self._log_initial = np.log(lifted(self._profile))
        self._from_s = round(from_h * HOUR_S) - round(utc_offset_h * HOUR_S)
        self._length_s = round((until_h - from_h) % 24 * HOUR_S)
        self._away = away
        self._per_second = 1 / (DAY_S * (half_life_days or np.inf))
        self._evidence = np.zeros(self._profile.size)
        """The logarithm of what the reports say of each home, as it was at the last of them."""
        self._last_s = 0
        self._night: tuple[int, FloatArray] | None = None
        self.fallbacks = 0
        """How many reports were held impossible: there the likelihood alone was believed."""

    @property
    def home(self) -> FloatArray:
        """Return what is believed of the home after the last report, shape (n_cells,)."""
        return self._home(self._last_s)

    def at_home(self, time_s: int) -> bool:
        """Whether this is a time at which people are at home."""
        return (time_s - self._from_s) % DAY_S < self._length_s

    def prior(self, time_s: int) -> FloatArray:
        """Return the profile or, at night, the home with the profile of those who are away; a read-only array."""
        if not self.at_home(time_s):
            return self._profile
        if self._night is None or (self._per_second and self._night[0] != time_s):
            mixed = (1 - self._away) * self._home(time_s) + self._away * self._profile
            self._night = (time_s, read_only(mixed))
        return self._night[1]

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return the posterior and, if this is a report of a night, learn from it where the home is."""
        posterior, mass = condition(self.prior(time_s), likelihood)
        if not mass > 0:
            posterior = normalise(likelihood)
            self.fallbacks += 1
        if self.at_home(time_s):
            told = (1 - self._away) * likelihood + self._away * float(self._profile @ likelihood)
            self._evidence = self._evidence * self._fading(time_s) + np.log(np.maximum(told, MASS_FLOOR))
            self._evidence -= self._evidence.max()
            self._last_s = time_s
            self._night = None
        return posterior

    def _home(self, time_s: int) -> FloatArray:
        logs = self._log_initial + self._evidence * self._fading(time_s)
        return normalise(np.exp(logs - logs.max()))

    def _fading(self, time_s: int) -> float:
        return float(2.0 ** -(self._per_second * max(0, time_s - self._last_s)))
