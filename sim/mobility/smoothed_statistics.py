"""Training statistics of a user, smoothed by those of other people."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sim.inference.transitions import SmoothedTransitions
from sim.interfaces import IntArray
from sim.mobility.statistics import Statistics


class SmoothedStatistics(Statistics):
    """The counts of a user plus those of other people as pseudo-counts.

        pi = (own visits + kappa pi_others) / (own number of visits + kappa)
        M = (own counts + kappa M') / (own row sum + kappa),   M' = (1 - u) M_others + u pi_others

    `pseudo_counts` is kappa (in [0, inf)), `independent_share` is u (in [0, 1]). Without own data the profile is
    pi_others and the transitions are M', also at kappa = 0. They are never `pooled`: they are a model of the user.
    """

    def __init__(self, own: Statistics, others: Statistics, *, pseudo_counts: float, independent_share: float) -> None:
        self.own = own
        """The statistics of the user's own data, which may be empty."""
        self.others = others
        """The statistics of the other people, which all users share."""
        self._pseudo_counts, self._independent_share = pseudo_counts, independent_share
        share = own.n_visits / (own.n_visits + pseudo_counts) if own.n_visits else 0.0
        nothing = np.zeros(0, dtype=np.int64)
        super().__init__(
            profile=share * own.profile + (1 - share) * others.profile,
            n_visits=own.n_visits + others.n_visits,
            pairs=nothing,
            counts=nothing,
        )

    @property
    def n_transitions(self) -> int:
        """Return the number of pairs of consecutive queries counted, of the user and of the others."""
        return self.own.n_transitions + self.others.n_transitions

    @property
    def counted(self) -> IntArray:
        """Return the number of transitions counted from each cell, of the user and of the others."""
        return self.own.counted + self.others.counted

    @property
    def fallback_rows(self) -> int:
        """Return the number of rows of `transition` without data of the user or of the others."""
        return int(np.count_nonzero(self.counted == 0))

    @cached_property
    def transitions(self) -> SmoothedTransitions:
        """Return M as an operator; its memory is that of the own counts, since M_others is shared."""
        return SmoothedTransitions(
            self.own.counted_transitions,
            self.own.counted,
            self.others.counted_transitions,
            pseudo_counts=self._pseudo_counts,
            independent_share=self._independent_share,
        )
