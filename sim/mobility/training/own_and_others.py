"""Training on the user's own data, smoothed by those of other people: the population chain."""

from __future__ import annotations

from functools import cache
from typing import Literal

from sim.components.registry import component
from sim.components.spec import NonNegative, Share
from sim.mobility.smoothed_statistics import SmoothedStatistics
from sim.mobility.statistics import Statistics
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class OwnAndOthersParameters(TrainingParameters):
    """Own counts plus those of other people as pseudo-counts (population chain)."""

    kind: Literal["own_and_others"] = "own_and_others"
    own: str | None = None
    """Name of the training set with the user's own data, such as one of kind own_past (default: no own data)."""
    others: str
    """Name of the training set of other people, of kind others, other_users or other_user."""
    pseudo_counts: NonNegative = 30.0
    """Weight of the other people in each row of transitions and in the profile, in queries, in [0, inf). With 0 they
    count only where the user has no data."""
    independent_share: Share = 0.01
    """Share in [0, 1] of the other people's profile in each row of their transitions, so that each of their cells can
    follow any cell."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the training sets that this one combines."""
        return (self.others,) if self.own is None else (self.own, self.others)

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:  # noqa: ARG002
        """Return the smoothed statistics of each user."""
        untrained = source.untrained()
        own = (lambda _user: untrained) if self.own is None else source.knowledge(self.own)
        others = source.knowledge(self.others)

        @cache
        def smoothed(user: str) -> Statistics:
            return SmoothedStatistics(
                own(user),
                others(user),
                pseudo_counts=self.pseudo_counts,
                independent_share=self.independent_share,
            )

        return smoothed
