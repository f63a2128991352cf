"""Figures of the page as SVG, in the colours of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sim.audit.answers import RADII_M, Answer
from sim.audit.home_curves import HomeCurve
from sim.audit.kernel import Kernel
from sim.interfaces import FloatArray
from sim.report.markup import Markup, joined, tag

_WIDTH, _HEIGHT = 460.0, 300.0
_LEFT, _BOTTOM, _TOP, _RIGHT = 52.0, 36.0, 10.0, 12.0


def kernel_figure(kernel: Kernel) -> Markup:
    """Return the empirical kernel as shades: darker where more reports are."""
    side = _HEIGHT - _TOP - _BOTTOM
    bins = len(kernel.counts)
    size = side / bins
    most = max(int(kernel.counts.max()), 1)
    cells = []
    for row, col in zip(*np.nonzero(kernel.counts), strict=True):
        shade = math.sqrt(kernel.counts[row, col] / most)
        cells.append(
            tag(
                "rect",
                x=f"{_LEFT + col * size:.1f}",
                y=f"{_TOP + (bins - 1 - row) * size:.1f}",
                width=f"{size + 0.3:.1f}",
                height=f"{size + 0.3:.1f}",
                fill="var(--series-0)",
                fill_opacity=f"{shade:.2f}",
            )
        )
    middle = side / 2
    cross = [
        _line(_LEFT, _TOP + middle, _LEFT + side, _TOP + middle),
        _line(_LEFT + middle, _TOP, _LEFT + middle, _TOP + side),
    ]
    reach = kernel.edges_m[-1]
    labels = [
        _text(_LEFT + side * share, _TOP + side + 15, _km(reach * (2 * share - 1)), "middle") for share in (0, 0.5, 1)
    ]
    labels += [
        _text(_LEFT - 6, _TOP + side * (1 - share) + 4, _km(reach * (2 * share - 1)), "end") for share in (0, 0.5, 1)
    ]
    labels.append(_text(_LEFT + middle, _HEIGHT - 4, "to the east", "middle"))
    labels.append(_text(_LEFT + 4, _TOP + 14, "to the north", "start"))
    frame = tag("rect", x=_LEFT, y=_TOP, width=side, height=side, fill="none", stroke="var(--rule)")
    svg = _svg(f"Displacements up to {_km(reach)}", _LEFT + side + _RIGHT, [*cross, *cells, frame, *labels])
    note = f"{kernel.beyond:,} of the reports are farther away." if kernel.beyond else ""
    return _figure("Displacement of the report from the true position", svg, note)


def distance_figure(observed: FloatArray, fitted: FloatArray | None) -> Markup:
    """Return the cumulative distributions of the distances, observed and simulated."""
    known = observed if fitted is None else np.concatenate([observed, fitted])
    reach = _rounded_up(max(float(np.quantile(known, 0.99)), 1.0))
    x = np.linspace(0, reach, 120)
    lines = [_curve(x / reach, np.searchsorted(np.sort(observed), x, side="right") / observed.size, "--series-0", "")]
    legend = [_text(_LEFT + 12, _TOP + 14, "observed", "start", "--series-0")]
    if fitted is not None:
        lines.append(
            _curve(x / reach, np.searchsorted(np.sort(fitted), x, side="right") / fitted.size, "--series-1", "5 4")
        )
        legend.append(_text(_LEFT + 12, _TOP + 30, "fitted mechanism", "start", "--series-1"))
    axes = _axes([_km(reach * share) for share in (0, 0.25, 0.5, 0.75, 1)])
    return _figure(
        "Share of reports within a distance of the true position", _svg("Distances", _WIDTH, [*axes, *lines, *legend])
    )


def answers_figure(answers: Sequence[Answer]) -> Markup:
    """Return the share of reports located within each radius, attacks and controls beside each other."""
    names = list(dict.fromkeys(one.attack for one in answers))
    wide = 720.0
    width = (wide - _LEFT - _RIGHT) / len(RADII_M)
    marks: list[Markup] = []
    for group, radius in enumerate(RADII_M):
        own = [one for one in answers if one.metric == "within" and one.radius_m == radius]
        for number, one in enumerate(own):
            x = _LEFT + width * (group + (number + 1) / (len(names) + 1))
            colour = "var(--soft)" if one.control else f"var(--series-{(number - 2) % 7})"
            if not math.isnan(one.low):
                marks.append(_line(x, _y(one.low), x, _y(one.high), colour, 3, 0.4))
            hollow = {"fill": "var(--paper)", "stroke": colour, "stroke_width": 2} if number == 1 else {"fill": colour}
            marks.append(tag("circle", cx=f"{x:.1f}", cy=f"{_y(one.value):.1f}", r=4.5, **hollow))
        marks.append(_text(_LEFT + width * (group + 0.5), _HEIGHT - _BOTTOM + 16, f"within {_km(radius)}", "middle"))
    controls = {one.attack: one.control for one in answers}
    entries = [
        tag(
            "span",
            tag(
                "b",
                "○ " if i == 1 else "● ",
                style=f"color: {'var(--soft)' if controls[name] else f'var(--series-{(i - 2) % 7})'}",
            ),
            f"{name}{' (control)' if controls[name] else ''}",
        )
        for i, name in enumerate(names)
    ]
    svg = _svg("Share of reports located", wide, [*_shares(wide), *marks])
    legend = tag("div", *entries, class_="legend")
    return joined([legend, _figure("Share of reports whose estimate is near the true position", svg)])


def home_figure(curves: Sequence[HomeCurve], control: float) -> Markup:
    """Return the share of users whose home is known, by day, with 95 % bands and the control attack."""
    wide = 720.0
    last = max(max(one.last_days) for one in curves)
    marks: list[Markup] = []
    for number, one in enumerate(curves):
        colour = f"var(--series-{number})"
        days = np.clip(np.concatenate([[0.0], one.curve.times, [max(one.last_days)]]), 0, last)
        alive, low, high = (
            np.concatenate([[1.0], part, part[-1:]]) for part in (one.curve.survival, one.curve.low, one.curve.high)
        )
        x = _LEFT + np.repeat(days, 2)[1:] / last * (wide - _LEFT - _RIGHT)
        known, most, least = (np.repeat(1 - part, 2)[:-1] for part in (alive, low, high))
        band = [*_points(x, most), *_points(x[::-1], least[::-1])]
        marks.append(tag("polygon", points=" ".join(band), fill=colour, fill_opacity=0.14))
        dash = None if number == 0 else "6 4"
        line = {"fill": "none", "stroke": colour, "stroke_width": 2.5, "stroke_dasharray": dash}
        marks.append(tag("polyline", points=" ".join(_points(x, known)), **line))
    names = [tag("span", tag("b", "— ", style=f"color: var(--series-{i})"), one.attack) for i, one in enumerate(curves)]
    if not math.isnan(control):
        marks.append(_line(_LEFT, _y(control), wide - _RIGHT, _y(control), "var(--soft)", 2))
        names.append(tag("span", tag("b", "— ", style="color: var(--soft)"), "no report (control)"))
    step = max(1, math.ceil(last / 8))
    for day in range(0, last + 1, step):
        at = _LEFT + day / last * (wide - _LEFT - _RIGHT)
        marks.append(_text(at, _HEIGHT - _BOTTOM + 16, f"{day}", "middle"))
    marks.append(_text(_LEFT + (wide - _LEFT - _RIGHT) / 2, _HEIGHT - 4, "days of attacked reports", "middle"))
    svg = _svg("Homes known over days", wide, [*_shares(wide), *marks])
    note = "95 % bands over users; users are censored at their last day."
    legend = tag("div", *names, class_="legend")
    return joined([legend, _figure("Share of users whose home is known within 564 m (1,850 ft)", svg, note)])


def _points(x: FloatArray, share: FloatArray) -> list[str]:
    return [f"{a:.1f},{_y(b):.1f}" for a, b in zip(x.tolist(), share.tolist(), strict=True)]


def _rounded_up(value: float) -> float:
    """Return the next larger of 1, 2, 4, 6, 8 times a power of ten.

    >>> _rounded_up(1810.0), _rounded_up(41.0)
    (2000.0, 60.0)
    """
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value * (1 - 1e-9))


def _figure(title: str, svg: Markup, note: str = "") -> Markup:
    caption = tag("figcaption", tag("strong", title), tag("span", note, class_="note") if note else "")
    return tag("figure", caption, svg)


def _svg(label: str, width: float, children: Sequence[Markup]) -> Markup:
    return tag(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {_HEIGHT:g}",
        width=f"{width:g}",
        class_="plot",
        role="img",
        aria_label=label,
    )


def _axes(labels: Sequence[str]) -> list[Markup]:
    span = _WIDTH - _LEFT - _RIGHT
    marks = [
        _text(_LEFT + span * i / (len(labels) - 1), _HEIGHT - _BOTTOM + 16, label, "middle")
        for i, label in enumerate(labels)
    ]
    return [*_shares(_WIDTH), *marks]


def _shares(width: float) -> list[Markup]:
    marks = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        marks.append(_line(_LEFT, _y(share), width - _RIGHT, _y(share), "var(--grid)"))
        marks.append(_text(_LEFT - 6, _y(share) + 4, f"{share:.0%}", "end"))
    return marks


def _curve(x: FloatArray, y: FloatArray, colour: str, dash: str) -> Markup:
    span = _WIDTH - _LEFT - _RIGHT
    points = " ".join(f"{_LEFT + a * span:.1f},{_y(b):.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return tag(
        "polyline", points=points, fill="none", stroke=f"var({colour})", stroke_width=2, stroke_dasharray=dash or None
    )


def _y(share: float) -> float:
    return _TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM)


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str = "var(--grid)", width: float = 1, opacity: float = 1
) -> Markup:
    ends = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    return tag("line", **ends, stroke=colour, stroke_width=width, stroke_opacity=opacity)


def _text(x: float, y: float, text: str, anchor: str, colour: str | None = None) -> Markup:
    style = None if colour is None else f"fill: var({colour})"
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, style=style)


def _km(metres: float) -> str:
    return f"{metres:,.0f} m" if abs(metres) < 1000 else f"{metres / 1000:,.3g} km"
