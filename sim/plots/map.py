"""Where one user was, what was reported of her and what an adversary made of it, on the map."""

from __future__ import annotations

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

from sim.courses import UserTrace
from sim.interfaces import FloatArray
from sim.plots import style
from sim.plots.labels import literal
from sim.plots.style import COLOURS, INK, STYLE

_HEAT = LinearSegmentedColormap.from_list("heat", ["#ffffff", "#f7d9a8", "#e9a84f"])
_HIGHEST_IN = 7.5
"""For panels of maps: below a page's height."""
_ROAD, _CELL = "#c4c4c4", "#ececec"
_TRUTH, _REPORT, _ESTIMATE = INK, COLOURS[0], COLOURS[1]


@dataclass(frozen=True, slots=True)
class BaseMap:
    """The cells, and the roads if there are any; km east and north of the south-west corner."""

    rows: int
    cols: int
    width_km: float
    height_km: float
    roads_km: FloatArray
    """Both ends of each road, shape (n_roads, 2, 2)."""

    @classmethod
    def of(cls, world: Mapping[str, Any]) -> BaseMap:
        """Read a world of a manifest."""
        grid, roads = world["grid"], world.get("roads") or {}
        ends = np.zeros((0, 2, 2))
        if roads:
            nodes = np.column_stack([roads["x_m"], roads["y_m"]]) / 1000
            ends = nodes[np.column_stack([roads["edge_from"], roads["edge_to"]])]
        return cls(grid["rows"], grid["cols"], grid["width_km"], grid["height_km"], ends)

    def centres_km(self, cells: pd.Series[Any]) -> FloatArray:
        """Return the centres of cells, shape (n, 2)."""
        row, col = np.divmod(cells.to_numpy(np.int64), self.cols)
        return np.column_stack([(col + 0.5) * self.width_km / self.cols, (row + 0.5) * self.height_km / self.rows])


def map_figure(
    traces: Mapping[str, UserTrace], world: BaseMap, *, user: str, attack: str, title: str = "", width: float
) -> Figure:
    """Draw one user's true trace, the reports and the estimates, a panel for each LPPM.

    The larger a symbol, the more queries. What an LPPM believed last is a heat map below.
    """
    slender = world.height_km / world.width_km
    columns = style.columns(width, len(traces), least_in=1.6 if slender < 1.4 else 1.1)
    rows = -(-len(traces) // columns)
    even = -(-len(traces) // rows)
    if rows * slender * _panel_in(width, even) <= _HIGHEST_IN:
        columns = even
    panel_in = _panel_in(width, columns)
    believed = [float(trace.belief.max()) for trace in traces.values() if trace.belief is not None]
    most = max((int(trace.queries["cell"].value_counts().max()) for trace in traces.values()), default=1)
    with rc_context(STYLE | {"axes.grid": False}):
        height = (panel_in * slender + 0.25) * rows + 0.35 + (0.5 if believed else 0)
        said = f"user {literal(user)}" + (f", against {literal(attack)}" if attack else "")
        figure = Figure(figsize=(width, height + 0.38), layout="constrained")
        panels = style.grid(figure, [""], list(traces), columns)
        for number, (name, trace) in enumerate(traces.items()):
            panel = panels["", name]
            _base(panel, world)
            if trace.belief is not None:
                heat = panel.pcolormesh(
                    np.linspace(0, world.width_km, world.cols + 1),
                    np.linspace(0, world.height_km, world.rows + 1),
                    trace.belief.reshape(world.rows, world.cols),
                    cmap=_HEAT,
                    norm=PowerNorm(0.5, 0, max(believed)),  # small shares are to be seen too
                    zorder=0.2,
                )
            _symbols(panel, world, trace.queries, min(panel_in * 72 / world.cols, 14.0), most)
            panel.set_title(literal(name, max(6, int(panel_in / 0.06))), fontsize=7.5)
            last = number + columns >= len(traces)
            panel.tick_params(labelbottom=last)
            if last:
                panel.set_xlabel("km east")
            if number % columns == 0:
                panel.set_ylabel("km north")
        if believed:
            at = sorted({trace.believed_at for trace in traces.values() if trace.believed_at is not None})
            bar = figure.colorbar(
                heat, ax=list(panels.values()), location="bottom", aspect=45, fraction=0.04, shrink=0.8, pad=0.02
            )
            before = f" before query {at[-1]}" if len(at) == 1 else " at the last snapshot"
            bar.set_label(f"believed probability of a cell{before}", fontsize=7.5)
            bar.outline.set_linewidth(0.4)
            bar.locator = MaxNLocator(4)
        handles = _handles(traces)
        legend = figure.legend(
            handles.values(), list(handles), loc="outside lower center", ncols=len(handles), title=said
        )
        legend.get_title().set_text(said)
        if title:
            figure.suptitle(literal(title, 100), fontsize=8.5)
        return style.settled(figure)


def _panel_in(width: float, columns: int) -> float:
    """Return how wide each of so many maps beside one another is, in inches."""
    return (width - 0.45) / columns - 0.08


def _base(panel: Axes, world: BaseMap) -> None:
    x, y = np.linspace(0, world.width_km, world.cols + 1), np.linspace(0, world.height_km, world.rows + 1)
    cells = [[(at, 0.0), (at, world.height_km)] for at in x] + [[(0.0, at), (world.width_km, at)] for at in y]
    panel.add_collection(LineCollection(cells, colors=_CELL, linewidths=0.3, zorder=0.4))
    panel.add_collection(LineCollection(list(world.roads_km), colors=_ROAD, linewidths=0.4, zorder=0.6))
    panel.set_xlim(0, world.width_km)
    panel.set_ylim(0, world.height_km)
    panel.set_box_aspect(world.height_km / world.width_km)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, integer=True))


