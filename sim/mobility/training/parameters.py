"""Base class of the parameters of training sets, and the population that they are taken from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Protocol

from sim.components.registry import OneOf, Parameters
from sim.mobility.statistics import Statistics

StatisticsOf = Callable[[str], Statistics]
"""Function that returns the training statistics for a user."""


class TrainingSource(Protocol):
    """Source of training data: one replication of a population."""

    @property
    def users(self) -> Sequence[str]:
        """The ids of the test users."""
        ...

    def untrained(self) -> Statistics:
        """Return the statistics without data."""
        ...

    def others(self, training: str) -> Statistics:
        """Return the pooled statistics of the other people in a training set, given its name."""
        ...

    def past(self, user: str, *, queries: int | None, days: float | None) -> Statistics:
        """Return the statistics of a user's past, or of its first queries or days if given."""
        ...

    def pasts_of_others(self, user: str, *, queries: int | None, days: float | None) -> Statistics:
        """Return the pooled statistics of the pasts of all other users, or of their first queries or days."""
        ...

    def knowledge(self, training: str | None) -> StatisticsOf:
        """Return the statistics of each user from another training set, given its name."""
        ...

    def truth(self, user: str) -> Statistics:
        """Return the statistics of a user's whole test."""
        ...


class TrainingParameters(Parameters):
    """Parameters of a training set."""

    by_user: ClassVar[bool] = True
    """Whether the statistics differ between users."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the training sets that this one combines."""
        return ()

    @abstractmethod
    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:
        """Return a function that gives the statistics of each user; `name` is the name of the training set."""


AnyTraining = Annotated[TrainingParameters, OneOf("training")]
