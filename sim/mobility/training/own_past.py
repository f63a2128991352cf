"""Training on the user's own past."""

from __future__ import annotations

from typing import Literal

from sim.components.registry import component
from sim.components.spec import Count, Days
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class OwnPastParameters(TrainingParameters):
    """The user's own queries before the test, or the first of them."""

    kind: Literal["own_past"] = "own_past"
    queries: Count | None = None
    """Use only this number of first queries of the past (default: all)."""
    days: Days | None = None
    """Use only this number of first days of the past (default: all)."""

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:  # noqa: ARG002
        """Return the statistics of each user's past."""
        return lambda user: source.past(user, queries=self.queries, days=self.days)
