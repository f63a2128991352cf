"""No training data."""

from __future__ import annotations

from typing import ClassVar, Literal

from sim.components.registry import component
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class NothingParameters(TrainingParameters):
    """No training data: all cells are equally likely."""

    by_user: ClassVar[bool] = False

    kind: Literal["nothing"] = "nothing"

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:  # noqa: ARG002
        """Return the statistics without data, the same for each user."""
        untrained = source.untrained()
        return lambda _user: untrained
