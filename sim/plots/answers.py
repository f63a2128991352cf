"""Figures of the answers: homes known over days, and shares of queries located within radii."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sim.analysis.answers.places import is_resolved
from sim.analysis.answers.questions import LOCATED
from sim.analysis.answers.radii import radius_text
from sim.analysis.answers.shown import PRECISE_KM
from sim.analysis.statistics import FEWEST_USERS
from sim.analysis.time_series import middle_points
from sim.plots import style
from sim.plots.style import MARK, STYLE, Look

_CONTROLS = "dashed: best guess without any report, dotted: random guess"
_MOST_LEVEL = 5
"""Largest number of radii with horizontal labels."""
_NARROW_IN = 2.2
"""Width of a panel below which the label of the radii has two lines."""
_MOST_SIDE = 0.32
"""Distance of the outermost marks of a radius from its centre, in radii."""


def drawn_radius(home: pd.DataFrame) -> float:
    """Return the radius of the figure: 564 m, or else the smallest one of the table."""
    radii = sorted(set(home["radius_km"]))
    return PRECISE_KM if PRECISE_KM in radii else radii[0]


def home_exposure_figure(
    home: pd.DataFrame,
    *,
    resolution_km: float = 0.0,
    radius_km: float | None = None,
    title: str = "",
    width: float | None = None,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw the share of users whose home is known within a radius over days, with one column per attack.

    `home` is a table of `sim.analysis.answers.table.home_table`; each mechanism is drawn at its middle sweep point. The
    bands are the intervals of Kaplan and Meier's curve.
    """
    if home.empty:
        return style.empty_figure("no answer about homes: no attack, or visits without times")
    radius = drawn_radius(home) if radius_km is None else radius_km
    drawn = home[(home["radius_km"] == radius) & (home["point"] == home["lppm"].map(middle_points(home)))]
    own, attacks = style.own_looks(names, drawn["lppm"]), list(dict.fromkeys(drawn["attack"]))
    full = style.usual_width(len(attacks)) if width is None else width
    columns = len(attacks) if width is None else style.columns(width, len(attacks))
    high = 1.9 if width is None else 1.2 * style.row_height(full / columns)
    note = f"bands: 95 % confidence intervals over users; {_CONTROLS}{_coarse(radius, resolution_km)}"
    with rc_context(STYLE if width is None else STYLE | style.lines_for(width)):
        figure = style.with_legend(full, -(-len(attacks) // columns) * (high + 0.45), own, note, title=title)
        for (_, attack), panel in style.grid(figure, [""], attacks, columns).items():
            rows = drawn[drawn["attack"] == attack]
            for name, curve in rows.groupby("lppm", sort=False):
                _curve(panel, curve, own[str(name)], str(name))
            _controls(panel, rows)
            panel.set_title(style.against(attack, full / columns))
            panel.set_ylim(-0.02, 1.02)
            panel.set_xlim(0, float(drawn["day"].max()))
            if attacks.index(attack) % columns == 0:
                panel.set_ylabel(f"home known within\n{radius_text(radius)}")
            panel.set_xlabel("days of reports")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6 if full / columns > 2 else 4))
        return style.settled(figure)


