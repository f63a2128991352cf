"""Axis limits, scales and font size of a figure, chosen by the user."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FuncFormatter, NullFormatter
from matplotlib.transforms import Transform

from sim.interfaces import FloatArray
from sim.plots import style
from sim.plots.labels import literal
from sim.plots.style import STYLE
from sim.storage.errors import RequestError

Limits = tuple[float | None, float | None]
Scale = Literal["linear", "log"]
REFERENCE = "reference"
"""Group id of lines that are not data, such as diagonals."""
FONT_SIZES_PT = (5.0, 16.0)
_SIZE_PT = float(STYLE["font.size"])
_NARROW = 100.0
"""Ratio of the limits below which a logarithmic axis has labels between powers of ten."""
_LINE_IN = 0.12
"""Height of a line of a note, in inches."""
_BELOW = 0.8
"""Lower limit of a logarithmic axis, as a fraction of the smallest positive value."""


@dataclass(frozen=True, slots=True)
class AxisControl:
    """Limits and scales of both axes in all panels, and the font size; None: as the figure chooses."""

    xlim: Limits | None = None
    ylim: Limits | None = None
    xscale: Scale | None = None
    yscale: Scale | None = None
    font_size: float | None = None
    """Size of axis labels in points; other texts are scaled with it."""

    def __post_init__(self) -> None:
        low, high = FONT_SIZES_PT
        if self.font_size is not None and not low <= self.font_size <= high:
            raise RequestError(
                f"the font size must be in [{low:g}, {high:g}] points, got {self.font_size:g}", code="invalid-font-size"
            )
        for axis, lim, scale in (("x", self.xlim, self.xscale), ("y", self.ylim, self.yscale)):
            if scale == "log" and lim is not None and any(end is not None and end <= 0 for end in lim):
                raise RequestError(
                    f"limits of a logarithmic axis must be positive, got --{axis}lim {_text(lim)}",
                    code="invalid-limits",
                )

    def of(self, axis: str) -> tuple[Limits | None, Scale | None]:
        """Return limits and scale of the axis x or y."""
        return (self.xlim, self.xscale) if axis == "x" else (self.ylim, self.yscale)

    def changed_axes(self) -> str:
        """Return the names of the axes with limits or a scale."""
        return "".join(axis for axis in "xy" if self.of(axis) != (None, None))


def parse_limits(text: str) -> Limits:
    """Parse limits `A:B`; either end may be missing and is then chosen by the figure.

    >>> parse_limits("0:2.5"), parse_limits(":3")
    ((0.0, 2.5), (None, 3.0))
    """
    low, separator, high = text.partition(":")
    try:
        ends = (float(low) if low.strip() else None, float(high) if high.strip() else None)
        valid = separator == ":" and ends != (None, None) and all(end is None or math.isfinite(end) for end in ends)
        valid = valid and (None in ends or ends[0] < ends[1])  # type: ignore[operator]
    except ValueError:
        valid = False
    if not valid:
        raise RequestError(
            f"limits must be A:B with A < B, such as 0:2.5, or A: or :B, got {text!r}", code="invalid-limits"
        )
    return ends


def controlled(figure: Figure, control: AxisControl) -> Figure:
    """Apply limits, scales and font size to all panels of a figure, and compute its layout again.

    A note names the lines with values that a logarithmic axis cannot show.
    """
    missing: dict[str, None] = {}
    with rc_context(STYLE):
        for axis in control.changed_axes():
            lim, scale = control.of(axis)
            for panel in _panels(figure):
                missing |= dict.fromkeys(_apply(panel, axis, lim, scale))
        _require_data(figure, control)
        if missing:
            _add_note(figure, f"zero, not on the logarithmic axis: {', '.join(map(literal, missing))}")
        if control.font_size is not None:
            _scale_fonts(figure, control.font_size / _SIZE_PT)
        settled = style.settled(figure)
        for panel in _panels(figure):
            _hide_texts_beside(panel)
    return settled


def _panels(figure: Figure) -> list[Axes]:
    return [panel for panel in figure.axes if panel.get_visible()]


def _apply(panel: Axes, axis: str, lim: Limits | None, scale: Scale | None) -> list[str]:
    """Set scale and limits of one axis of a panel; return the names of lines with values that it cannot show."""
    low, high = getattr(panel, f"get_{axis}lim")()
    own = lim or (None, None)
    low, high = low if own[0] is None else own[0], high if own[1] is None else own[1]
    names: list[str] = []
    if own[0] is None and own[1] is not None and low < 0 and _is_non_negative(panel, axis):
        low = 0.0
    if scale == "log":
        values = {line: _values(line, axis) for line in _data_lines(panel)}
        names = [str(line.get_label()) for line, of_line in values.items() if (of_line <= 0).any()]
        names = [name for name in names if not name.startswith("_")]
        positive = [of_line[of_line > 0] for of_line in values.values()]
        smallest = min((float(of_line.min()) for of_line in positive if len(of_line)), default=high / 10)
        low = low if low > 0 and own[0] is not None else _BELOW * smallest
    if not low < high:
        raise RequestError(f"the {axis} axis would be empty: from {low:g} to {high:g}", code="invalid-limits")
    if scale is not None:
        getattr(panel, f"set_{axis}lim")(max(low, np.finfo(float).tiny) if scale == "log" else low, high)
        getattr(panel, f"set_{axis}scale")(scale)
    if scale == "log":
        ticks = getattr(panel, f"{axis}axis")
        ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ticks.set_minor_formatter(FuncFormatter(_minor_label) if high / low < _NARROW else NullFormatter())
    getattr(panel, f"set_{axis}lim")(low, high)
    return names


def _is_non_negative(panel: Axes, axis: str) -> bool:
    return all((_values(line, axis) >= 0).all() for line in _data_lines(panel))


def _require_data(figure: Figure, control: AxisControl) -> None:
    """Raise RequestError if the limits leave all panels without data."""
    lines = [(panel, line) for panel in _panels(figure) for line in _data_lines(panel)]
    if not lines or not control.changed_axes() or any(_is_visible(panel, line) for panel, line in lines):
        return
    spans = []
    for axis in control.changed_axes():
        values = np.concatenate([_values(line, axis) for _, line in lines])
        if values.size:
            spans.append(f"{axis} from {values.min():.4g} to {values.max():.4g}")
    raise RequestError(f"no data within the limits; the figure has {' and '.join(spans)}", code="invalid-limits")


def _is_visible(panel: Axes, line: Line2D) -> bool:
    """Return whether the bounding box of a point or segment of a line meets the limits, also where the line is cut."""
    x, y = np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)
    within = np.ones(max(x.size - 1, 1), dtype=bool)
    for values, limits in ((x, panel.get_xlim()), (y, panel.get_ylim())):
        ends = np.stack([values[:-1], values[1:]]) if values.size > 1 else values.reshape(1, -1)
        if not ends.size:
            return False
        low, high = sorted(limits)
        within &= (np.fmin.reduce(ends) <= high) & (np.fmax.reduce(ends) >= low)
    return bool(within.any())


def _minor_label(value: float, _: int | None = None) -> str:
    """Return the label of a tick between powers of ten: only 2, 3 and 5, which leave room.

    >>> [_minor_label(value) for value in (0.2, 0.04, 50.0)]
    ['0.2', '', '50']
    """
    text = f"{value:g}"
    return text if text.strip("0.") in ("2", "3", "5") else ""


def _add_note(figure: Figure, note: str) -> None:
    """Add a note to the title of the legend, or below a figure without one."""
    if not figure.legends:
        figure.supxlabel(note, fontsize=7, color=style.INK)
        return
    width, height = figure.get_size_inches()
    title = figure.legends[0].get_title()
    lines = style.wrapped(note, figure.legends[0].get_bbox_to_anchor().width / figure.dpi)
    title.set_text("\n".join(filter(None, [title.get_text(), lines])))
    title.set_visible(True)
    figure.set_size_inches(width, height + _LINE_IN * (1 + lines.count("\n")))


def _data_lines(panel: Axes) -> Iterator[Line2D]:
    return (line for line in panel.lines if line.get_transform() == panel.transData and line.get_gid() != REFERENCE)


def _values(line: Line2D, axis: str) -> FloatArray:
    values: FloatArray = np.asarray(line.get_xdata() if axis == "x" else line.get_ydata(), dtype=float)
    finite: FloatArray = values[np.isfinite(values)]
    return finite


def _scale_fonts(figure: Figure, factor: float) -> None:
    """Scale all texts, and the height of the figure, so that panels keep about their size."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_fontsize(float(text.get_fontsize()) * factor)
    for panel in figure.axes:
        panel.tick_params(which="both", labelsize=float(STYLE["xtick.labelsize"]) * factor)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height * max(1.0, factor))


def _hide_texts_beside(panel: Axes) -> None:
    """Hide names of marks that the limits exclude."""
    low, high = panel.get_window_extent().intervalx
    for text in panel.texts:
        if isinstance(text, Annotation) and isinstance(text.xycoords, Transform):
            x, _ = text.xycoords.transform(text.xy)
            text.set_visible(bool(low - 1 <= x <= high + 1))


def _text(lim: Limits) -> str:
    return ":".join("" if end is None else f"{end:g}" for end in lim)
