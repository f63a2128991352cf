"""The one look of all figures: sizes, colours, labels of axes, the legend, and how a figure becomes a file."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.typing import LineStyleType

from sim import analysis
from sim.interfaces import FloatArray
from sim.plots.labels import literal
from sim.rundir import atomic_file

INK = "#333333"
STYLE: dict[Any, Any] = {
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
# Okabe and Ito's colours without yellow, which a white page swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
LINES: tuple[LineStyleType, ...] = ("-", "--", ":", "-.")

QUALITY_LABEL = r"quality loss $\bar{Q}$ [km]"
ERROR_LABEL = r"adversary error $P_{AE}$ [km]"
EFFICIENCY_LABEL = r"efficiency $P_{AE}\,/\,\bar{Q}$"
PAIR = ["quality_loss_km", "adversary_error_km"]
DIAGONAL = r"$P_{AE} = \bar{Q}$"
MARK = "#777777"
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}


@dataclass(frozen=True, slots=True)
class Look:
    """How one LPPM is drawn, in every figure of a run."""

    colour: str
    marker: str
    line: LineStyleType


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for each name in order of appearance; no two of the first seventy are alike.

    >>> looks(["SP", "PEB", "SP"])["PEB"]
    Look(colour='#D55E00', marker='s', line='-')
    """
    return {
        name: Look(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], LINES[i // len(COLOURS) % len(LINES)])
        for i, name in enumerate(dict.fromkeys(names))
    }


def preferred_figures(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the expected figures and their intervals in the place of the realised."""
    ends = ("", "_low", "_high")
    return table.assign(**{name + end: analysis.preferred(table, name, end) for name in PAIR for end in ends})


def against(attack: str) -> str:
    """Return the title of an attack's panel."""
    return f"against {literal(attack)}" if attack else "no attack"


def usual_width(attacks: int) -> float:
    """Return the width of a figure on a screen, in inches."""
    return {1: 4.6, 2: 6.8, 3: 8.4}.get(attacks, 2.5 * attacks)


def with_legend(width: float, height: float, names: dict[str, Look], note: str, lines: bool = True) -> Figure:
    """Return a figure of this size, in inches, and a legend below it, in as many columns as fit."""
    shown = [literal(name) for name in names]
    columns = max(1, min(len(shown), int(14 * width / (max(map(len, shown), default=1) + 6))))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(width, height + 0.16 * rows + (0.2 if note else 0.05)), layout="constrained")
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.line if lines else "")
        for look in names.values()
    ]
    numbers = [str(i) for i in range(len(shown))]
    legend = figure.legend(handles, numbers, loc="outside lower center", ncols=columns, title=note or None)
    # Set afterwards: a label that starts with an underscore would be taken for a hidden one.
    for text, name in zip(legend.get_texts(), shown, strict=True):
        text.set_text(name)
    return figure


def note_on(rows: pd.DataFrame, what: str) -> str:
    """Say what bars or bands are, if there are any."""
    units = "replications" if (rows["users"] == 1).all() else "users"
    return f"{what}: 95 % intervals over {units}" if rows["quality_loss_km_low"].notna().any() else ""


def empty_figure(message: str) -> Figure:
    """Return a figure that says why there is nothing to see."""
    with rc_context(STYLE):
        figure = Figure(figsize=(4.6, 1.2), layout="constrained")
        figure.text(0.5, 0.5, message, ha="center", va="center", color=INK)
    return figure


def with_band(
    panel: Axes,
    at: FloatArray,
    mean: FloatArray,
    low: FloatArray,
    high: FloatArray,
    look: Look,
    label: str,
    *,
    markevery: int,
    band: float,
    **marker: float,
) -> None:
    """Draw a course and its interval, as opaque as `band` says."""
    line = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "label": label}
    panel.plot(at, mean, markevery=markevery, **line, **marker)  # type: ignore[arg-type]
    panel.fill_between(at, low, high, color=look.colour, alpha=band, linewidth=0)


def settled(figure: Figure) -> Figure:
    """Return the figure with its layout done and fixed: square panels need a second pass to find their place."""
    layout = ConstrainedLayoutEngine()
    with _boxes_for_missing_letters():
        layout.execute(figure)
        layout.execute(figure)
    figure.set_layout_engine("none")
    return figure


@contextmanager
def _boxes_for_missing_letters() -> Iterator[None]:
    """Let a letter that the font lacks be drawn as a box, without a warning for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        yield


def save(figure: Figure, stem: str | os.PathLike[str]) -> list[Path]:
    """Write the figure as PNG, PDF and SVG; the same figure gives the same bytes."""
    stem = Path(stem)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in METADATA]
    for path, content in zip(paths, pictures(figure).values(), strict=True):
        with atomic_file(path) as file:
            file.write(content)
    return paths


def pictures(figure: Figure, suffixes: Iterable[str] | None = None) -> dict[str, bytes]:
    """Return a figure in each form, or in some, the same bytes for the same figure."""
    found = {}
    with rc_context(STYLE), _boxes_for_missing_letters():
        for suffix in METADATA if suffixes is None else suffixes:
            file = io.BytesIO()
            figure.savefig(file, format=suffix, metadata=METADATA[suffix])
            found[suffix] = file.getvalue()
    return found
