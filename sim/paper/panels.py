"""The 22 panels of the paper's evaluation: which curves each has, their table, and their picture."""

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
"""The losses at which curves are read off."""

COLUMNS = ["series", "quality_loss_km", "users", "mean_km", "min_km", "max_km"]
BASES = {"exp": "Exp", "lh": "LH"}
NAMES = {"brightkite": "Brightkite", "gowalla": "Gowalla", "taxicab": "TaxiCab"}
LABELS = {
    "sp-scarce": "SP, scarce training",
    "sp-rich": "SP, rich training",
    "mk-scarce": "MK, scarce training",
    "mk-rich": "MK, rich training",
    "mk-other-scarce": "MK, a day of another cab",
    "mk-other-rich": "MK, 7 days of another cab",
    "peb-first": "PEB, first half",
    "peb-last": "PEB, last half",
}


_FEWER = "lines: means over users; shades: least to most\ndotted: some users never have such a loss"


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture: a data set and a base mechanism in one of the paper's figures."""

    figure: str
    letter: str
    study: Study
    series: tuple[str, ...]

    @property
    def name(self) -> str:
        """As its files are called."""
        return f"{self.figure}-{self.letter}-{self.study.dataset}-{self.study.base}"

    @property
    def title(self) -> str:
        """What stands above it."""
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
        for figure, experiment, places, series in figures
        for letter, (dataset, base) in zip("abcd", places, strict=False)
    ]


PANELS = _panels()


def series_of(halves: pd.DataFrame) -> pd.DataFrame:
    """Return the means of each user and replication by the names of the paper's series, in the column `lppm`.

    Takes a table of `halves`. A mechanism that learns is looked at in each half, the others as a whole.
    """
    learns = halves["lppm"] == "peb"
    named = halves[learns].assign(lppm="peb-" + halves.loc[learns, "half"])
    keys = ["lppm", "attack", "user", "replication", "point"]
    figures = [name for name in halves.columns if name.endswith("_km")]
    others = halves[~learns]
    weighed = others[keys].assign(**{name: others[name] * others["queries"] for name in figures})
    sums = weighed.groupby(keys)[figures].sum(min_count=1)
    whole = sums.div(others.groupby(keys)["queries"].sum(), axis=0).reset_index()
    return pd.concat([named[[*keys, *figures]], whole], ignore_index=True)


def table(panel: Panel, users: pd.DataFrame) -> pd.DataFrame:
    """Return the panel's curves as its CSV has them; takes a table of `series_of`."""
    found = loss_curves(users[users["lppm"].isin(panel.series)], AT_KM).rename(columns={"lppm": "series"})
    order = {name: number for number, name in enumerate(panel.series)}
    found = found.assign(_order=found["series"].map(order)).sort_values(["_order", "quality_loss_km"])
    return found[COLUMNS].reset_index(drop=True)


def draw(panel: Panel, curves_of: pd.DataFrame, *, note: str = "") -> Figure:
    """Draw a panel: mean lines over users, the band from the least to the most, the diagonal."""
    with rc_context(STYLE):
        figure = Figure(figsize=(2.9, 3.0), layout="constrained")
        _panel(figure.subplots(), panel, curves_of, legend=6.5)
        figure.supxlabel("\n".join(filter(None, (_FEWER, note))), fontsize=5.5, color=INK)
    return figure


def draw_all(tables: Mapping[str, pd.DataFrame], *, note: str = "") -> Figure:
    """Draw all panels on one page, a row for each of the paper's figures."""
    rows: dict[str, list[Panel]] = {}
    for panel in PANELS:
        rows.setdefault(panel.figure, []).append(panel)
    with rc_context(STYLE):
        figure = Figure(figsize=(8.4, 2.35 * len(rows)), layout="constrained")
        axes = figure.subplots(len(rows), 4, squeeze=False)
        for line, (name, panels) in zip(axes, rows.items(), strict=True):
            for place, panel in zip(line, panels, strict=False):
                _panel(place, panel, tables[panel.name], legend=5.2 if panel is panels[0] else None)
            for place in line[len(panels) :]:
                place.set_axis_off()
            line[0].set_ylabel(f"{name}\n{ERROR_LABEL}")
        figure.supxlabel("\n".join(filter(None, (_FEWER, note))), fontsize=6.5, color=INK)
    return figure


def _panel(axes: Axes, panel: Panel, curves_of: pd.DataFrame, *, legend: float | None) -> None:
    top = float(AT_KM[-1])
    axes.plot([0, top], [0, top], color=INK, linewidth=0.8, linestyle=(0, (4, 3)), label=DIAGONAL)
    everybody = curves_of["users"].max()
    for colour, series in zip(COLOURS, panel.series, strict=False):
        own = curves_of[curves_of["series"] == series]
        at, users = own["quality_loss_km"], own["users"]
        axes.fill_between(at, own["min_km"], own["max_km"], color=colour, alpha=0.16, linewidth=0)
        # Where some users have no such loss the mean is one of others, and drawn thin.
        axes.plot(at, own["mean_km"], color=colour, linewidth=0.7, linestyle=":")
        axes.plot(at, own["mean_km"].where(users == everybody), color=colour, label=LABELS[series])
    axes.set(xlim=(0, top), ylim=(0, top), xlabel=QUALITY_LABEL, ylabel=ERROR_LABEL, title=panel.title)
    axes.set_aspect("equal")
    axes.set_xticks(range(int(top) + 1))
    axes.set_yticks(range(int(top) + 1))
    if legend is not None:
        axes.legend(loc="upper left", fontsize=legend, handlelength=1.6, borderaxespad=0.2)
