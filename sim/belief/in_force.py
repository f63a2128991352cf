"""The belief of somebody who knows which statistics are in force at each query, however the user's life changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.interfaces import FloatArray

Hardwired = FixedProfile | MarkovFilter


class InForce:
    """Hold one belief after another: each with the first query, counted from 1, from which on it is in force.

    The first is in force from query 1 on. A Markov filter goes on from where the one before it saw the user last,
    with its own transitions: at a border r it predicts p(x^r | z^{r-1}) = sum_x p(x | z^{r-1}) M(x^r | x) with the M of
    the query r.
    """

    fixed: bool = False

    def __init__(self, beliefs: Sequence[tuple[int, Hardwired]]) -> None:
        firsts = [first for first, _ in beliefs]
        if firsts[:1] != [1] or any(later <= first for first, later in pairwise(firsts)):
            raise ValueError(f"beliefs must begin with query 1 and then with later ones, in order, got {firsts}")
        self._beliefs = [belief for _, belief in beliefs]
        self._firsts = firsts
        self._position = 0
        self._seen = 0

    @property
    def _now(self) -> Hardwired:
        return self._beliefs[self._position]

    @property
    def fallbacks(self) -> int:
        """How many reports the belief in force held impossible."""
        return sum(belief.fallbacks for belief in self._beliefs)

    @property
    def fallback_priors(self) -> tuple[FloatArray, ...]:
        """Return what takes the prior's place for a report that has no mass under it."""
        return self._now.fallback_priors if isinstance(self._now, MarkovFilter) else ()

    def prior(self, time_s: int) -> FloatArray:
        """Return the prior of the belief that is in force at the next query."""
        return self._now.prior(time_s)

    def link(self, time_s: int) -> FloatArray | None:
        """Return the transitions in force that lead from the last report to one at this time, if there are any."""
        return self._now.link(time_s) if isinstance(self._now, MarkovFilter) else None

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return the posterior, and let the next belief come into force if its first query is next."""
        before = self._now
        posterior = before.observe(time_s, likelihood)
        self._seen += 1
        if self._firsts[self._position + 1 : self._position + 2] == [self._seen + 1]:
            self._position += 1
            if isinstance(before, MarkovFilter) and isinstance(self._now, MarkovFilter):
                self._now.go_on_from(before)
        return posterior
