"""The belief of an adversary who knows the statistics in force at each query, also after a behaviour shift."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.inference.transitions import Transitions
from sim.interfaces import FloatArray

Hardwired = FixedProfile | MarkovFilter


class InForce:
    """A sequence of beliefs, each paired with the index of the first query at which it is in force.

    Indices start at 1, as must the first belief. A Markov filter continues from the posterior of the filter before it:
    the first query r at which it is in force has the prior p(x^r | z^{r-1}) = sum_x p(x | z^{r-1}) M(x^r | x) with
    the transitions M of the new filter.
    """

    fixed: bool = False

    def __init__(self, beliefs: Sequence[tuple[int, Hardwired]]) -> None:
        firsts = [first for first, _ in beliefs]
        if firsts[:1] != [1] or any(later <= first for first, later in pairwise(firsts)):
            raise ValueError(f"beliefs must start at query 1 and have increasing first queries, got {firsts}")
        self._beliefs = [belief for _, belief in beliefs]
        self._firsts = firsts
        self._position = 0
        self._seen = 0

    @property
    def _now(self) -> Hardwired:
        return self._beliefs[self._position]

    @property
    def fallbacks(self) -> int:
        """The number of reports without mass under the belief in force."""
        return sum(belief.fallbacks for belief in self._beliefs)

    @property
    def fallback_priors(self) -> tuple[FloatArray, ...]:
        """The priors to use for a report without mass under the prior, in this order."""
        return self._now.fallback_priors if isinstance(self._now, MarkovFilter) else ()

    def prior(self, time_s: int) -> FloatArray:
        """Return the prior of the belief in force at the next query."""
        return self._now.prior(time_s)

    def link(self, time_s: int) -> Transitions | None:
        """Return the transitions from the last report to one at this time, None if they are not linked."""
        return self._now.link(time_s) if isinstance(self._now, MarkovFilter) else None

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return the posterior; switch to the next belief if its first query is the next one."""
        before = self._now
        posterior = before.observe(time_s, likelihood)
        self._seen += 1
        if self._firsts[self._position + 1 : self._position + 2] == [self._seen + 1]:
            self._position += 1
            if isinstance(before, MarkovFilter) and isinstance(self._now, MarkovFilter):
                self._now.resume_from(before)
        return posterior
