"""Root finding for the strength of a design that realises a loss or an error.

The metric is measured by simulations with common random numbers. It falls from the noisy end of the range of strengths
to the quiet end, up to the jumps of mechanisms that learn from their reports. A scout, the same search on a cheaper
metric, proposes strengths, so that few evaluations of the metric itself are needed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sim.lppm.strength import StrengthRange

TOLERANCE = 0.002
"""Relative difference between metric and target at which the search ends."""
MOST_EVALUATIONS = 40
"""Maximum number of evaluations for one target."""
CLOSE = 0.01
"""Relative difference that counts as reached where the metric jumps."""
NARROW = 3e-4
"""Relative width of a bracket at which a jump of the metric is accepted."""
_OF_SHARES = 3e-3
"""Factor of this width for probabilities, to which small metrics are proportional."""
_STEPS_TO_END = 3
"""Number of doublings towards the noisy end before the end itself is tried."""
_PROPOSALS = 3
"""Maximum number of strengths that a scout proposes for a target."""

Outcome = Literal["reached", "nearest", "unreachable"]
"""reached: the metric meets the target. nearest: strengths are whole numbers, or the metric jumps. unreachable: the end
of the range does not reach the target."""
Side = Literal["at most", "at least"]
"""Whether the metric may not exceed the target, as a loss, or fall below it, as an error."""


@dataclass(frozen=True, slots=True)
class Found:
    """A strength that a search found for a target."""

    strength: float
    outcome: Outcome
    evaluations: int
    """Number of strengths simulated so far."""
    meets: bool = True
    """Whether the metric is on the allowed side of the target, up to the tolerance."""


class StrengthSearch:
    """Searches for several targets on the same metric; strengths are measured once."""

    def __init__(
        self,
        metric: Callable[[float], float],
        span: StrengthRange,
        side: Side = "at most",
        *,
        narrow: float = NARROW,
        scout: StrengthSearch | None = None,
    ) -> None:
        """Prepare searches; `narrow` is the relative width of a bracket at which a jump is accepted."""
        self._metric, self._span, self._side, self._narrow = metric, span, side, narrow
        self._scout = scout
        self._known: dict[float, float] = {}
        self._sign = 1.0 if span.loss_rises else -1.0

    def find(self, target: float) -> Found:
        """Return the strength for a target in (0, inf), and how well it reaches it."""
        tolerance = TOLERANCE * target
        before = len(self._known)
        self._try_proposals(target)
        for strength, value in self._known.items():
            if abs(value - target) <= tolerance:
                return self._found(strength, "reached")
        bracket = self._bracket(target)
        if isinstance(bracket, Found):
            return bracket
        quiet, noisy = bracket
        weights, replaced, widths = [1.0, 1.0], -1, [abs(noisy - quiet)]
        for _ in range(MOST_EVALUATIONS):
            for strength in (quiet, noisy):
                if abs(self._at(strength) - target) <= tolerance:
                    return self._found(strength, "reached")
            if self._is_narrow(quiet, noisy) or len(self._known) - before >= MOST_EVALUATIONS:
                break
            slow = len(widths) > 2 and widths[-1] > widths[-3] / 4
            middle = self._between(quiet, noisy, target, weights, halve=slow)
            side = int(self._at(middle) > target)
            quiet, noisy = (quiet, middle) if side else (middle, noisy)
            # Illinois: the weight of an end that stays a second time is halved.
            weights[side], weights[1 - side] = 1.0, weights[1 - side] / (2 if side == replaced else 1)
            replaced = side
            widths.append(abs(noisy - quiet))
        strength = quiet if self._side == "at most" else noisy
        close = abs(self._at(strength) - target) <= CLOSE * target
        return self._found(strength, "reached" if close else "nearest")

    def _try_proposals(self, target: float) -> None:
        """Evaluate the strengths at which the scout reaches the target, corrected by the ratio of both metrics."""
        aim = target
        for _ in range(_PROPOSALS if self._scout is not None else 0):
            assert self._scout is not None
            strength = self._scout.find(aim).strength
            known = strength in self._known
            value = self._at(strength)
            if known or value <= 0 or abs(value - target) <= TOLERANCE * target:
                return
            aim *= target / value

    def _at(self, strength: float) -> float:
        if strength not in self._known:
            self._known[strength] = self._metric(strength)
        return self._known[strength]

    def _found(self, strength: float, outcome: Outcome, *, meets: bool = True) -> Found:
        tried = self._known.keys() | (self._scout._known.keys() if self._scout is not None else ())
        return Found(strength, outcome, len(tried), meets)

    def _bracket(self, target: float) -> tuple[float, float] | Found:
        """Return neighbouring strengths on the quiet and the noisy side of the target, or the end that misses it."""
        if not self._known:
            self._at(self._first(target))
        for steps in itertools.count():
            known = sorted(self._known, key=lambda strength: self._sign * strength)  # from quiet to noisy
            above = [self._known[strength] > target for strength in known]
            for (one, under), (other, over) in itertools.pairwise(zip(known, above, strict=True)):
                if over and not under:
                    return one, other
            end = self._span.noisy_end if not any(above) else self._span.quiet_end
            if end in self._known:
                reached = abs(self._known[end] - target) <= TOLERANCE * target
                meets = reached or (self._known[end] < target) == (self._side == "at most")
                return self._found(end, "reached" if reached else "unreachable", meets=meets)
            self._at(self._next(known[-1] if not any(above) else known[0], end, steps))
        raise AssertionError

    def _first(self, target: float) -> float:
        """Return the first strength to try: the inverse of the target for rates, otherwise the quiet end."""
        span = self._span
        if not span.per_loss:
            return span.quiet_end
        return min(max(2 / target, span.least), span.most)

    def _next(self, strength: float, end: float, steps: int) -> float:
        """Return the strength after this one on the way to an end of the range."""
        span = self._span
        if span.per_loss and end == span.noisy_end and steps >= _STEPS_TO_END:
            return end
        if not span.per_loss and not span.whole:
            return end
        further = 2 * strength if end > strength else strength / 2
        if further == strength:  # a rate of 0, which a scout may propose
            return end
        return min(max(further, span.least), span.most)

    def _is_narrow(self, quiet: float, noisy: float) -> bool:
        if self._span.whole:
            return abs(quiet - noisy) <= 1
        width = max(abs(quiet), abs(noisy)) if self._span.per_loss else _OF_SHARES
        return abs(quiet - noisy) <= self._narrow * width

    def _between(self, quiet: float, noisy: float, target: float, weights: list[float], *, halve: bool) -> float:
        """Return a strength in the bracket: the Illinois variant of the secant, or the middle."""
        if self._span.whole:
            return float((quiet + noisy) // 2)
        below, above = self._at(quiet), self._at(noisy)
        # The loss of a rate is close to one of its powers: a line in logarithms.
        in_logarithms = self._span.per_loss and min(quiet, noisy, below) > 0
        x, y = (math.log, math.exp) if in_logarithms else (_same, _same)
        under, over = weights[0] * (x(target) - x(below)), weights[1] * (x(above) - x(target))
        share = 0.5 if halve or under + over <= 0 else under / (under + over)
        return y(x(quiet) + min(max(share, 0.01), 0.99) * (x(noisy) - x(quiet)))


def _same(value: float) -> float:
    return value
