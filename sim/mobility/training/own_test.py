"""Training on the user's own test data."""

from __future__ import annotations

from typing import Literal

from sim.components.registry import component
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class OwnTestParameters(TrainingParameters):
    """The statistics of the user's own test, which no real mechanism has; gives bounds on attainable performance."""

    kind: Literal["own_test"] = "own_test"

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:  # noqa: ARG002
        """Return the statistics of each user's test."""
        return source.truth
