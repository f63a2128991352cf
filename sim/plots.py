"""Figures of a run, in one look for screen and paper.

Figures are plain `Figure` objects: no window, no global state. Names that come from scenarios or data appear
letter by letter, whatever they contain.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import LineStyleType

from sim import analysis
from sim.adaptation import Adaptation
from sim.interfaces import FloatArray
from sim.labels import label_points, literal
from sim.rundir import RunDirectory, atomic_file

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
MOST_ROWS = 4
"""Of panels for what is swept, and of names above a panel."""
MOST_LETTERS = 20
_LETTER_IN, _ROW_IN = 0.05, 0.11
"""How much room a name above a panel takes, in inches."""
_MARK = "#777777"
_METADATA: dict[str, dict[str, Any]] = {
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


def tradeoff_figure(summary: pd.DataFrame) -> Figure:
    """Draw the adversary's error against the quality loss, a panel for each attack.

    Each LPPM is a line through its sweep points, sorted by loss, or a labelled dot when it has one point.
    Above the dashed line P_AE = Q-bar the adversary does worse than to believe the report. Expected figures
    are drawn where the summary has them.
    """
    shown = _shown(_with_series(summary)).dropna(subset=PAIR)
    if shown.empty:
        return _empty_figure("no attack in this run: there is no adversary error to draw")
    names, attacks = _series_looks(_with_series(summary)), list(dict.fromkeys(shown["attack"]))
    single = not shown.duplicated(["series", "attack"]).any()
    direct = single and len(names) <= 6 and len(attacks) <= 4 and max(map(len, names)) <= 14
    columns = len(attacks) if len(attacks) <= 3 else 2 if len(attacks) == 4 else 3
    rows = -(-len(attacks) // columns)
    side = 3.4 if columns == 1 else 2.7
    limits = _limits(shown, room=0.35 if direct else 0.18)
    share = 1.0 if direct else _height(shown, limits)
    with rc_context(STYLE):
        height = (side * share + 0.2) * rows + 0.45
        figure = _figure(side * columns + 0.4, height, {} if direct else names, _note(shown, "bars"), not single)
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for panel, attack in zip(panels.flat, attacks, strict=False):
            own = shown[shown["attack"] == attack].sort_values(["quality_loss_km", "point"])
            _tradeoff_panel(panel, own, names, limits, share)
            panel.set_title(_against(attack))
            if direct:
                within = (own[PAIR].to_numpy(float) - limits[0]) / (limits[1] - limits[0])
                colours = [names[name].colour for name in own["series"]]
                label_points(panel, within, own["series"].tolist(), colours)
        _label_outer(panels, len(attacks))
        return _settled(figure)


def _with_series(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the summary with a name for each curve: the LPPM and, where it is said, the circumstances."""
    said = summary["circumstances"] if "circumstances" in summary else pd.Series("", index=summary.index)
    names = [f"{lppm} ({text})" if text else lppm for lppm, text in zip(summary["lppm"], said, strict=True)]
    return summary.assign(series=names, circumstances=said)


def _series_looks(summary: pd.DataFrame) -> dict[str, Look]:
    """Return a look for each curve: colour and marker tell the LPPM, the line the circumstances."""
    of_lppm = looks(summary["lppm"])
    curves = summary.drop_duplicates("series")
    order = {text: i for i, text in enumerate(dict.fromkeys(curves["circumstances"]))}
    return {
        row["series"]: of_lppm[row["lppm"]]
        if len(order) == 1
        else replace(of_lppm[row["lppm"]], line=LINES[order[row["circumstances"]] % len(LINES)])
        for row in curves.to_dict("records")
    }


