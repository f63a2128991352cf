"""The 22 panels of the paper's evaluation: their series, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.analysis.curves import loss_curves
from sim.paper.studies import Study
from sim.plots import COLOURS, DIAGONAL, ERROR_LABEL, INK, QUALITY_LABEL, STYLE

AT_KM = np.round(np.arange(0, 41) / 10, 1)
"""Quality losses in km at which curves are evaluated."""

COLUMNS = ["series", "quality_loss_km", "users", "mean_km", "min_km", "max_km"]
BASES = {"exp": "Exp", "lh": "LH"}
NAMES = {"brightkite": "Brightkite", "gowalla": "Gowalla", "taxicab": "TaxiCab"}
LABELS = {
    "sp-scarce": "SP, scarce training",
    "sp-rich": "SP, rich training",
    "mk-scarce": "MK, scarce training",
    "mk-rich": "MK, rich training",
    "mk-other-scarce": "MK, 1 day of another cab",
    "mk-other-rich": "MK, 7 days of another cab",
    "peb-first": "PEB, first half",
    "peb-last": "PEB, last half",
}


_CAPTION = "lines: means over users; bands: minimum to maximum\ndotted: not all users reach this loss"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of a figure of the paper: a data set and a base mechanism."""

    figure: str
    letter: str
    study: Study
    series: tuple[str, ...]

    @property
    def name(self) -> str:
        """Stem of the file names."""
        return f"{self.figure}-{self.letter}-{self.study.dataset}-{self.study.base}"

    @property
    def title(self) -> str:
        """Title of the panel."""
        return f"{NAMES[self.study.dataset]}, {BASES[self.study.base]}"


def _panels() -> list[Panel]:
    checkins = [(dataset, base) for dataset in ("brightkite", "gowalla") for base in ("exp", "lh")]
    cabs = [("taxicab", "exp"), ("taxicab", "lh")]
    learned = ("peb-first", "peb-last")
    figures = [
        ("eval1-exp1", "sp", checkins, ("sp-scarce", "sp-rich")),
        ("eval1-exp21", "mk", checkins, ("mk-scarce", "mk-rich")),
        ("eval1-exp22", "mk", cabs, ("mk-scarce", "mk-rich")),
        ("eval2-exp1", "sp", checkins, ("sp-rich", *learned)),
        ("eval2-exp21", "mk", checkins, ("mk-rich", *learned)),
        ("eval2-exp22", "mk", cabs, ("mk-scarce", *learned)),
        ("appendix-mk", "mk", cabs, ("mk-other-scarce", "mk-other-rich")),
    ]
    return [
        Panel(figure, letter, Study(experiment, dataset, base), series)
        for figure, experiment, pairs, series in figures
        for letter, (dataset, base) in zip("abcd", pairs, strict=False)
    ]


PANELS = _panels()


def series_of(halves: pd.DataFrame) -> pd.DataFrame:
    """Return the means of each user and replication, with the names of the paper's series in the column `lppm`.

    `halves` has a row for each half of a test trace. A learning mechanism has one series per half, the others have one
    series for the whole trace.
    """
    learns = halves["lppm"] == "peb"
    named = halves[learns].assign(lppm="peb-" + halves.loc[learns, "half"])
    keys = ["lppm", "attack", "user", "replication", "point"]
    metrics = [name for name in halves.columns if name.endswith("_km")]
    others = halves[~learns]
    weighted = others[keys].assign(**{name: others[name] * others["queries"] for name in metrics})
    sums = weighted.groupby(keys)[metrics].sum(min_count=1)
    whole = sums.div(others.groupby(keys)["queries"].sum(), axis=0).reset_index()
    return pd.concat([named[[*keys, *metrics]], whole], ignore_index=True)


def table(panel: Panel, users: pd.DataFrame) -> pd.DataFrame:
    """Return the curves of a panel with the columns of its CSV file, given a table of `series_of`."""
    curves = loss_curves(users[users["lppm"].isin(panel.series)], AT_KM).rename(columns={"lppm": "series"})
    order = {name: number for number, name in enumerate(panel.series)}
    curves = curves.assign(_order=curves["series"].map(order)).sort_values(["_order", "quality_loss_km"])
    return curves[COLUMNS].reset_index(drop=True)


def draw(panel: Panel, curves_of: pd.DataFrame, *, note: str = "") -> Figure:
    """Draw a panel: lines of means over users, bands from minimum to maximum, and the diagonal."""
    with rc_context(STYLE):
        figure = Figure(figsize=(2.9, 3.0), layout="constrained")
        _panel(figure.subplots(), panel, curves_of, legend=6.5)
        figure.supxlabel("\n".join(filter(None, (_CAPTION, note))), fontsize=5.5, color=INK)
    return figure


def draw_all(tables: Mapping[str, pd.DataFrame], *, note: str = "") -> Figure:
    """Draw all panels on one page, one row per figure of the paper."""
    rows: dict[str, list[Panel]] = {}
    for panel in PANELS:
        rows.setdefault(panel.figure, []).append(panel)
    with rc_context(STYLE):
        figure = Figure(figsize=(8.4, 2.35 * len(rows)), layout="constrained")
        axes = figure.subplots(len(rows), 4, squeeze=False)
        for row, (name, panels) in zip(axes, rows.items(), strict=True):
            for subplot, panel in zip(row, panels, strict=False):
                _panel(subplot, panel, tables[panel.name], legend=5.2 if panel is panels[0] else None)
            for subplot in row[len(panels) :]:
                subplot.set_axis_off()
            row[0].set_ylabel(f"{name}\n{ERROR_LABEL}")
        figure.supxlabel("\n".join(filter(None, (_CAPTION, note))), fontsize=6.5, color=INK)
    return figure


def _panel(axes: Axes, panel: Panel, curves_of: pd.DataFrame, *, legend: float | None) -> None:
    top = float(AT_KM[-1])
    axes.plot([0, top], [0, top], color=INK, linewidth=0.8, linestyle=(0, (4, 3)), label=DIAGONAL)
    everybody = curves_of["users"].max()
    for colour, series in zip(COLOURS, panel.series, strict=False):
        own = curves_of[curves_of["series"] == series]
        at, users = own["quality_loss_km"], own["users"]
        axes.fill_between(at, own["min_km"], own["max_km"], color=colour, alpha=0.16, linewidth=0)
        # If not all users reach a loss, the mean is over fewer users and drawn as a thin dotted line.
        axes.plot(at, own["mean_km"], color=colour, linewidth=0.7, linestyle=":")
        axes.plot(at, own["mean_km"].where(users == everybody), color=colour, label=LABELS[series])
    axes.set(xlim=(0, top), ylim=(0, top), xlabel=QUALITY_LABEL, ylabel=ERROR_LABEL, title=panel.title)
    axes.set_aspect("equal")
    axes.set_xticks(range(int(top) + 1))
    axes.set_yticks(range(int(top) + 1))
    if legend is not None:
        axes.legend(loc="upper left", fontsize=legend, handlelength=1.6, borderaxespad=0.2)
