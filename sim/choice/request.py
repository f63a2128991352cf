"""The request for a choice: a limit on the loss, an error of the adversary, or a time for which homes stay hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim.execution.calibration.goals import ErrorGoal, Goal, LossGoal
from sim.execution.calibration.home_goal import HomeGoal

Kind = Literal["max-loss", "min-error", "hide-home"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A goal and its target."""

    kind: Kind
    target: float
    """Loss or error in km, or days."""
    at: float | None = None
    """Share of the users whose mean loss may not exceed the target; None: the mean over the users."""
    within_km: float = 0.5
    """Radius within which a home counts as known."""
    share: float = 0.5
    """Share of the users whose home is to be hidden."""

    @property
    def goal(self) -> Goal:
        """The metric to calibrate."""
        match self.kind:
            case "max-loss":
                return LossGoal(self.at)
            case "min-error":
                return ErrorGoal()
        return HomeGoal(days=self.target, within_km=self.within_km)

    @property
    def target_value(self) -> float:
        """The value of the metric to reach."""
        return self.share if self.kind == "hide-home" else self.target

    @property
    def distance_km(self) -> float:
        """The distance that cells must resolve: the loss, the error or the radius around a home."""
        return self.within_km if self.kind == "hide-home" else self.target

    @property
    def limits_loss(self) -> bool:
        """Whether the loss is given and the protection is ranked; otherwise the protection is given."""
        return self.kind == "max-loss"

    @property
    def words(self) -> str:
        """The goal in words."""
        match self.kind:
            case "max-loss" if self.at is None:
                return f"lose {self.target:g} km on average"
            case "max-loss":
                return f"lose at most {self.target:g} km on average, for {100 * (self.at or 0):g} % of the users"
            case "min-error":
                return f"keep the strongest attack's mean error at {self.target:g} km or more"
        return (
            f"hide the homes of {100 * self.share:g} % of the users for {self.target:g} days "
            f"(not known within {1000 * self.within_km:g} m)"
        )