def over_time_figure(over_time: pd.DataFrame, *, title: str = "", shifts: pd.DataFrame | None = None) -> Figure:
    """Draw quality loss and adversary error by query index, a column for each attack.

    Bands are 95 % intervals over users. Of several sweep points each mechanism is drawn at the middle one of those it
    was run at. Expected figures are drawn where the table has them. Changes in users' lives, a table of
    `analysis.shifts`, are lines at the median of the users.
    """
    if over_time.empty:
        return _empty_figure("no query in this run: there is nothing to draw over time")
    chosen = _shown(over_time[over_time["point"] == over_time["lppm"].map(middle_points(over_time))])
    names, attacks = looks(over_time["lppm"]), list(dict.fromkeys(chosen["attack"]))
    labels = zip(PAIR, (QUALITY_LABEL, ERROR_LABEL), strict=True)
    measures = {measure: label for measure, label in labels if chosen[measure].notna().any()}
    width = _width(len(attacks))
    told = [] if shifts is None else _marks(shifts[shifts["point"].isin(set(chosen["point"]))])
    marks = _placed(told, (0.0, float(chosen["last_index"].max())), width / len(attacks) - 0.4)
    with rc_context(STYLE):
        height = 1.8 * len(measures) + 0.4 + _ROW_IN * _rows(marks)
        figure = _figure(width, height, names, _note(chosen, "bands"))
        panels = figure.subplots(len(measures), len(attacks), sharex=True, sharey="row", squeeze=False)
        for number, panel in enumerate(panels.flat):
            _draw_marks(panel, marks, labelled=number < len(attacks))
        for row, (measure, label) in zip(panels, measures.items(), strict=True):
            for panel, attack in zip(row, attacks, strict=True):
                _course(panel, chosen[chosen["attack"] == attack], measure, names)
            row[0].set_ylabel(label)
        for panel, attack in zip(panels[0], attacks, strict=True):
            panel.set_title(_against(attack), pad=6 + 72 * _ROW_IN * _rows(marks))
        for panel in panels[-1]:
            panel.set_xlabel("query index $r$")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        if title:
            figure.suptitle(literal(title, 100), fontsize=8.5)
        return _settled(figure)


