"""Verdicts on claims, derived from confidence intervals of measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from sim.analysis.replication_effect import CONFIDENCE
from sim.interfaces import FloatArray

Verdict = Literal["holds", "does not hold", "undecided"]
Judge = Callable[[float, float], Verdict]
"""Function that returns the verdict of a confidence interval, given its ends."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement in one panel: a mean over users, relative to the quality loss."""

    panel: str
    quantity: str
    """The quantity measured, such as "sp-rich - sp-scarce"."""
    mean: float
    half: float
    """Half width of the 95 % confidence interval; NaN for fewer than two users."""
    users: int
    verdict: Verdict

    def __str__(self) -> str:
        interval = "" if np.isnan(self.half) else f" ± {100 * self.half:.1f}"
        return f"{100 * self.mean:+.1f}{interval} %"


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim with its measurements and verdict."""

    key: str
    """Stable identifier of the claim."""
    section: str
    claim: str
    test: str
    """The condition under which the claim holds."""
    measured: tuple[Measured, ...]
    remark: str = ""
    """Reason why the claim is not tested, or a possible reason for a failure."""
    needed: int | None = None
    """Number of measurements that must hold (default: all)."""

    @property
    def verdict(self) -> Verdict:
        """Return "holds" if enough measurements hold, "does not hold" if too many fail, otherwise "undecided"."""
        if not self.measured:
            return "undecided"
        needed = len(self.measured) if self.needed is None else self.needed
        verdicts = [row.verdict for row in self.measured]
        if verdicts.count("holds") >= needed:
            return "holds"
        return "does not hold" if len(verdicts) - verdicts.count("does not hold") < needed else "undecided"


def above(limit: float) -> Judge:
    """Return the judge of the claim that a value is above a limit."""
    return lambda low, high: "holds" if low > limit else "does not hold" if high < limit else "undecided"


def within(limit: float) -> Judge:
    """Return the judge of the claim that a value is within ± a limit."""

    def judge(low: float, high: float) -> Verdict:
        if -limit < low and high < limit:
            return "holds"
        return "does not hold" if low > limit or high < -limit else "undecided"

    return judge


def judged(panel: str, quantity: str, shares: FloatArray, judge: Judge) -> Measured:
    """Return the mean over users with Student's t interval, and its verdict."""
    if shares.size < 2:
        mean = float(shares.mean()) if shares.size else float("nan")
        return Measured(panel, quantity, mean, float("nan"), shares.size, "undecided")
    mean, half = float(shares.mean()), _half(shares.std(ddof=1) / np.sqrt(shares.size), shares.size - 1)
    return Measured(panel, quantity, mean, half, shares.size, judge(mean - half, mean + half))


def group_difference(panel: str, quantity: str, ones: FloatArray, others: FloatArray, judge: Judge) -> Measured:
    """Return the difference of the means of two groups of users with Welch's interval, and its verdict."""
    if min(ones.size, others.size) < 2:
        return Measured(panel, quantity, float("nan"), float("nan"), ones.size + others.size, "undecided")
    parts = np.array([ones.var(ddof=1) / ones.size, others.var(ddof=1) / others.size])
    sizes = np.array([ones.size, others.size])
    freedom = parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum() if parts.sum() else float(sizes.sum() - 2)
    mean, half = float(ones.mean() - others.mean()), _half(np.sqrt(parts.sum()), freedom)
    return Measured(panel, quantity, mean, half, int(sizes.sum()), judge(mean - half, mean + half))


def _half(error: float, freedom: float) -> float:
    """Return the half width of Student's 95 % confidence interval."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2) * error)
