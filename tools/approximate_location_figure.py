"""The figure of docs/approximate_location.md: two adversaries, all mechanisms, synthetic and real people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.layout_engine import ConstrainedLayoutEngine

from tools.equal_loss_evidence import ADVERSARIES, OURS, ROUTINE, STRANGER

PHONE_COLOUR, OUR_COLOUR = "#D55E00", "#0072B2"
TITLE = (
    "Coarse grids hide homes from strangers, but hide little of people with few places from somebody who knows them.\n"
    "At the same loss, adaptive noise leaves every adversary a larger error, but lets strangers find more homes."
)
ROWS = {
    ROUTINE: "An adversary who knows the user's routine",
    STRANGER: "A stranger, who knows other people only",
}
"""Adversaries from top to bottom."""
FIRST = {ROUTINE: ("error_km", "Error of the estimate, km"), STRANGER: ("found", "Homes known after {days} days")}
"""Column and heading of the first panel of each adversary; the other panels show the shares located."""


LABELS = {
    "Android": "Android, grid",
    "AndroidS2": "Android, S2 cells",
    "WebKit": "iOS, WebKit",
    "Browser": "Browser draft",
    "Meshtastic-13": "Meshtastic, 13 bits",
    "Decimals-2": "Two decimals",
    "LG": "Location Guard, medium",
    "LG-high": "Location Guard, high",
    "LG-memoised": "Location Guard, by place",
    "ConstantOffset": "Constant offset",
    "SP-Zone": "Privacy zone, known",
    "SP-HiddenZone": "Privacy zone, hidden",
    "SP-RandomZone": "Privacy zone, random",
}
"""Names of the mechanisms for readers outside the project; default: their names in scenarios."""


class Series(NamedTuple):
    """One population of the figure."""

    people: str
    tables: Mapping[str, pd.DataFrame]
    """Comparison by adversary."""


def draw(populations: list[Series], last_day: int, out: Path) -> None:
    """Draw each fixed mechanism and `OURS` at the same loss, next to the control without any report.

    The first population has the homes and gives the order of the mechanisms.
    """
    first = populations[0].tables
    names = list(first[ROUTINE].sort_values("loss_km", ascending=False, kind="stable").index)
    columns = 1 + len(populations)
    style: Any = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(style):
        size = (3.0 + 2.4 * columns, 2 * (0.27 * len(names) + 1.4) + 1.7)
        figure = plt.figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
        figure.suptitle(f"{TITLE}\n", fontsize=13, fontweight="bold", x=0.008, ha="left")
        rows: Any = figure.subfigures(2, 1, hspace=0.03)
        for part, adversary in zip(rows, ADVERSARIES, strict=True):
            part.suptitle(ROWS[adversary], fontsize=11.5, x=0.008, ha="left", fontweight="bold", color="#444444")
            axes = part.subplots(1, columns, sharey=True)
            column, heading = FIRST[adversary]
            _panel(axes[0], first[adversary].loc[names], column, f"{populations[0].people}\n{heading}", last_day)
            for panel, own in zip(axes[1:], populations, strict=True):
                table = own.tables[adversary].reindex(names)
                _panel(panel, table, "located", f"{own.people}\nLocated within 564 m", last_day)
            losses = first[ROUTINE]["loss_km"].loc[names]
            axes[0].set_yticks(
                range(len(names)), [f"{LABELS.get(name, name)}  ({losses[name]:.1f} km)" for name in names]
            )
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(out, dpi=150)
    plt.close(figure)


def _panel(panel: Any, table: pd.DataFrame, column: str, heading: str, last_day: int) -> None:
    places, own, ours = np.arange(len(table)), table[column], table[f"our_{column}"]
    share = column != "error_km"
    marks = {"linestyle": "", "zorder": 3, "clip_on": False}
    panel.hlines(places, own, ours, color="#999999", linewidth=1.4, zorder=1)
    panel.plot(
        own,
        places + 0.1,
        marker="o",
        color=PHONE_COLOUR,
        markersize=6.5,
        label="phone or app (mean loss of commuters in parentheses)",
        **marks,
    )
    panel.plot(
        ours,
        places - 0.1,
        marker="D",
        color=OUR_COLOUR,
        markersize=5.5,
        label=f"{OURS} of this project at the same loss",
        **marks,
    )
    control = table[f"control_{column}"].dropna().iloc[0]
    panel.axvline(control, color="black", linestyle="--", linewidth=1.1, label="no report")
    for place in places[own.isna()]:
        text = panel.text(0.5, place, "not applicable", color="#777777", fontsize=8.5, ha="center", va="center")
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    panel.set_xlim((-0.03, 1.03) if share else (-0.03, None))
    panel.set_ylim(-0.6, len(table) - 0.4)
    panel.set_title(heading.format(days=last_day), fontsize=10, loc="left")
    panel.set_xlabel("← better protected" if share else "better protected →", fontsize=9)
    panel.grid(axis="x", color="#dddddd")
    panel.set_axisbelow(True)
    if share:
        panel.set_xticks([0, 0.5, 1.0])
        panel.xaxis.set_major_formatter("{x:.0%}")
