"""Style of all figures: sizes, colours, axis labels, legends, and output formats."""

from __future__ import annotations

import io
import os
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib import rc_context, rcParamsDefault
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import LineStyleType

from sim.plots.labels import literal
from sim.storage.atomic import atomic_file

INK = "#333333"
# A matplotlibrc must not change figures or start LaTeX, so the style begins with matplotlib's defaults.
_NOT_STYLE = (
    "backend",
    "interactive",
    "toolbar",
    "webagg",
    "tk.",
    "timezone",
    "date.epoch",
    "docstring",
    "savefig.dir",
)
_DEFAULTS = {key: value for key, value in rcParamsDefault.items() if not key.startswith((*_NOT_STYLE, "figure.raise"))}
STYLE: dict[Any, Any] = _DEFAULTS | {
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "legend.title_fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "lppm-sim",
    "savefig.dpi": 200,
}
# Colours of Okabe and Ito without yellow, which has too little contrast on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
LINES: tuple[LineStyleType, ...] = ("-", "--", ":", "-.")

QUALITY_LABEL = r"quality loss $\bar{Q}$ [km]"
ERROR_LABEL = r"adversary error $P_{AE}$ [km]"
EFFICIENCY_LABEL = r"efficiency $P_{AE}\,/\,\bar{Q}$"
PAIR = ["quality_loss_km", "adversary_error_km"]
DIAGONAL = r"$P_{AE} = \bar{Q}$"
MARK = "#777777"
_LETTER_IN = 0.065
"""Width of a letter of a title, in inches."""
CLOSE: dict[str, Any] = {"handlelength": 1.8, "handletextpad": 0.5, "columnspacing": 1.3, "labelspacing": 0.35}
"""Spacing of the parts of a legend."""
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}


