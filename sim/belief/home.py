"""The home belief: users are at home at night, and the home is inferred from the reports of all nights."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from sim.belief.parameters import BeliefParameters
from sim.belief.regularisation import lifted
from sim.components.registry import component
from sim.components.spec import Days, Share
from sim.errors import InvalidValue
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import FloatArray
from sim.mobility.statistics import Statistics
from sim.world import World

HOUR_S = 3_600
DAY_S = 86_400


@component("belief")
class HomeProfileParameters(BeliefParameters):
    """Sporadic by day; at night one unknown home, inferred jointly from the reports of all nights."""

    kind: Literal["home"] = "home"
    from_h: Annotated[float, Field(ge=0, le=24)] = 22.0
    """Start of the night, in hours of the local day: users are at home from then on."""
    until_h: Annotated[float, Field(ge=0, le=24)] = 6.0
    """End of the night, in hours of the local day; on the next day if it is before `from_h`."""
    away: Share = 0.1
    """Probability that a user is elsewhere at a query in the night."""
    utc_offset_h: Annotated[float, Field(ge=-14, le=14)] = 0.0
    """Local time minus the time of the queries, in hours; 0 if queries are in local time."""
    half_life_days: Days | None = None
    """Half-life of a report's evidence about the home, in days. Default: no decay."""

    @model_validator(mode="after")
    def _non_empty_night(self) -> Self:
        if self.from_h % 24 == self.until_h % 24:
            raise InvalidValue(
                f"`from_h` and `until_h` must be different hours of the day, found {self.from_h} and {self.until_h}",
                code="empty-interval",
            )
        return self

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> HomeProfile:  # noqa: ARG002
        """Return the belief with the profile of the statistics."""
        return HomeProfile(self, profile=statistics.profile)


class HomeProfile:
    """Infer the user's home from the reports of all nights.

    At a query between `from_h` and `until_h` (hours of the day, in [0, 24]; across midnight if `from_h` is later) the
    user is in one cell, the home, with probability 1 - `away` (in [0, 1]); otherwise their cell is an independent draw
    from the profile. At other hours it is always such a draw. The home is unknown. Its prior is the profile, with a
    share of 0.001 spread over all cells, and each report of a night multiplies its distribution by
    (1 - away) f(z | home) + away sum_x profile(x) f(z | x).

    The local time is time_s plus `utc_offset_h`. With `half_life_days` (in (0, inf)), the log-likelihood of the home
    decays with this half-life, so that the belief can adapt to a new home.

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
        """Log-likelihood of each cell as the home, up to a constant, at the time of the last report of a night."""
        self._last_s = 0
        self._night: tuple[int, FloatArray] | None = None
        self.fallbacks = 0
        """Number of reports without mass under the prior. Their posterior is the normalised likelihood."""

    @property
    def home(self) -> FloatArray:
        """The posterior of the home after the last report, shape (n_cells,)."""
        return self._home(self._last_s)

    def at_home(self, time_s: int) -> bool:
        """Return whether a time is in the night."""
        return (time_s - self._from_s) % DAY_S < self._length_s

    def prior(self, time_s: int) -> FloatArray:
        """Return the profile or, at night, the mixture of home and profile; a read-only array."""
        if not self.at_home(time_s):
            return self._profile
        if self._night is None or (self._per_second and self._night[0] != time_s):
            mixed = (1 - self._away) * self._home(time_s) + self._away * self._profile
            self._night = (time_s, read_only(mixed))
        return self._night[1]

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return the posterior; a report of a night also updates the posterior of the home."""
        posterior, mass = condition(self.prior(time_s), likelihood)
        if not mass > 0:
            posterior = normalise(likelihood)
            self.fallbacks += 1
        if self.at_home(time_s):
            of_home = (1 - self._away) * likelihood + self._away * float(self._profile @ likelihood)
            self._evidence = self._evidence * self._fading(time_s) + np.log(np.maximum(of_home, MASS_FLOOR))
            self._evidence -= self._evidence.max()
            self._last_s = time_s
            self._night = None
        return posterior

    def _home(self, time_s: int) -> FloatArray:
        logs = self._log_initial + self._evidence * self._fading(time_s)
        return normalise(np.exp(logs - logs.max()))

    def _fading(self, time_s: int) -> float:
        return float(2.0 ** -(self._per_second * max(0, time_s - self._last_s)))