def _curve(panel: Axes, curve: pd.DataFrame, look: Look, label: str) -> None:
    days, known, low, high = (curve[name].to_numpy(float) for name in ("day", "known", "known_low", "known_high"))
    drawn = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "markersize": 3, "label": label}
    panel.step(days, known, where="post", markevery=max(1, len(days) // 6), **drawn)  # type: ignore[arg-type]
    panel.fill_between(days, low, high, step="post", color=look.colour, alpha=0.14, linewidth=0)


def _controls(panel: Axes, rows: pd.DataFrame) -> None:
    for name, line in (("control", "--"), ("random", ":")):
        for level in rows[name].dropna().round(4).unique():
            panel.axhline(level, color=MARK, linestyle=line, linewidth=0.9, zorder=1.5)


def _coarse(radius_km: float, resolution_km: float) -> str:
    if is_resolved(radius_km, resolution_km):
        return ""
    return f"; cells of {radius_text(float(f'{resolution_km:.3g}'))} are coarser than {radius_text(radius_km)}"


def located_figure(
    table: pd.DataFrame,
    *,
    title: str = "",
    width: float | None = None,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw the share of queries located within each radius, next to control attacks, with one column per attack.

    `table` is a table of `sim.analysis.answers.table.answers_table`; each mechanism is drawn at its middle sweep point.
    """
    located = table[table["question"] == LOCATED]
    if located.empty:
        return style.empty_figure("no answer about located places: this run has no attack")
    drawn = located[located["point"] == located["lppm"].map(middle_points(located))]
    own, attacks = style.own_looks(names, drawn["lppm"]), list(dict.fromkeys(drawn["attack"]))
    radii = sorted(set(drawn["radius_km"]))
    full = style.usual_width(len(attacks)) if width is None else width
    columns = len(attacks) if width is None else style.columns(width, len(attacks))
    high = 1.9 if width is None else 1.2 * style.row_height(full / columns)
    many = bool((drawn["users"] >= FEWEST_USERS).any())
    bars = "bars: 95 % confidence intervals over users" if many else f"no intervals for fewer than {FEWEST_USERS} users"
    resolution = float(drawn["resolution_km"].max())
    coarse = max((radius for radius in radii if not is_resolved(radius, resolution)), default=None)
    by_hour = ", dash-dotted: by hour of the day" if drawn["control_by_hour"].notna().any() else ""
    note = f"{bars}; {_CONTROLS}{by_hour}{'' if coarse is None else _coarse(coarse, resolution)}"
    with rc_context(STYLE if width is None else STYLE | style.lines_for(width)):
        figure = style.with_legend(
            full, -(-len(attacks) // columns) * (high + 0.55), own, note, lines=False, title=title
        )
        for (_, attack), panel in style.grid(figure, [""], attacks, columns).items():
            _located_panel(panel, drawn[drawn["attack"] == attack], own, radii)
            panel.set_title(style.against(attack, full / columns))
            panel.set_ylim(-0.02, 1.04)
            labels = [radius_text(radius).partition(" (")[0] for radius in radii]
            panel.set_xticks(range(len(radii)), labels, rotation=90 if len(radii) > _MOST_LEVEL else 0)
            narrow = full / columns < _NARROW_IN
            panel.set_xlabel("radius around\nthe true place" if narrow else "radius around the true place")
            panel.grid(visible=False, axis="x")
            if attacks.index(attack) % columns == 0:
                panel.set_ylabel("share of queries located")
        return style.settled(figure)


def _located_panel(panel: Axes, rows: pd.DataFrame, names: Mapping[str, Look], radii: list[float]) -> None:
    sides = np.linspace(-_MOST_SIDE, _MOST_SIDE, len(names)) if len(names) > 1 else np.zeros(1)
    for side, (name, look) in zip(sides, names.items(), strict=True):
        own = rows[rows["lppm"] == name].sort_values("radius_km")
        at = np.array([radii.index(radius) for radius in own["radius_km"]]) + side
        share = own["share"].to_numpy(float)
        ends = own[["share_low", "share_high"]].clip(0, 1).where(own["users"] >= FEWEST_USERS).to_numpy(float)
        panel.vlines(at, ends[:, 0], ends[:, 1], color=look.colour, linewidth=1.2)
        panel.plot(at, share, linestyle="", marker=look.marker, color=look.colour)
    for name, line in (("control", "--"), ("control_by_hour", "-."), ("random", ":")):
        for place, radius in enumerate(radii):
            for level in rows.loc[rows["radius_km"] == radius, name].dropna().round(4).unique():
                half = _MOST_SIDE + 0.1
                panel.hlines(level, place - half, place + half, color=MARK, linestyle=line, linewidth=0.9, zorder=1.5)
