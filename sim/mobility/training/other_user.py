"""Training on the past of another user."""

from __future__ import annotations

from typing import Literal

from sim.components.registry import component
from sim.components.spec import Count, Days
from sim.errors import InputError
from sim.mobility.training.parameters import StatisticsOf, TrainingParameters, TrainingSource


@component("training")
class OtherUserParameters(TrainingParameters):
    """The past of another user, the next in order, as in the paper's appendix."""

    kind: Literal["other_user"] = "other_user"
    queries: Count | None = None
    """Use only this number of first queries of the past (default: all)."""
    days: Days | None = None
    """Use only this number of first days of the past (default: all)."""

    def statistics(self, name: str, source: TrainingSource) -> StatisticsOf:
        """Return the statistics of the next user's past, cyclically."""
        users = source.users
        if len(users) < 2:
            raise InputError(
                f"training.{name}: training on another user requires at least two users, found one",
                code="too-few-users",
            )

        def following(user: str) -> str:
            return users[(users.index(user) + 1) % len(users)]

        return lambda user: source.past(following(user), queries=self.queries, days=self.days)
