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
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sim.analysis.trajectories import UserTrace
from sim.interfaces import FloatArray
from sim.plots import style
from sim.plots.labels import literal, printable
from sim.plots.style import COLOURS, INK, STYLE
from sim.storage.errors import RequestError
from sim.storage.manifest import RecordedWorld

_HEAT = LinearSegmentedColormap.from_list("heat", ["#ffffff", COLOURS[3]])
_ROAD, _CELL = "#c4c4c4", "#ececec"
_TRUTH, _REPORT = INK, COLOURS[0]
_GUESS_COLOURS = tuple(COLOURS[i] for i in (1, 2, 4, 5, 3))
_GUESS_MARKERS: tuple[Any, ...] = ("x", "^", "D", "+", [(-1, -1), (1, -1), (-1, 1), (1, 1), (-1, -1)])
"""The same markers as in the HTML report; the last one is an hourglass."""
_MOST_QUADS = 4_000
"""Number of cells above which a belief is drawn as an image instead of polygons in vector formats."""
_LEAST_CELLS = 30
"""Smallest number of rows and columns of cells in a section of a map."""
_SMALLEST_CELL_PT = 2.0
"""Size of a cell, in points, below which no borders of cells are drawn."""
_SMALLEST_MARK_PT = 4.5
"""Smallest size of the cell by which symbols are scaled, in points: symbols of smaller cells would be invisible."""
_LETTER_IN = 0.058
"""Width of a letter of a panel title, in inches."""


@dataclass(frozen=True, slots=True)
class BaseMap:
    """Grid and roads, in km east and north of the south-west corner."""

    rows: int
    cols: int
    width_km: float
    height_km: float
    roads_km: FloatArray
    """Both ends of each road, shape (n_roads, 2, 2)."""

    @classmethod
    def of(cls, world: RecordedWorld) -> BaseMap:
        """Read a world of a manifest."""
        grid, roads = world.grid, world.roads or {}
        if grid is None:
            raise RequestError("the figure map shows the cells of grids only", code="needs-grid")
        ends = np.zeros((0, 2, 2))
        if roads:
            nodes = np.column_stack([roads["x_m"], roads["y_m"]]) / 1000
            ends = nodes[np.column_stack([roads["edge_from"], roads["edge_to"]])]
        return cls(grid["rows"], grid["cols"], grid["width_km"], grid["height_km"], ends)

    def centres_km(self, cells: pd.Series[Any]) -> FloatArray:
        """Return the centres of cells, shape (n, 2)."""
        row, col = np.divmod(cells.to_numpy(np.int64), self.cols)
        return np.column_stack([(col + 0.5) * self.width_km / self.cols, (row + 0.5) * self.height_km / self.rows])


@dataclass(frozen=True, slots=True)
class Section:
    """Drawn section of a map: ranges in km east and north of the south-west corner."""

    east: tuple[float, float]
    north: tuple[float, float]

    @classmethod
    def around(cls, world: BaseMap, traces: Mapping[str, UserTrace]) -> Section:
        """Return the whole map or, if it has very many cells, the section with all cells of the traces."""
        whole = cls((0.0, world.width_km), (0.0, world.height_km))
        if world.rows * world.cols <= _MOST_QUADS:
            return whole
        columns = [trace.queries[name].explode() for trace in traces.values() for name in ("cell", "shown", "estimate")]
        cells = pd.concat(columns).dropna().astype(int)
        ranges = []
        for at, size_km, km in zip(
            world.centres_km(cells).T,
            (world.width_km, world.height_km),
            (world.width_km / world.cols, world.height_km / world.rows),
            strict=True,
        ):
            half = max(0.6 * float(at.max() - at.min()), _LEAST_CELLS * km / 2)
            middle = float(np.clip((at.max() + at.min()) / 2, half, max(size_km - half, half)))
            ranges.append((max(middle - half, 0.0), min(middle + half, size_km)))
        return cls(*ranges)

    @property
    def width_km(self) -> float:
        """Width in km."""
        return self.east[1] - self.east[0]

    @property
    def height_km(self) -> float:
        """Height in km."""
        return self.north[1] - self.north[0]

    def note(self, world: BaseMap) -> str:
        """Return a note if the section is not the whole map."""
        if (self.width_km, self.height_km) == (world.width_km, world.height_km):
            return ""
        size, whole = (f"{one.width_km:.3g} × {one.height_km:.3g} km" for one in (self, world))
        return f"section of {size} of the map of {whole}"


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
            columns_in_section = section.width_km / world.width_km * world.cols
            cell_pt = panel_in * 72 / columns_in_section
            _base(panel, world, section, panel_in, with_cells=cell_pt >= _SMALLEST_CELL_PT)
            if trace.belief is not None:
                heat = _heat(panel, world, trace.belief, max(believed))
            _symbols(panel, world, trace.queries, float(np.clip(cell_pt, _SMALLEST_MARK_PT, 14.0)), most, guesses)
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


def _heat(panel: Axes, world: BaseMap, belief: FloatArray, most: float) -> Any:
    """Draw a belief with the colour scale shared by all panels."""
    return panel.pcolormesh(
        np.linspace(0, world.width_km, world.cols + 1),
        np.linspace(0, world.height_km, world.rows + 1),
        belief.reshape(world.rows, world.cols),
        cmap=_HEAT,
        norm=PowerNorm(0.5, 0, most),  # keeps small probabilities visible
        zorder=0.2,
        rasterized=belief.size > _MOST_QUADS,
    )


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


def _base(panel: Axes, world: BaseMap, section: Section, panel_in: float, *, with_cells: bool) -> None:
    x, y = np.linspace(0, world.width_km, world.cols + 1), np.linspace(0, world.height_km, world.rows + 1)
    if with_cells:
        cells = [[(at, 0.0), (at, world.height_km)] for at in x] + [[(0.0, at), (world.width_km, at)] for at in y]
        panel.add_collection(LineCollection(cells, colors=_CELL, linewidths=0.3, zorder=0.4))
    panel.add_collection(LineCollection(list(world.roads_km), colors=_ROAD, linewidths=0.4, zorder=0.6))
    panel.set_xlim(*section.east)
    panel.set_ylim(*section.north)
    slender = section.height_km / section.width_km
    panel.set_box_aspect(slender)
    for axis, size_in, size_km in (
        (panel.xaxis, panel_in, section.width_km),
        (panel.yaxis, panel_in * slender, section.height_km),
    ):
        axis.set_major_locator(MaxNLocator(nbins=4 if size_in > 0.8 else 2, integer=size_km > 3))


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
