"""The belief of somebody who knows that people sleep at home, and puts the reports of all nights together."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from sim.belief.parameters import BeliefParameters
from sim.belief.regularisation import lifted
from sim.components.registry import component
from sim.components.spec import Days, Share
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import FloatArray
from sim.mobility.statistics import Statistics
from sim.world import World

HOUR_S = 3_600
DAY_S = 86_400


@component("belief")
class HomeProfileParameters(BeliefParameters):
    """Sporadic, but for one unknown home at night, which is inferred from the reports of all nights together."""

    kind: Literal["home"] = "home"
    from_h: Annotated[float, Field(ge=0, le=24)] = 22.0
    """The hour of the day from which on people are at home."""
    until_h: Annotated[float, Field(ge=0, le=24)] = 6.0
    """The hour until which they are, the next morning if it is an earlier one."""
    away: Share = 0.1
    """How often they are elsewhere all the same."""
    utc_offset_h: Annotated[float, Field(ge=-14, le=14)] = 0.0
    """Hours to add to the users' clock, where that is not local time."""
    half_life_days: Days | None = None
    """Half-life of a report's evidence about the home, in days; by default no decay."""

    @model_validator(mode="after")
    def _some_hours(self) -> Self:
        if self.from_h % 24 == self.until_h % 24:
            raise ValueError(
                f"`from_h` and `until_h` must be different hours of the day, found {self.from_h} and {self.until_h}"
            )
        return self

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> HomeProfile:  # noqa: ARG002
        """Return the belief with the profile of the statistics."""
        return HomeProfile(self, profile=statistics.profile)


class HomeProfile:
    """Infer the user's home from the reports of all nights, however blurred each of them is.

    At a query between `from_h` and `until_h` (hours of the day, in [0, 24]; over midnight where the first is later) she
    is in one cell, her home, with probability 1 - `away` (in [0, 1]), and else anywhere by the profile, each time on
    its own. At other hours she is anywhere by the profile. The home itself is unknown. Before the first report it is
    where the profile says, of which a thousandth is spread over all cells, and each night report multiplies it by
    (1 - away) f(z | home) + away sum_x profile(x) f(z | x).

    The clock is time_s plus `utc_offset_h`. With `half_life_days` (above 0), what the reports say of the home counts
    half after so many days, so that a new home can be found.

    >>> belief = HomeProfile(HomeProfileParameters(away=0.2), profile=[0.5, 0.5])
    >>> belief.observe(23 * 3600, np.array([0.9, 0.1])).round(3), belief.home.round(3)
    (array([0.9, 0.1]), array([0.82, 0.18]))
    """

    fixed: bool = False

    def __init__(self, parameters: HomeProfileParameters, *, profile: ArrayLike) -> None:
        self._profile = distribution(profile, "profile")
        self._log_initial = np.log(lifted(self._profile))
        self._from_s = round(parameters.from_h * HOUR_S) - round(parameters.utc_offset_h * HOUR_S)
        self._length_s = round((parameters.until_h - parameters.from_h) % 24 * HOUR_S)
        self._away = parameters.away
        self._per_second = 1 / (DAY_S * (parameters.half_life_days or np.inf))
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
