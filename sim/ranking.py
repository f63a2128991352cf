"""The answer in a sentence: which mechanism protects best against an attack at equal quality loss, and how surely."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from sim.analysis import CONFIDENCE, curve_of_user, user_points
from sim.interfaces import FloatArray

Curve = dict[str, tuple[FloatArray, FloatArray]]
"""For each user the losses of one mechanism, sorted, and the adversary's errors at them."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Mechanisms in the order of the adversary's error at one quality loss, best protection first."""

    attack: str
    quality_loss_km: float
    errors_km: dict[str, float]
    sure: dict[str, bool]
    """Of each mechanism but the first, whether the first is surely ahead: the 95 % interval of the lead, paired by
    user, lies above zero."""

    def __str__(self) -> str:
        first, *others = self.errors_km
        said = [
            f"{name} {self.errors_km[name]:.2f} km ({'surely less' if self.sure[name] else 'may be chance'})"
            for name in others
        ]
        start = f"Against {self.attack}, at {self.quality_loss_km:.1f} km of quality loss, {first} protects best"
        return f"{start}: P_AE {self.errors_km[first]:.2f} km; {', '.join(said)}."


def rankings(per_user: pd.DataFrame) -> Iterator[Ranking]:
    """Yield a ranking for each attack, at a loss in the middle of what all mechanisms reach for all users.

    Mechanisms that were run at a single point, or that share no loss with the others, are left out.
    """
    points = user_points(per_user)
    for attack, rows in points.groupby("attack", sort=True):
        curves: dict[str, Curve] = {
            str(lppm): {str(user): curve_of_user(own) for user, own in of_lppm.groupby("user", sort=True)}
            for lppm, of_lppm in rows.groupby("lppm", sort=True)
            if of_lppm.groupby("user").size().min() > 1
        }
        loss = _common_loss(curves)
        if loss is not None:
            yield _rank(str(attack), curves, loss)


def _common_loss(curves: dict[str, Curve]) -> float | None:
    """Return a loss that every mechanism reaches for every user, in the middle, to a tenth of a kilometre."""
    if len(curves) < 2:
        return None
    low = max(losses[0] for curve in curves.values() for losses, _ in curve.values())
    high = min(losses[-1] for curve in curves.values() for losses, _ in curve.values())
    if low >= high:
        return None
    middle = float((low + high) / 2)
    rounded = round(middle, 1)
    return rounded if low <= rounded <= high else middle


def _rank(attack: str, curves: dict[str, Curve], loss: float) -> Ranking:
    errors = {
        lppm: np.array([np.interp(loss, losses, own) for losses, own in curve.values()])
        for lppm, curve in curves.items()
    }
    order = sorted(errors, key=lambda lppm: -float(errors[lppm].mean()))
    return Ranking(
        attack=attack,
        quality_loss_km=loss,
        errors_km={lppm: float(errors[lppm].mean()) for lppm in order},
        sure={lppm: _low(errors[order[0]] - errors[lppm]) > 0 for lppm in order[1:]},
    )


def _low(differences: FloatArray) -> float:
    """Return the lower end of Student's interval of a mean."""
    if differences.size < 2:
        return float("nan")
    half = stdtrit(differences.size - 1, (1 + CONFIDENCE) / 2) * differences.std(ddof=1) / np.sqrt(differences.size)
    return float(differences.mean() - half)
