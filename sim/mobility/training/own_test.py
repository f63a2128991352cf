"""Training on the user's own test."""

from __future__ import annotations

from typing import Literal

from sim.components.registry import component
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class OwnTestParameters(TrainingParameters):
    """The user's own statistics in the test, which no real mechanism has: for bounds of what is attainable."""

    kind: Literal["own_test"] = "own_test"

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:  # noqa: ARG002
        """Return the statistics of each user's test."""
        return source.truth
