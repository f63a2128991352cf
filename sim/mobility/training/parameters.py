"""Parameters of training sets, and the population that they draw on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Protocol

from sim.components.registry import OneOf, Parameters
from sim.mobility.statistics import Statistics

StatisticsOf = Callable[[str], Statistics]
"""Return the statistics that are known of a user."""


class TrainingSource(Protocol):
    """One replication of a population, as far as training sets draw on it."""

    @property
    def users(self) -> Sequence[str]:
        """The ids of the test users."""
        ...

    def untrained(self) -> Statistics:
        """Return the statistics without any data."""
        ...

    def others(self, training: str) -> Statistics:
        """Return the pooled statistics of the other people of a training set."""
        ...

    def past(self, user: str, *, queries: int | None, days: float | None) -> Statistics:
        """Return the statistics of a user's past, or of its first queries or days."""
        ...

    def truth(self, user: str) -> Statistics:
        """Return the statistics of a user's whole test."""
        ...


class TrainingParameters(Parameters):
    """Parameters of a training set."""

    by_user: ClassVar[bool] = True
    """Whether each user has separate statistics."""

    @abstractmethod
    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:
        """Return the statistics of each user from the training set of this name."""


AnyTraining = Annotated[TrainingParameters, OneOf("training")]
