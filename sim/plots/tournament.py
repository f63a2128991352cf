"""Standings of all mechanisms against all attacks, as a table shaded by the adversary error."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sim.analysis.tournament import STANDINGS
from sim.plots import style
from sim.plots.labels import literal
from sim.plots.style import COLOURS, ERROR_LABEL, INK, STYLE
from sim.storage.errors import RequestError

SHADES = LinearSegmentedColormap.from_list("error", ["#ffffff", COLOURS[0]])
_ROW_IN, _HEAD_IN = 0.19, 0.95
_COLUMN_IN = 0.31
_LONGEST = 24
_SIZE = 6.5
_DARK = 0.6
_BESIDE_PT = 14
"""Distance of the centre of the losses from the cells, in points."""


def tournament_figure(standings: pd.DataFrame, *, title: str = "", width: float | None = None) -> Figure:
    """Draw a table of `tournament.standings`: one row per mechanism, best first, one column per attack.

    The quality loss is on the left. A frame marks the strongest attack on each mechanism.
    """
    attacks = list(standings.columns.drop(STANDINGS))
    names = list(standings["lppm"])
    errors = standings[attacks].to_numpy(float)
    rows, columns = errors.shape
    longest = max(map(len, names))
    names_in = 0.9 + 0.07 * min(longest, _LONGEST)
    width = width or names_in + 0.48 * columns
    least_in = names_in + _COLUMN_IN * columns
    if width < least_in:
        raise RequestError(
            f"width too small: a table of {columns} attacks needs at least {least_in:.1f} in, got {width:g}; increase "
            "--width or select attacks with --attack",
            code="width-too-small",
        )
    note = f"cells: {ERROR_LABEL}; framed: strongest attack on the mechanism, which determines the rank"
    if standings["rank"].isna().any():
        note += "; below the line: unranked mechanisms, which do not attain the loss or lack an attack"
    with rc_context(STYLE | {"axes.grid": False}):
        height = _ROW_IN * rows + _HEAD_IN
        figure = style.with_legend(width, height, {}, note, title=title)
        panel = figure.subplots()
        top = float(np.nanmax(errors, initial=0.0)) or 1.0
        panel.imshow(np.ma.masked_invalid(errors), cmap=SHADES, vmin=0.0, vmax=top, aspect="auto")
        for row in range(rows):
            _beside(panel, row, f"{standings['quality_loss_km'].iloc[row]:.2f}")
            for column in range(columns):
                error = errors[row, column]
                number = "–" if np.isnan(error) else f"{error:.2f}"
                colour = "white" if error / top > _DARK else INK
                panel.text(column, row, number, ha="center", va="center", fontsize=_SIZE, color=colour)
            framed = attacks.index(standings["strongest"].iloc[row])
            panel.add_patch(_frame(framed, row))
        ranked = int(standings["rank"].notna().sum())
        if 0 < ranked < rows:
            panel.axhline(ranked - 0.5, color=INK, linewidth=0.8)
        _beside(panel, -1, r"$\bar{Q}$")
        panel.set_xticks(range(columns), [literal(name, _LONGEST) for name in attacks], rotation=45, ha="left")
        panel.set_yticks(range(rows), [literal(name, _LONGEST) for name in names])
        panel.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
        panel.tick_params(axis="x", pad=-1)
        panel.tick_params(axis="y", pad=_BESIDE_PT * 2)
        panel.spines[:].set_visible(False)
        panel.set_xlim(-0.5, columns - 0.5)
        return style.settled(figure)


def _beside(panel: Axes, row: int, text: str) -> None:
    at = {"xytext": (-_BESIDE_PT, 0), "textcoords": "offset points", "annotation_clip": False}
    panel.annotate(text, (-0.5, row), ha="center", va="center", fontsize=_SIZE, color=INK, **at)  # type: ignore[arg-type]


def _frame(column: int, row: int) -> Rectangle:
    return Rectangle((column - 0.46, row - 0.42), 0.92, 0.84, fill=False, edgecolor=INK, linewidth=0.8)
