"""Training on the pasts of all other users."""

from __future__ import annotations

from typing import Literal

from sim.components.registry import component
from sim.components.spec import Count, Days
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class OtherUsersParameters(TrainingParameters):
    """The pooled pasts of all other users, without the user's own. For thousands of users, prefer `others`."""

    kind: Literal["other_users"] = "other_users"
    queries: Count | None = None
    """Use only this number of first queries of each past (default: all)."""
    days: Days | None = None
    """Use only this number of first days of each past (default: all)."""

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:  # noqa: ARG002
        """Return the pooled statistics of the pasts of all users but this one."""
        return lambda user: source.pasts_of_others(user, queries=self.queries, days=self.days)