def _symbols(panel: Axes, world: BaseMap, queries: pd.DataFrame, cell_pt: float, most: int) -> None:
    """Draw the way from truth to truth, and a symbol in each cell for what was there how often."""
    way = world.centres_km(queries["cell"])
    panel.plot(way[:, 0], way[:, 1], color=_TRUTH, linewidth=0.5, alpha=0.35, zorder=1)
    for column, marker, colour, size, order in (
        ("output", "s", _REPORT, 1.0, 2.0),
        ("cell", "o", _TRUTH, 0.75, 2.1),
        ("estimate", "x", _ESTIMATE, 0.7, 2.2),
    ):
        counts = queries[column].dropna().astype(int).value_counts()
        if counts.empty:
            continue
        x, y = world.centres_km(counts.index.to_series()).T
        share = np.sqrt(np.minimum(counts.to_numpy(float) / most, 1.0))
        area = np.maximum(cell_pt * size * np.maximum(share, 0.25), 2.4 if marker == "x" else 1.0) ** 2
        if marker == "s":
            panel.scatter(x, y, s=area, marker=marker, facecolors="none", edgecolors=colour, lw=0.7, zorder=order)
        else:
            panel.scatter(x, y, s=area, marker=marker, color=colour, lw=0.7 if marker == "x" else 0, zorder=order)


def _handles(traces: Mapping[str, UserTrace]) -> dict[str, Line2D]:
    line: dict[str, Any] = {"linestyle": "", "markersize": 5}
    found = {
        "true": Line2D([], [], marker="o", color=_TRUTH, markeredgewidth=0, **line),
        "reported": Line2D([], [], marker="s", color=_REPORT, markerfacecolor="none", markeredgewidth=0.8, **line),
    }
    if any(trace.queries["estimate"].notna().any() for trace in traces.values()):
        found["estimated"] = Line2D([], [], marker="x", color=_ESTIMATE, markeredgewidth=1.0, **line)
    return found