@dataclass(frozen=True, slots=True)
class Look:
    """Colour, marker and line style of an LPPM, the same in all figures of a run."""

    colour: str
    marker: str
    line: LineStyleType


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a style for each name in order of appearance; the first seventy are distinct.

    >>> looks(["SP", "PEB", "SP"])["PEB"]
    Look(colour='#D55E00', marker='s', line='-')
    """
    return {
        name: Look(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], LINES[i // len(COLOURS) % len(LINES)])
        for i, name in enumerate(dict.fromkeys(names))
    }


def own_looks(known: Mapping[str, Look] | None, names: Iterable[str]) -> dict[str, Look]:
    """Return the styles of the drawn names: from `known`, or those of `looks`."""
    shown = list(dict.fromkeys(names))
    return {name: (known or looks(shown))[name] for name in shown}


def against(attack: str, room_in: float | None = None) -> str:
    """Return the panel title of an attack, shortened to fit a panel of this width."""
    limit = 32 if room_in is None else max(6, min(32, int(room_in / _LETTER_IN) - len("against ")))
    return f"against {literal(attack, limit)}" if attack else "no attack"


def usual_width(attacks: int) -> float:
    """Return the width of a figure for the screen, in inches."""
    return {1: 4.6, 2: 6.8, 3: 8.4}.get(attacks, 2.5 * attacks)


def joined(start: str, end: str, room_in: float) -> str:
    """Return both parts of a text in one line, or in two lines if a panel of this width is too narrow."""
    if len(start + end) * _LETTER_IN <= room_in - 0.4 or not end:
        return start + end
    return f"{start}\n{end.lstrip(', ')}"


def columns(width: float, count: int, least_in: float = 1.6) -> int:
    """Return the number of columns for `count` panels of at least `least_in` inches in a figure of this width.

    >>> [columns(3.5, 3), columns(7.16, 3), columns(2.5, 3), columns(3.5, 4)]
    [2, 3, 1, 2]
    """
    return max(1, min(count, int(width / least_in)))


def lines_for(width: float) -> dict[str, float]:
    """Return settings for lines and markers in a printed figure of this width, in inches."""
    return {"lines.linewidth": 0.9 if width < 5 else 1.2, "lines.markersize": 3}


def row_height(panel_in: float) -> float:
    """Return the height of a row of panels of this width, in inches."""
    return float(np.clip(0.55 * panel_in, 1.25, 1.8))


def broken(label: str, height_in: float) -> str:
    """Return an axis label, in two lines if the axis is too short for one."""
    return label.replace(" $", "\n$", 1) if height_in < 1.7 else label


def count_queries(panel: Axes, width_in: float, label: str = "query index $r$") -> None:
    """Label an axis of query indices and use integer ticks."""
    panel.set_xlabel(label)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6 if width_in > 2 else 4))


def grid(figure: Figure, rows: Sequence[str], names: Sequence[str], columns: int) -> dict[tuple[str, str], Axes]:
    """Return a panel for each row and name: one column per name, continued below if there are too many.

    All panels share the x axis, those of a row also the y axis. Only outer panels have tick labels.
    """
    blocks = -(-len(names) // columns)
    axes = figure.subplots(len(rows) * blocks, columns, sharex=True, squeeze=False)
    panels = {}
    for block in range(blocks):
        for i, row in enumerate(rows):
            for column in range(columns):
                panel: Axes = axes[block * len(rows) + i, column]
                if block * columns + column >= len(names):
                    panel.remove()
                    continue
                panels[row, names[block * columns + column]] = panel
                if (block, column) != (0, 0):
                    panel.sharey(axes[i, 0])
                panel.tick_params(labelleft=column == 0, labelbottom=i == len(rows) - 1)
    return panels


def with_legend(
    width: float, height: float, names: dict[str, Look], note: str, *, lines: bool = True, title: str = ""
) -> Figure:
    """Return a figure of this size, in inches, with a legend below, in as many columns as fit, and a title above.

    Long notes and titles are wrapped.
    """
    figure = Figure(figsize=(width, height + legend_height(names, note, width)), layout="constrained")
    if names or note:
        legend(figure, names, note, width, lines=lines, loc="outside lower center")
    if title:
        title_lines = textwrap.wrap(literal(title, 100), int(width / _LETTER_IN))
        figure.suptitle("\n".join(title_lines), fontsize=8.5)
    return figure


def legend(
    figure: Figure,
    names: Mapping[str, Look],
    note: str,
    width: float,
    *,
    lines: bool = True,
    loc: Literal["outside lower center", "center"],
    **at: Any,
) -> None:
    """Add a legend with a note above it to a figure; `width` is the available width in inches."""
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.line if lines else "")
        for look in names.values()
    ]
    numbers = [str(i) for i in range(len(handles))]
    columns, title = beside(names, width), wrapped(note, width)
    added = figure.legend(handles, numbers, loc=loc, ncols=columns, title=title or None, **CLOSE, **at)
    # Labels are set afterwards, because matplotlib hides labels that start with an underscore.
    for text, name in zip(added.get_texts(), names, strict=True):
        text.set_text(literal(name))
    added.get_title().set_multialignment("center")


def legend_height(names: Mapping[str, Look], note: str, width: float) -> float:
    """Return the height of a legend in the available width, both in inches."""
    lines = wrapped(note, width).count("\n")
    return 0.16 * -(-len(names) // beside(names, width)) + (0.2 + 0.12 * lines if note else 0.05 if names else 0.0)


def beside(names: Iterable[str], width: float) -> int:
    """Return the number of legend columns that fit into this width, in inches, but no more than the rows need.

    >>> beside(["SP-Exp", "MK-Exp", "PEB-Exp", "identity"], 3.5)
    4
    """
    wide = [0.25 + 0.07 * len(literal(name)) for name in names]
    for rows in range(1, len(wide)):
        count = -(-len(wide) // rows)
        # A legend is filled column by column.
        if sum(column.max() + 0.14 for column in np.array_split(wide, count)) <= width:
            return count
    return 1


def wrapped(note: str, width: float) -> str:
    """Return a note wrapped to this width, in inches."""
    return "\n".join(textwrap.wrap(note, int(width / 0.054)))


def empty_figure(message: str) -> Figure:
    """Return a figure with a message instead of data."""
    with rc_context(STYLE):
        figure = Figure(figsize=(4.6, 1.2), layout="constrained")
        figure.text(0.5, 0.5, message, ha="center", va="center", color=INK)
    return figure


def settled(figure: Figure, *, compress: bool = False) -> Figure:
    """Compute and fix the layout of a figure; square panels need a second pass.

    `compress` removes the gaps between panels of fixed aspect ratio.
    """
    layout = ConstrainedLayoutEngine(h_pad=0.06, compress=compress)
    with _boxes_for_missing_letters():
        layout.execute(figure)
        layout.execute(figure)
    figure.set_layout_engine("none")
    return figure


def _make_opaque(figure: Figure) -> None:
    """Blend transparent colours with white, because PostScript has no transparency."""
    for artist in figure.findobj(lambda artist: artist.get_alpha() not in (None, 1)):
        alpha = float(artist.get_alpha() or 0)
        for part in ("color",) if isinstance(artist, Line2D) else ("facecolor", "edgecolor"):
            colours = np.atleast_2d(to_rgba_array(getattr(artist, f"get_{part}")()))[:, :3]
            mixed = [tuple(row) for row in 1 - alpha * (1 - colours)]
            artist.set(alpha=None)
            artist.set(**{part: mixed[0] if len(mixed) == 1 else mixed})


@contextmanager
def _boxes_for_missing_letters() -> Iterator[None]:
    """Suppress the warnings for characters that the font lacks and that are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        yield


def save(figure: Figure, stem: str | os.PathLike[str]) -> list[Path]:
    """Write a figure as PNG, PDF and SVG, reproducible to the byte, and return the paths."""
    stem = Path(stem)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in METADATA]
    for path, content in zip(paths, pictures(figure).values(), strict=True):
        with atomic_file(path) as file:
            file.write(content)
    return paths


def pictures(figure: Figure, suffixes: Iterable[str] | None = None) -> dict[str, bytes]:
    """Return the content of a figure in each format (default: PNG, PDF, SVG; also EPS), reproducible to the byte."""
    contents = {}
    with rc_context(STYLE), _boxes_for_missing_letters():
        for suffix in METADATA if suffixes is None else suffixes:
            file = io.BytesIO()
            if suffix == "eps":
                _make_opaque(figure)
            figure.savefig(file, format=suffix, metadata=METADATA.get(suffix, {}))
            # The creation date of PostScript cannot be omitted by metadata.
            contents[suffix] = (
                re.sub(rb"%%CreationDate: .*\n", b"", file.getvalue()) if suffix == "eps" else file.getvalue()
            )
    return contents
