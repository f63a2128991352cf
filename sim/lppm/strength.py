"""The strength of a design as a search sees it, and budgets of the loss that a run realises."""

from __future__ import annotations

from dataclasses import dataclass

from sim.components.spec import Positive, Share, Spec


class RealisedBudget(Spec):
    """Budget of the loss that the users of the run realise, instead of the loss under the mechanism's own model.

    Before the run is planned, simulations without attacks find one strength that all users of the mechanism share.
    """

    realised: Positive
    """Quality loss in km of the run: the mean over the users of each user's mean, or a quantile of it (`at`)."""
    at: Share | None = None
    """Share of the users whose mean loss must not exceed `realised`, such as 0.95; default: the mean over the users
    meets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrengthRange:
    """The parameter of a design that is its strength, and the values among which a search looks for it."""

    name: str
    least: float
    most: float
    loss_rises: bool
    """Whether the loss grows with the parameter."""
    whole: bool = False
    """Whether the values are whole numbers."""
    per_loss: bool = False
    """Whether the parameter is a rate per km, whose useful values lie around the inverse of the loss."""

    @property
    def noisy_end(self) -> float:
        """The value with the largest loss."""
        return self.most if self.loss_rises else self.least

    @property
    def quiet_end(self) -> float:
        """The value with the smallest loss."""
        return self.least if self.loss_rises else self.most


_MOST_EPSILON_PER_KM = 1e4


def epsilon_range(least: float = 0.0, most: float = _MOST_EPSILON_PER_KM) -> StrengthRange:
    """Return the range of an `epsilon_per_km`."""
    return StrengthRange(name="epsilon_per_km", least=least, most=most, loss_rises=False, per_loss=True)
