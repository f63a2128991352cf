"""Map of one user's true cells, reports and the adversary's estimates."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sim.analysis.trajectories import UserTrace
from sim.plots import style
from sim.plots.base_map import BaseMap, Section
from sim.plots.labels import literal, printable
from sim.plots.style import COLOURS, INK, STYLE

_TRUTH, _REPORT = INK, COLOURS[0]
_GUESS_COLOURS = tuple(COLOURS[i] for i in (1, 2, 4, 5, 3))
_GUESS_MARKERS: tuple[Any, ...] = ("x", "^", "D", "+", [(-1, -1), (1, -1), (-1, 1), (1, 1), (-1, -1)])
"""The same markers as in the HTML report; the last one is an hourglass."""
_SMALLEST_MARK_PT = 4.5
"""Smallest size of the cell by which symbols are scaled, in points: symbols of smaller cells would be invisible."""
_LETTER_IN = 0.058
"""Width of a letter of a panel title, in inches."""


@dataclass(frozen=True, slots=True)
class Guesses:
    """Attack whose estimates are drawn."""

    attack: str
    """Name of the attack; empty if there is none."""
    place: int = 0
    """Position among the attacks of the run, which determines colour and marker as in the report."""

    @property
    def look(self) -> tuple[str, Any]:
        """Colour and marker of the estimates."""
        place, kinds = self.place, len(_GUESS_COLOURS)
        return _GUESS_COLOURS[(place + place // kinds) % kinds], _GUESS_MARKERS[place % kinds]


def map_figure(
    traces: Mapping[str, UserTrace],
    world: BaseMap,
    *,
    user: str,
    guesses: Guesses,
    note: str = "",
    title: str = "",
    width: float,
) -> Figure:
    """Draw one user's true trace, the reports and the estimates, with one panel per LPPM.

    The area of a symbol grows with the number of queries. A reported region is drawn at its centre, a set of cells at
    each of its cells. The last recorded belief of an LPPM is drawn as a heat map in the background.
    """
    believed = [float(trace.belief.max()) for trace in traces.values() if trace.belief is not None]
    most = max((int(trace.queries["cell"].value_counts().max()) for trace in traces.values()), default=1)
    handles = _handles(traces, guesses)
    beside = style.beside(handles, width)
    section = Section.around(world, traces)
    caption = style.wrapped("; ".join(filter(None, [f"user {literal(user)}", note, section.note(world)])), width)
    slender = section.height_km / section.width_km
    beyond = 0.94 + 0.16 * -(-len(handles) // beside) + (0.45 if believed else 0) + (0.2 if title else 0)
    columns, panel_in = _arranged(len(traces), slender, width, _highest_in(width) - beyond)
    rows = -(-len(traces) // columns)
    titles = [_title(name, panel_in + 0.06) for name in traces]
    lines = 1 + max(text.count("\n") for text in titles)
    with rc_context(STYLE | {"axes.grid": False}):
        height = (panel_in * slender + 0.14 + 0.12 * lines) * rows + beyond - 0.25
        figure = Figure(figsize=(width, height), layout="constrained")
        panels = style.grid(figure, [""], list(traces), columns)
        for number, (name, trace) in enumerate(traces.items()):
            panel = panels["", name]
            world.draw(panel, section, panel_in)
            if trace.belief is not None:
                heat = world.draw_belief(panel, trace.belief, max(believed))
            mark_pt = float(np.clip(section.cell_pt(world, panel_in), _SMALLEST_MARK_PT, 14.0))
            _symbols(panel, world, trace.queries, mark_pt, most, guesses)
            panel.set_title(titles[number], fontsize=7)
            last = number + columns >= len(traces)
            panel.tick_params(labelbottom=last)
            if last:
                panel.set_xlabel("km east")
            if number % columns == 0:
                panel.set_ylabel("km north")
        if believed:
            _heat_bar(figure, heat, list(panels.values()), traces)
        figure.legend(
            handles.values(), list(handles), loc="outside lower center", ncols=beside, title=caption, **style.CLOSE
        )
        if title:
            figure.suptitle(literal(title, 100), fontsize=8.5)
        return style.settled(figure, compress=True)


def _heat_bar(figure: Figure, heat: Any, panels: list[Axes], traces: Mapping[str, UserTrace]) -> None:
    at = {trace.believed_at for trace in traces.values() if trace.believed_at is not None}
    bar = figure.colorbar(heat, ax=panels, location="bottom", aspect=45, fraction=0.04, shrink=0.8, pad=0.03)
    before = f" before query {at.pop()}" if len(at) == 1 else " at the last snapshot"
    bar.set_label(f"belief{before}", fontsize=7.5)
    bar.outline.set_linewidth(0.4)
    bar.locator = MaxNLocator(4)


def _highest_in(width: float) -> float:
    """Return the maximum height of a figure of this width, in inches, which leaves room for text on a page."""
    return float(np.interp(width, [3.5, 7.16], [5.0, 7.0]))


def _arranged(count: int, slender: float, width: float, height: float) -> tuple[int, float]:
    """Return the number of columns and the width of each map, in inches, that give the largest maps.

    >>> [_arranged(4, slender, 3.5, 4.0)[0] for slender in (1.0, 2.5)]
    [2, 4]
    """
    candidates = []
    for columns in range(1, count + 1):
        rows = -(-count // columns)
        if -(-count // rows) == columns:
            candidates.append((min((width - 0.45) / columns - 0.08, (height / rows - 0.3) / slender), columns))
    size, columns = max(candidates)
    return columns, max(size, 0.3)


def _title(name: str, room_in: float) -> str:
    """Return a name in up to three lines, shortened if it does not fit."""
    letters = max(6, int(room_in / _LETTER_IN))
    lines = textwrap.wrap(printable(name), letters, break_long_words=False) or [""]
    lines = [*lines[:2], " ".join(lines[2:])] if len(lines) > 3 else lines
    return "\n".join(literal(line, letters) for line in lines)


def _symbols(panel: Axes, world: BaseMap, queries: pd.DataFrame, cell_pt: float, most: int, guesses: Guesses) -> None:
    """Draw the path through the true cells, and a symbol per cell for true cells, reports and estimates."""
    way = world.centres_km(queries["cell"])
    panel.plot(way[:, 0], way[:, 1], color=_TRUTH, linewidth=0.5, alpha=0.35, zorder=1)
    guess_colour, guess_marker = guesses.look
    for column, marker, colour, size, least, order in (
        ("shown", "s", _REPORT, 1.0, 1.0, 2.0),
        ("cell", "o", _TRUTH, 0.75, 1.0, 2.1),
        ("estimate", guess_marker, guess_colour, 0.7, 2.4, 2.2),
    ):
        counts = queries[column].explode().dropna().astype(int).value_counts()
        if counts.empty:
            continue
        x, y = world.centres_km(counts.index.to_series()).T
        share = np.sqrt(np.minimum(counts.to_numpy(float) / most, 1.0))
        area = np.maximum(cell_pt * size * np.maximum(share, 0.25), least) ** 2
        if column == "cell":
            panel.scatter(x, y, s=area, marker=marker, color=colour, lw=0, zorder=order)
        elif marker in ("x", "+"):
            panel.scatter(x, y, s=area, marker=marker, color=colour, lw=0.7, zorder=order)
        else:
            panel.scatter(x, y, s=area, marker=marker, facecolors="none", edgecolors=colour, lw=0.7, zorder=order)


def _handles(traces: Mapping[str, UserTrace], guesses: Guesses) -> dict[str, Line2D]:
    line: dict[str, Any] = {"linestyle": "", "markersize": 5}
    handles = {
        "true": Line2D([], [], marker="o", color=_TRUTH, markeredgewidth=0, **line),
        "reported": Line2D([], [], marker="s", color=_REPORT, markerfacecolor="none", markeredgewidth=0.8, **line),
    }
    if any(trace.queries["estimate"].notna().any() for trace in traces.values()):
        colour, marker = guesses.look
        handles[f"estimate of {literal(guesses.attack, 24)}"] = Line2D(
            [], [], marker=marker, color=colour, markerfacecolor="none", markeredgewidth=1.0, **line
        )
    return handles
