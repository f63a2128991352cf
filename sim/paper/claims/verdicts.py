"""Verdicts: what an interval says about one measured row, and what the rows say about a claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from sim.analysis.statistics import CONFIDENCE
from sim.interfaces import FloatArray

Verdict = Literal["holds", "does not hold", "cannot be told"]
Judge = Callable[[float, float], Verdict]
"""Return the verdict of an interval, given its ends."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric in one panel: a mean over users as a share of the loss, with half of its 95 % interval."""

    panel: str
    what: str
    mean: float
    half: float
    """NaN for fewer than two users."""
    users: int
    verdict: Verdict

    def __str__(self) -> str:
        interval = "" if np.isnan(self.half) else f" ± {100 * self.half:.1f}"
        return f"{100 * self.mean:+.1f}{interval} %"


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim, the measured rows and its verdict."""

    section: str
    claim: str
    test: str
    """The condition under which it holds."""
    measured: tuple[Measured, ...]
    remark: str = ""
    """Why it cannot be tested, or a possible reason of a failure."""
    needed: int | None = None
    """In how many rows it has to hold (default: all)."""

    @property
    def verdict(self) -> Verdict:
        """Return "holds" if enough rows hold, "does not hold" if so many fail that too few are left."""
        if not self.measured:
            return "cannot be told"
        needed = len(self.measured) if self.needed is None else self.needed
        verdicts = [row.verdict for row in self.measured]
        if verdicts.count("holds") >= needed:
            return "holds"
        return "does not hold" if len(verdicts) - verdicts.count("does not hold") < needed else "cannot be told"


def above(limit: float) -> Judge:
    """Return the judge of a metric that is to lie above a limit."""
    return lambda low, high: "holds" if low > limit else "does not hold" if high < limit else "cannot be told"


def within(limit: float) -> Judge:
    """Return the judge of a metric that is to lie within ± a limit."""

    def judge(low: float, high: float) -> Verdict:
        if -limit < low and high < limit:
            return "holds"
        return "does not hold" if low > limit or high < -limit else "cannot be told"

    return judge


def judged(place: str, what: str, shares: FloatArray, judge: Judge) -> Measured:
    """Return the mean over users with Student's interval, and its verdict."""
    if shares.size < 2:
        mean = float(shares.mean()) if shares.size else float("nan")
        return Measured(place, what, mean, float("nan"), shares.size, "cannot be told")
    mean, half = float(shares.mean()), _half(shares.std(ddof=1) / np.sqrt(shares.size), shares.size - 1)
    return Measured(place, what, mean, half, shares.size, judge(mean - half, mean + half))


def apart(place: str, what: str, ones: FloatArray, others: FloatArray, judge: Judge) -> Measured:
    """Return the difference of the means of two groups of users, with Welch's interval."""
    if min(ones.size, others.size) < 2:
        return Measured(place, what, float("nan"), float("nan"), ones.size + others.size, "cannot be told")
    parts = np.array([ones.var(ddof=1) / ones.size, others.var(ddof=1) / others.size])
    sizes = np.array([ones.size, others.size])
    freedom = parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum() if parts.sum() else float(sizes.sum() - 2)
    mean, half = float(ones.mean() - others.mean()), _half(np.sqrt(parts.sum()), freedom)
    return Measured(place, what, mean, half, int(sizes.sum()), judge(mean - half, mean + half))


def _half(error: float, freedom: float) -> float:
    """Return half of Student's 95 % interval."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2) * error)
