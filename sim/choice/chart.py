"""The figure of the page: each candidate's error against its strongest attack, and its loss, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from sim.choice.ranking import Candidate, Interval, Ranking
from sim.report.markup import Markup, tag

STYLE = """
.choice { overflow-x: auto; }
.choice svg { display: block; max-width: 56rem; min-width: 34rem; width: 100%; height: auto; font-size: 13px; }
.choice .axis { stroke: var(--rule); }
.choice .grid { stroke: var(--grid); }
.choice text { fill: var(--ink); }
.choice .soft { fill: var(--soft); }
.choice .error { stroke: var(--series-0); fill: var(--series-0); }
.choice .loss { stroke: var(--series-1); fill: var(--series-1); }
.choice .best { font-weight: 600; }
"""
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _BOTTOM = 760, 150, 24, 34, 40, 44
_TICKS = 6


def chart(ranking: Ranking) -> Markup:
    """Return an SVG figure with a row per candidate: a disc for the error, a square for the loss, in km."""
    candidates = ranking.candidates
    most = max(_top(value) for one in candidates for value in (one.error_km, one.loss_km))
    step = _step(most)
    end = step * math.ceil(most / step - 1e-9)
    height = _TOP + _ROW * len(candidates) + _BOTTOM

    def x(km: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(km, 0.0), end) / end, 1)

    parts = [*_axis(x, step, end, height), *_legend()]
    for number, one in enumerate(candidates):
        parts += _row(x, _TOP + _ROW * (number + 0.5), one, best=number == 0)
    label = "Adversary error and quality loss of each candidate in km; all numbers are in the table"
    drawn = tag("svg", *parts, viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label=label)
    return tag("div", drawn, class_="choice")


def _row(x: Callable[[float], float], y: float, one: Candidate, *, best: bool) -> Iterator[Markup]:
    kind = "best" if best else None
    yield tag("text", one.name, x=_LEFT - 12, y=y + 4, text_anchor="end", class_=kind)
    for value, above, name in ((one.error_km, -5, "error"), (one.loss_km, 6, "loss")):
        if not math.isnan(value.low):
            yield tag("line", x1=x(value.low), x2=x(value.high), y1=y + above, y2=y + above, class_=name)
        middle = x(value.value)
        if name == "error":
            yield tag("circle", cx=middle, cy=y + above, r=4.5, class_=name)
        else:
            yield tag("rect", x=middle - 4, y=y + above - 4, width=8, height=8, class_=name)


def _axis(x: Callable[[float], float], step: float, end: float, height: float) -> Iterator[Markup]:
    bottom = height - _BOTTOM
    for number in range(round(end / step) + 1):
        at = x(number * step)
        yield tag("line", x1=at, x2=at, y1=_TOP - 6, y2=bottom, class_="axis" if number == 0 else "grid")
        yield tag("text", f"{number * step:g}", x=at, y=bottom + 18, text_anchor="middle", class_="soft")
    yield tag("text", "km", x=_WIDTH - _RIGHT, y=bottom + 36, text_anchor="end", class_="soft")


def _legend() -> Sequence[Markup]:
    return [
        tag("circle", cx=_LEFT + 6, cy=14, r=4.5, class_="error"),
        tag("text", "error of the strongest attack (more is better)", x=_LEFT + 18, y=18),
        tag("rect", x=_LEFT + 322, y=10, width=8, height=8, class_="loss"),
        tag("text", "quality loss (less is better)", x=_LEFT + 338, y=18),
    ]


def _top(value: Interval) -> float:
    return value.value if math.isnan(value.high) else value.high


def _step(most: float) -> float:
    """Return a round distance between ticks.

    >>> _step(1.0), _step(0.03), _step(7.0)
    (0.2, 0.005, 2.0)
    """
    rough = max(most, 1e-6) / _TICKS
    power = 10 ** math.floor(math.log10(rough))
    return next(float(f"{factor * power:.3g}") for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
