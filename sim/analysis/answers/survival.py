"""Kaplan-Meier survival curves with censoring, from counts that can be merged between blocks of users.

With d_i events among n_i units at risk at time t_i, S(t) = prod_{t_i <= t} (1 - d_i / n_i) (Kaplan & Meier 1958, JASA
53, 457-481). Greenwood's formula gives var(log S) = sum d_i / (n_i (n_i - d_i)). Intervals are computed on the scale
log(-log S), so that they lie within [0, 1] (Kalbfleisch & Prentice 1980). That scale has no value for S = 1 and S = 0,
before the first event and if everybody had one; there the limits are those of Clopper & Pearson (1934) for the units at
risk: a curve without events is not certain. A unit that is censored at a time is at risk at this time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sim.analysis.answers.excess_risk import UNKNOWN, Rate, Z
from sim.analysis.replication_effect import CONFIDENCE
from sim.interfaces import FloatArray

_R = TypeVar("_R")
_TIE = 1e-9
"""Tolerance for a survival of exactly the asked share, whose product of fractions is rounded."""


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Numbers of events and of censored units by time; a unit may count with a weight, such as 1 / replications."""

    times: FloatArray
    """Distinct times, increasing."""
    events: FloatArray
    censored: FloatArray

    @classmethod
    def of(cls, durations: ArrayLike, observed: ArrayLike, weights: ArrayLike = 1.0) -> Self:
        """Count units by duration; `observed` is true for an event and false for a censored unit."""
        values, happened = np.asarray(durations, dtype=float), np.asarray(observed, dtype=bool)
        weight = np.broadcast_to(np.asarray(weights, dtype=float), values.shape)
        times, which = np.unique(values, return_inverse=True)
        totals = (np.bincount(which, weight * mask, len(times)).astype(float) for mask in (happened, ~happened))
        return cls(times, *totals)

    def merged(self, other: EventCounts) -> EventCounts:
        """Return the counts of the units of both."""
        times = np.union1d(self.times, other.times)
        events, censored = np.zeros(len(times)), np.zeros(len(times))
        for own in (self, other):
            at = np.searchsorted(times, own.times)
            events[at] += own.events
            censored[at] += own.censored
        return EventCounts(times, events, censored)

    @property
    def units(self) -> float:
        """Number of units."""
        return float(self.events.sum() + self.censored.sum())


@dataclass(frozen=True, slots=True)
class SurvivalCurve:
    """Survival after each time at which units have events or are censored, with 95 % limits."""

    times: FloatArray
    at_risk: FloatArray
    """Units at risk just before each time."""
    events: FloatArray
    survival: FloatArray
    greenwood: FloatArray
    """Greenwood's sum of d / (n (n - d)), the variance of log S."""
    low: FloatArray
    high: FloatArray

    @property
    def standard_error(self) -> FloatArray:
        """Greenwood's standard error of S; 0 where S = 0."""
        return np.where(self.survival > 0, self.survival * np.sqrt(self.greenwood), 0.0)

    def at(self, time: float) -> Rate:
        """Return the survival at a time; unknown after the last unit has left, unless everybody has had the event."""
        if not len(self.times) or (time > self.times[-1] and self.survival[-1] > 0):
            return UNKNOWN
        place = int(np.searchsorted(self.times, time, side="right")) - 1
        if place < 0:
            return _limits_of_all(float(self.at_risk[0]))
        return Rate(float(self.survival[place]), float(self.low[place]), float(self.high[place]))

    def time_until(self, share: float) -> Rate:
        """Return the time at which a share of the units has had the event, with its interval; infinite: not reached.

        The interval has the times at which the limits of S reach 1 - share (Brookmeyer & Crowley 1982).
        """
        value, low, high = (self._first_below(curve, 1 - share) for curve in (self.survival, self.low, self.high))
        return Rate(value, low, high)

    def mean_until(self, last: float) -> float:
        """Return the mean time without the event until a last time: the area under the curve."""
        times = np.append(np.minimum(self.times, last), last)
        return float(times[0] + self.survival @ np.diff(times))

    def bounded_by(self, other: SurvivalCurve) -> SurvivalCurve:
        """Return the curve that is nowhere above another one, of events that imply the own ones.

        The estimates need not be in this order, even if each unit's own event never comes later: a unit that has it
        before others are censored no longer stands for them. Numbers of units and events remain the own ones.
        """
        times = np.union1d(self.times, other.times)
        own, bound = self._values(times), other._values(times)
        after, events = np.searchsorted(self.times, times), np.zeros(len(times))
        events[np.searchsorted(times, self.times)] = self.events
        at_risk = np.append(self.at_risk, 0.0)[after]
        greenwood = np.append(0.0, self.greenwood)[np.searchsorted(self.times, times, side="right")]
        return SurvivalCurve(
            times, at_risk, events, np.minimum(own[0], bound[0]), greenwood, *np.minimum(own, bound)[1:]
        )

    def _values(self, times: FloatArray) -> FloatArray:
        """Return survival and limits at some times, shape (3, n_times); after the last one, the last values."""
        curves = zip(_limits_of_all(float(self.at_risk[0])), (self.survival, self.low, self.high), strict=True)
        place = np.searchsorted(self.times, times, side="right")
        return np.array([np.append(first, curve)[place] for first, curve in curves])

    def _first_below(self, curve: FloatArray, level: float) -> float:
        # Limits without an event so far are bounds on what was not seen, and not times of events.
        below = np.flatnonzero((curve <= level + _TIE) & (self.survival < 1))
        return float(self.times[below[0]]) if len(below) else np.inf