def adaptation_figure(found: Adaptation, *, title: str = "") -> Figure:
    """Draw the efficiency against the queries since a shift, a column for each attack.

    Each mechanism is drawn at the middle one of its sweep points; what is swept outside of them, as the tables'
    column `circumstances` says, has a row for each value. A ring shows where all users together have recovered.
    Nothing is drawn within a window after the shift, which would hold queries of both sides.
    """
    course = found.course.dropna(subset="efficiency")
    if course.empty:
        return _empty_figure(f"nobody has {found.window} queries from the shift to the next change: ask for less")
    course, summary = (
        table.assign(circumstances=table.get("circumstances", pd.Series("", index=table.index)))
        for table in (course, found.summary)
    )
    names, attacks = looks(found.course["lppm"]), list(dict.fromkeys(course["attack"]))
    rows = list(dict.fromkeys(course["circumstances"]))
    rows = rows if len(rows) <= MOST_ROWS else [rows[(len(rows) - 1) // 2]]
    course = course[course["circumstances"].isin(rows)]
    width = _width(len(attacks))
    bands = "bands: 95 % intervals over users; " if course["efficiency_low"].notna().any() else ""
    with rc_context(STYLE):
        note = f"{bands}windows of the last {found.window} queries; rings: back at {100 * found.recovered:g} %"
        figure = _figure(width, 2.3 * len(rows) + 0.5, names, note)
        panels = figure.subplots(len(rows), len(attacks), sharex=True, sharey=True, squeeze=False)
        for line, text in zip(panels, rows, strict=True):
            own = course[course["circumstances"] == text]
            own = own[own["point"] == own["lppm"].map(middle_points(own))]
            for panel, attack in zip(line, attacks, strict=True):
                drawn = own[own["attack"] == attack]
                panel.axvline(0, color=_MARK, linewidth=0.9, zorder=1.5)
                _adaptation_panel(panel, drawn, names)
                _rings(panel, drawn, summary, names, found.recovered)
                panel.set_title(_against(attack) + (f", {literal(text)}" if text else ""))
            line[0].set_ylabel(EFFICIENCY_LABEL)
        shown = dict.fromkeys(course["shift"])
        what = f" ({literal(next(iter(shown)))})" if len(shown) == 1 else ""
        for panel in panels[-1]:
            panel.set_xlabel(f"queries after the shift{what}")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        panels[0, 0].set_ylim(_efficiency_limits(course))
        if title:
            figure.suptitle(literal(title, 100), fontsize=8.5)
        return _settled(figure)


def _adaptation_panel(panel: Axes, rows: pd.DataFrame, names: dict[str, Look]) -> None:
    for name, own in rows.groupby("lppm", sort=False):
        look = names[str(name)]
        for side in (own[own["queries_after"] <= 0], own[own["queries_after"] > 0]):
            at = side["queries_after"].to_numpy(float)
            mean, low, high = (side[f"efficiency{end}"].to_numpy(float) for end in ("", "_low", "_high"))
            every, band = max(1, len(own) // 6), 0.1 if len(names) <= 5 else 0.06
            _with_band(panel, at, mean, low, high, look, str(name), markevery=every, band=band, markersize=3)


def _rings(panel: Axes, rows: pd.DataFrame, summary: pd.DataFrame, names: dict[str, Look], recovered: float) -> None:
    """Show where the course of all users together is back, and, where there are few lines, the level for that."""
    keys = ["point", "lppm", "attack"]
    back = rows[keys].drop_duplicates().merge(summary, on=keys)
    for row in back.to_dict("records"):
        look = names[row["lppm"]]
        level = recovered * row["efficiency_before"]
        if len(back) <= 2:
            panel.axhline(level, color=look.colour, linestyle=(0, (1, 2)), linewidth=0.8, zorder=1.5)
        if not row["pooled_censored"]:
            own = rows[(rows["lppm"] == row["lppm"]) & (rows["queries_after"] == row["pooled_queries_to_recover"])]
            panel.plot(
                own["queries_after"],
                own["efficiency"],
                linestyle="",
                marker="o",
                markersize=7,
                markerfacecolor="none",
                markeredgecolor=look.colour,
                markeredgewidth=1.1,
                zorder=4,
            )


def _efficiency_limits(course: pd.DataFrame) -> tuple[float, float]:
    """Return the range of the axis; wide bands of a few users may leave the picture, the lines may not."""
    low, high = course["efficiency"].min(), course["efficiency"].max()
    room = max(high - low, 0.1 * high, 1e-9)
    ends = course[["efficiency_low", "efficiency_high"]].clip(low - 0.5 * room, high + 0.5 * room)
    low, high = np.nanmin([low, *ends["efficiency_low"]]), np.nanmax([high, *ends["efficiency_high"]])
    low = 0.0 if 0 <= low < 0.4 * high else low
    return float(low - 0.03 * (high - low)), float(high + 0.05 * (high - low))


def _width(attacks: int) -> float:
    return {1: 4.6, 2: 6.8, 3: 8.4}.get(attacks, 2.5 * attacks)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A change in users' lives, in a figure over queries."""

    name: str
    at: float
    low: float
    high: float
    ends: bool
    row: int | None = None
    """In which row above the panel its name stands, counted from the panel; None: nowhere."""
    left: bool = False
    """Whether the name stands to the left of the line."""


def _marks(shifts: pd.DataFrame) -> list[_Mark]:
    """Return the medians over users of where changes begin and end, and where nine in ten of them lie."""
    found = []
    for (name, event), own in shifts.groupby(["shift", "event"], sort=False):
        at, low, high = (float(own["index"].quantile(q)) for q in (0.5, 0.05, 0.95))
        found.append(_Mark(str(name), at, low, high, event == "shift_end"))
    return sorted(found, key=lambda mark: mark.at)


def _placed(marks: list[_Mark], span: tuple[float, float], width_in: float) -> list[_Mark]:
    """Give the names of the changes that begin rows above a panel, so that none covers another."""
    ends: list[float] = []
    placed = []
    for mark in marks:
        if mark.ends:
            placed.append(mark)
            continue
        start = (mark.at - span[0]) / (span[1] - span[0]) * width_in
        length = _LETTER_IN * (len(literal(mark.name, MOST_LETTERS)) + 1)
        left = start + length > width_in
        first, last = (start - length, start) if left else (start, start + length)
        row = next((row for row, end in enumerate(ends) if end <= first), len(ends))
        ends[row : row + 1] = [last]
        placed.append(replace(mark, row=row if row < MOST_ROWS else None, left=left))
    return placed


def _rows(marks: list[_Mark]) -> int:
    return max((mark.row + 1 for mark in marks if mark.row is not None), default=0)


def _draw_marks(panel: Axes, marks: list[_Mark], *, labelled: bool) -> None:
    for mark in marks:
        if mark.high > mark.low:
            panel.axvspan(mark.low, mark.high, color=_MARK, alpha=0.08, linewidth=0, zorder=0.5)
        style = {"linewidth": 0.7, "linestyle": (0, (4, 3)), "alpha": 0.6} if mark.ends else {"linewidth": 0.9}
        panel.axvline(mark.at, color=_MARK, zorder=1.5, **style)
        if labelled and mark.row is not None:
            panel.annotate(
                literal(mark.name, MOST_LETTERS),
                (mark.at, 1),
                xycoords=panel.get_xaxis_transform(),
                xytext=(-1 if mark.left else 1, 2 + 72 * _ROW_IN * mark.row),
                textcoords="offset points",
                horizontalalignment="right" if mark.left else "left",
                fontsize=6.5,
                color=_MARK,
            )


def save(figure: Figure, stem: str | os.PathLike[str]) -> list[Path]:
    """Write the figure as PNG, PDF and SVG; the same figure gives the same bytes."""
    stem = Path(stem)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in _METADATA]
    for path, content in zip(paths, pictures(figure).values(), strict=True):
        with atomic_file(path) as file:
            file.write(content)
    return paths


def pictures(figure: Figure, suffixes: Iterable[str] | None = None) -> dict[str, bytes]:
    """Return a figure in each form, or in some, the same bytes for the same figure."""
    found = {}
    with rc_context(STYLE), _boxes_for_missing_letters():
        for suffix in _METADATA if suffixes is None else suffixes:
            file = io.BytesIO()
            figure.savefig(file, format=suffix, metadata=_METADATA[suffix])
            found[suffix] = file.getvalue()
    return found


def write_figures(
    run: RunDirectory,
    *,
    summary: pd.DataFrame | None = None,
    over_time: pd.DataFrame | None = None,
    shifts: pd.DataFrame | None = None,
) -> list[Any]:
    """Write `figures/tradeoff.*` and `figures/over_time.*` of a run; tables not given are made from its log.

    Return where they are: paths, or run files where the run is under a URL.
    """
    points = run.read_csv("points.csv")
    summary = analysis.in_order(analysis.summarize(run) if summary is None else summary, run)
    summary = summary.assign(circumstances=analysis.circumstances(summary, points))
    over_time = analysis.named_apart(
        analysis.in_order(analysis.over_time(run) if over_time is None else over_time, run), points
    )
    shifts = analysis.shifts(run) if shifts is None else shifts
    return _written(
        run,
        {
            "tradeoff": tradeoff_figure(analysis.named_apart(summary, points)),
            "over_time": over_time_figure(over_time, title=_title(over_time, points), shifts=shifts),
        },
    )


def write_adaptation(run: RunDirectory, found: Adaptation) -> list[Any]:
    """Write `figures/adaptation.*` of a run; return where they are."""
    points = run.read_csv("points.csv")
    course, summary = (
        analysis.named_apart(table.assign(circumstances=analysis.circumstances(table, points)), points)
        for table in (analysis.in_order(table, run) for table in (found.course, found.summary))
    )
    title = "" if course["circumstances"].any() else _title(course, points)
    return _written(run, {"adaptation": adaptation_figure(replace(found, course=course, summary=summary), title=title)})


def _written(run: RunDirectory, figures: dict[str, Figure]) -> list[Any]:
    if run.in_folder:
        return [path for name, figure in figures.items() for path in save(figure, run.path / "figures" / name)]
    return [
        run.write_figure(f"{name}.{suffix}", content)
        for name, figure in figures.items()
        for suffix, content in pictures(figure).items()
    ]


def middle_points(frame: pd.DataFrame) -> dict[str, int]:
    """Return, for each LPPM, the one of its sweep points that stands for the others."""
    found = {str(lppm): sorted(own.unique()) for lppm, own in frame.groupby("lppm")["point"]}
    return {lppm: int(points[(len(points) - 1) // 2]) for lppm, points in found.items()}


def _title(frame: pd.DataFrame, points: pd.DataFrame) -> str:
    """Say which sweep point is drawn, if one stands for all mechanisms that the sweep touches."""
    if len(points) == 1 or frame.empty:
        return ""
    swept = frame[frame.groupby("lppm")["point"].transform("nunique") > 1]
    middle = set(middle_points(swept).values())
    if len(middle) != 1:
        return "each mechanism at the middle one of its sweep points"
    values = points[points["point"] == middle.pop()].to_dict("records")[0]
    short = analysis.headings([path for path in points.columns if path != "point"])
    return ", ".join(f"{name} = {analysis.plain(values[path])}" for path, name in short.items())


def _against(attack: str) -> str:
    return f"against {literal(attack)}" if attack else "no attack"


def _settled(figure: Figure) -> Figure:
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


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the expected figures and their intervals in the place of the realised."""
    ends = ("", "_low", "_high")
    return table.assign(**{name + end: analysis.preferred(table, name, end) for name in PAIR for end in ends})


def _limits(shown: pd.DataFrame, *, room: float) -> tuple[float, float]:
    """Return the range of both axes: from zero, or closer in when all points lie close together."""
    means = shown[PAIR].to_numpy(dtype=float)
    top = float(means.max()) or 1.0
    ends = [f"{name}_{end}" for name in PAIR for end in ("low", "high")]
    # Wide intervals of a few users may leave the picture; the points may not.
    reach = np.clip(shown[ends].to_numpy(dtype=float), 0.7 * means.min(), 1.3 * top)
    low, high = np.nanmin([means.min(), *reach.flat]), np.nanmax([top, *reach.flat])
    low = low - 0.1 * top if low > 0.5 * top else 0.0
    span = high - low
    return float(low - 0.03 * span), float(max(high + 0.05 * span, top + room * (top - low)))


def _height(shown: pd.DataFrame, limits: tuple[float, float]) -> float:
    """Return how much of the range the panels need upwards, at least half: losses may be far larger than errors."""
    top = float(shown["adversary_error_km"].max())
    reach = np.clip(shown["adversary_error_km_high"].to_numpy(dtype=float), 0, 1.3 * top)
    needed = (float(np.nanmax([top, *reach])) * 1.1 - limits[0]) / (limits[1] - limits[0])
    return float(np.clip(needed, 0.5, 1.0))


def _tradeoff_panel(
    panel: Axes, rows: pd.DataFrame, names: dict[str, Look], limits: tuple[float, float], share: float
) -> None:
    """Draw one attack: equal scales, from the lower limit, upwards only the share of the range that is needed."""
    panel.plot(limits, limits, linestyle="--", color="#777777", linewidth=0.9, zorder=1, label=DIAGONAL)
    end = limits[0] + (share - 0.06) * (limits[1] - limits[0])
    panel.text(
        end,
        end,
        DIAGONAL,
        color="#555555",
        fontsize=7.5,
        rotation=45,
        rotation_mode="anchor",
        horizontalalignment="right",
        verticalalignment="bottom",
    )
    for name, own in rows.groupby("series", sort=False):
        look = names[str(name)]
        loss, error = own["quality_loss_km"].to_numpy(float), own["adversary_error_km"].to_numpy(float)
        panel.errorbar(
            loss,
            error,
            xerr=_bars(own, "quality_loss_km"),
            yerr=_bars(own, "adversary_error_km"),
            fmt="none",
            ecolor=look.colour,
            alpha=0.35,
            elinewidth=0.9,
            zorder=2,
        )
        panel.plot(loss, error, color=look.colour, marker=look.marker, linestyle=look.line, label=str(name), zorder=3)
    panel.set_xlim(limits)
    panel.set_ylim(limits[0], limits[0] + share * (limits[1] - limits[0]))
    panel.set_box_aspect(share)


def _bars(rows: pd.DataFrame, name: str) -> FloatArray:
    mean = rows[name].to_numpy(dtype=float)
    low = rows[f"{name}_low"].to_numpy(dtype=float)
    high = rows[f"{name}_high"].to_numpy(dtype=float)
    return np.nan_to_num(np.maximum([mean - low, high - mean], 0.0))


def _label_outer(panels: np.ndarray[Any, Any], count: int) -> None:
    """Hide the panels beyond `count` and label the outer ones of the rest."""
    columns = panels.shape[1]
    for i, panel in enumerate(panels.flat):
        panel.set_visible(i < count)
        if i + columns >= count:
            panel.set_xlabel(QUALITY_LABEL)
            panel.tick_params(labelbottom=True)
        if i % columns == 0:
            panel.set_ylabel(ERROR_LABEL)


def _course(panel: Axes, rows: pd.DataFrame, measure: str, names: dict[str, Look]) -> None:
    for name, own in rows.dropna(subset=[measure]).groupby("lppm", sort=False):
        look = names[str(name)]
        at = (own["first_index"] + own["last_index"]).to_numpy(float) / 2
        mean, low, high = (own[measure + end].to_numpy(float) for end in ("", "_low", "_high"))
        _with_band(panel, at, mean, low, high, look, str(name), markevery=max(1, len(at) // 6), band=0.13)
    if not rows.empty and rows[measure].min() < 0.4 * rows[measure].max():
        panel.set_ylim(bottom=0)


def _with_band(
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


def _figure(width: float, height: float, names: dict[str, Look], note: str, lines: bool = True) -> Figure:
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


def _note(rows: pd.DataFrame, what: str) -> str:
    """Say what bars or bands are, if there are any."""
    units = "replications" if (rows["users"] == 1).all() else "users"
    return f"{what}: 95 % intervals over {units}" if rows["quality_loss_km_low"].notna().any() else ""


def _empty_figure(message: str) -> Figure:
    with rc_context(STYLE):
        figure = Figure(figsize=(4.6, 1.2), layout="constrained")
        figure.text(0.5, 0.5, message, ha="center", va="center", color=INK)
    return figure
