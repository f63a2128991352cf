"""Training on the user's own past."""

from __future__ import annotations

from typing import Literal

from sim.components.registry import component
from sim.components.spec import Count, Days
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class OwnPastParameters(TrainingParameters):
    """The user's own past: the first queries or days before the test begins, or all of it."""

    kind: Literal["own_past"] = "own_past"
    queries: Count | None = None
    """Number of first queries that count (default: all)."""
    days: Days | None = None
    """Number of first days that count (default: all)."""

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:  # noqa: ARG002
        """Return the statistics of each user's past."""
        return lambda user: source.past(user, queries=self.queries, days=self.days)
