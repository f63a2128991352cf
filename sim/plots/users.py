"""Time series of single users, one small panel each."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sim.plots import intervals, style
from sim.plots.labels import literal
from sim.plots.marks import draw_marks, marks_of
from sim.plots.style import ERROR_LABEL, INK, QUALITY_LABEL, STYLE, Look
from sim.storage.sampling import sampled

MOST_PANELS = 12


def users_figure(
    series: pd.DataFrame,
    *,
    of_users: int | None = None,
    title: str = "",
    shifts: pd.DataFrame | None = None,
    width: float,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw the adversary error by query index (without an attack: the quality loss), with one panel per user.

    `series` is a table of `time_series.user_time_series` with one attack. At most the first twelve users are drawn. If
    `series` has a sample of `of_users` users, twelve of them are drawn, chosen by the hash of `sim.storage.sampling`.
    """
    measure = "adversary_error_km" if series["adversary_error_km"].notna().any() else "quality_loss_km"
    users = list(dict.fromkeys(series["user"]))
    is_sample = of_users is not None and len(users) < of_users
    drawn = sampled(users, MOST_PANELS) if is_sample else users[:MOST_PANELS]
    columns = style.columns(width, len(drawn), least_in=1.1)
    rows = -(-len(drawn) // columns)
    own_looks = style.own_looks(names, series["lppm"])
    attack = series["attack"].iloc[0]
    note = style.against(attack) if attack else ""
    if len(drawn) < len(users):
        chosen = f"sample of {len(drawn)} of {of_users:,} users" if is_sample else f"{len(drawn)} of {len(users)} users"
        note = "; ".join(filter(None, [note, chosen]))
    high = max(0.72 * width / columns, 1.0 if rows == 1 else 0.0)
    letters = max(6, int(width / columns / 0.07))
    with rc_context(STYLE | {"lines.linewidth": 1.0, "lines.markersize": 2.5}):
        figure = style.with_legend(width, (high + 0.12) * rows + 0.45, own_looks, note, title=title)
        panels = style.grid(figure, [""], drawn, columns)
        for number, user in enumerate(drawn):
            panel, own = panels["", user], series[series["user"] == user]
            if shifts is not None:
                own_shifts = shifts[(shifts["user"] == user) & shifts["point"].isin(set(own["point"]))]
                draw_marks(panel, marks_of(own_shifts), labelled=False)
            for name, of_lppm in own.dropna(subset=[measure]).groupby("lppm", sort=False):
                look = own_looks[str(name)]
                at = (of_lppm["first_index"] + of_lppm["last_index"]).to_numpy(float) / 2
                every = max(1, len(at) // 4)
                intervals.line(panel, at, of_lppm[measure].to_numpy(float), look, str(name), markevery=every)
            panel.set_title(literal(user, letters), fontsize=7.5)
            panel.tick_params(labelbottom=number + columns >= len(drawn))
            if number + columns >= len(drawn):
                style.count_queries(panel, 1.0)
        first = panels["", drawn[0]]
        first.set_ylim(bottom=0)
        first.yaxis.set_major_locator(MaxNLocator(nbins=4))
        label = ERROR_LABEL if measure == "adversary_error_km" else QUALITY_LABEL
        figure.supylabel(style.broken(label, high * rows), fontsize=8, color=INK, multialignment="center")
        return style.settled(figure)