def kaplan_meier(counts: EventCounts) -> SurvivalCurve:
    """Return the survival curve of counts of events.

    >>> curve = kaplan_meier(EventCounts.of([1, 2, 3, 4], [True, False, True, False]))
    >>> curve.survival.tolist(), curve.time_until(0.5).value
    ([0.75, 0.75, 0.375, 0.375], 3.0)
    """
    left = np.cumsum(counts.events + counts.censored)
    at_risk = np.asarray(counts.units - left + counts.events + counts.censored, dtype=float)
    remaining = at_risk - counts.events
    everybody = remaining <= _TIE * np.maximum(at_risk, 1.0)
    survival: FloatArray = np.cumprod(np.where(everybody, 0.0, 1 - counts.events / at_risk), dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(everybody, np.inf, counts.events / (at_risk * remaining))
        greenwood = np.cumsum(np.where(counts.events > 0, terms, 0.0))
    low, high = _limits(survival, greenwood, at_risk)
    return SurvivalCurve(counts.times, at_risk, counts.events, survival, greenwood, low, high)


def _limits(survival: FloatArray, greenwood: FloatArray, at_risk: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the limits of the intervals on the scale log(-log S), and those of Clopper & Pearson for S = 1 and 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.exp(Z * np.sqrt(greenwood) / np.abs(np.log(survival)))
        low, high = survival**factor, survival ** (1 / factor)
    none, all_ = survival >= 1.0, survival <= 0.0
    bound = np.exp(np.log((1 - CONFIDENCE) / 2) / np.maximum(at_risk, 1e-12))
    low, high = np.where(none, bound, low), np.where(none, 1.0, high)
    before = np.append(1.0, high[:-1])
    low, high = np.where(all_, 0.0, low), np.where(all_, np.minimum(1 - bound, before), high)
    # Neither limit may rise while nothing happens, as the bounds of few units at risk would.
    return low, np.minimum.accumulate(high) if len(high) else high


def _limits_of_all(units: float) -> Rate:
    return Rate(1.0, float(((1 - CONFIDENCE) / 2) ** (1 / units)), 1.0)


def ordered(curves: Iterable[SurvivalCurve]) -> list[SurvivalCurve]:
    """Return curves of events that imply the events of all later curves, each bounded by those before it."""
    return list(accumulate(curves, lambda before, curve: curve.bounded_by(before)))


def best_rule(curves: Mapping[_R, SurvivalCurve]) -> _R:
    """Return the rule with the shortest mean time without the event; the first one if tied."""
    last = max(curve.times[-1] for curve in curves.values())
    return min(curves, key=lambda rule: curves[rule].mean_until(last))
