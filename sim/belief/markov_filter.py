"""The hardwired Markov belief (MK): the next cell depends on the last one by given transitions."""

from __future__ import annotations

from typing import ClassVar, Literal

from numpy.typing import ArrayLike

from sim.belief.parameters import BeliefParameters
from sim.components.registry import component
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.inference.transitions import Transitions, transitions_of
from sim.interfaces import FloatArray
from sim.mobility.statistics import Statistics
from sim.world import World


@component("belief")
class MarkovFilterParameters(BeliefParameters):
    """Markov, hardwired (MK): filters the reports with a given transition matrix."""

    short_name: ClassVar = "MK"
    hardwired: ClassVar = True
    chained: ClassVar = True

    kind: Literal["markov_filter"] = "markov_filter"

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> MarkovFilter:  # noqa: ARG002
        """Return the filter with the start profile and the transitions of the statistics."""
        return MarkovFilter(
            start_profile=statistics.start_profile, transition=statistics.transitions, restart_s=restart_s
        )


class MarkovFilter:
    """Track the user by a hidden Markov filter: the hardwired Markov model.

    `start_profile` has shape (n_cells,). `transition` is M(to | from) of the paper, as `Transitions` or as a matrix
    [from, to]. With `restart_s` (in [1, inf) s; 86400 for days), the filter restarts at `start_profile` whenever
    time_s // restart_s differs from that of the last report.
    """

    fixed: bool = False

    def __init__(
        self, *, start_profile: ArrayLike, transition: ArrayLike | Transitions, restart_s: int | None = None
    ) -> None:
        self._start = distribution(start_profile, "start_profile")
        self._transition = transitions_of(transition)
        if self._transition.n_cells != len(self._start):
            raise ValueError(
                f"transition must have the {len(self._start)} cells of start_profile, got {self._transition.n_cells}"
            )
        if restart_s is not None and restart_s < 1:
            raise ValueError(f"restart_s must be in [1, inf), got {restart_s}")
        self._restart_s = restart_s
        self._posterior: FloatArray | None = None
        self._period = 0
        self._prediction: FloatArray | None = None
        self.fallbacks = 0
        """Number of reports without mass under the prediction. The filter restarts at each."""

    @property
    def fallback_priors(self) -> tuple[FloatArray, ...]:
        """The priors to use for a report without mass under the prior, in this order."""
        return (self._start,)

    def prior(self, time_s: int) -> FloatArray:
        """Return p(x^r | z^{r-1}): Oya et al. 2019, eq. (Markov_update)."""
        if self._posterior is None or (self._restart_s is not None and self._period != time_s // self._restart_s):
            return self._start
        if self._prediction is None:
            self._prediction = read_only(self._transition.forward(self._posterior))
        return self._prediction

    def link(self, time_s: int) -> Transitions | None:
        """Return the transitions from the last report to one at this time, None if the filter restarts."""
        begins = self._posterior is None or self._period != self._period_of(time_s)
        return None if begins else self._transition

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return p(x^r | z^r), Oya et al. 2019, eq. (Markov_posterior), and continue from it."""
        posterior, mass = condition(self.prior(time_s), likelihood)
        if not mass > 0:
            posterior = self._restart(likelihood)
        self._posterior = posterior.copy()
        if self._restart_s is not None:
            self._period = time_s // self._restart_s
        self._prediction = None
        return posterior

    def resume_from(self, other: MarkovFilter) -> None:
        """Continue from the last posterior of a filter with other transitions."""
        self._posterior, self._period, self._prediction = other._posterior, other._period, None

    def resume_at(self, time_s: int, posterior: FloatArray) -> None:
        """Continue from this posterior of the user's cell at the last report, which was at this time."""
        self._posterior, self._period, self._prediction = posterior.copy(), self._period_of(time_s), None

    def _restart(self, likelihood: FloatArray) -> FloatArray:
        posterior, mass = condition(self._start, likelihood)
        if not mass > 0:
            posterior = normalise(likelihood)
        self.fallbacks += 1
        return posterior

    def _period_of(self, time_s: int) -> int:
        return 0 if self._restart_s is None else time_s // self._restart_s
