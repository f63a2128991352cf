"""The main tables of a run: quality loss and adversary error, and the tournament of mechanisms."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd
from rich.table import Table

from sim.analysis.sweep_labels import path_headings, with_swept_values
from sim.analysis.tables import spread_note
from sim.cli.output.cells import metric, spreads, swept_value
from sim.cli.output.terminal import stdout
from sim.escaping import escape


def print_summary(
    summary: pd.DataFrame,
    points: pd.DataFrame,
    lppms: Sequence[str],
    attacks: Sequence[str],
    over_budget: Collection[tuple[int, str]] = (),
) -> None:
    """Print the quality loss of each mechanism and the error of each attack, in km, with their spread.

    `summary` comes from `with_spread`. LPPMs and attacks keep the given order; those introduced by a sweep follow. A
    swept value is shown for the mechanisms it affects. `over_budget` holds the points and LPPMs whose loss is marked.
    """
    swept = path_headings([path for path in points.columns if path != "point"])
    valued = with_swept_values(summary[["lppm", "point"]], points).to_dict("records")
    values = {(row["lppm"], row["point"]): row for row in valued}
    attacks = list(dict.fromkeys([*attacks, *filter(None, summary["attack"])]))
    table = Table()
    table.add_column("LPPM")
    for heading in (*swept.values(), "Q-bar", *(f"P_AE {attack}" for attack in attacks)):
        table.add_column(escape(heading), justify="right")
    for lppm in dict.fromkeys([*lppms, *summary["lppm"]]):
        for point, rows in summary[summary["lppm"] == lppm].groupby("point", sort=True):
            by_attack = {row["attack"]: row for _, row in rows.iterrows()}
            table.add_row(
                escape(lppm),
                *(swept_value(values[lppm, point][path]) for path in swept),
                metric(rows.iloc[0], "quality_loss_km") + (" !" if (point, lppm) in over_budget else ""),
                *(metric(by_attack[name], "adversary_error_km") if name in by_attack else "" for name in attacks),
            )
        table.add_section()
    expected = summary["expected_quality_loss_km"].notna().any()
    console = stdout()
    units = "replications" if (summary["users"] == 1).all() else "users"
    console.print(
        f"Quality loss Q-bar and adversary error P_AE, in km; {spread_note(spreads(summary), units)}"
        + ("; means expected over the mechanism's noise" if expected else "")
        + ("; ! above the quality budget asked for" if over_budget else ""),
        style="italic",
        highlight=False,
    )
    console.print(table)


def print_standings(table: pd.DataFrame, *, drawn: bool) -> None:
    """Print a table of `tournament.standings`: each mechanism against its strongest attack."""
    shown = Table()
    for heading in ("rank", "LPPM", "Q-bar", "P_AE", "of the strongest attack"):
        shown.add_column(heading, justify="left" if heading in ("LPPM", "of the strongest attack") else "right")
    for row in table.to_dict("records"):
        rank = "" if pd.isna(row["rank"]) else str(row["rank"])
        figures = (f"{row[name]:.3f}" for name in ("quality_loss_km", "adversary_error_km"))
        shown.add_row(rank, escape(str(row["lppm"])), *figures, escape(str(row["strongest"])))
    loss = table.loc[table["rank"].notna(), "quality_loss_km"]
    same = len(loss) > 1 and loss.max() - loss.min() < 1e-9
    console = stdout()
    console.print(
        "Quality loss Q-bar and adversary error P_AE of the strongest attack, in km; "
        + (f"ranked at {loss.iloc[0]:g} km of loss" if same else "each at its own loss"),
        style="italic",
        highlight=False,
    )
    console.print(shown)
    places = "tournament.csv and figures/tournament" if drawn else "tournament.csv"
    console.print(f"All attacks are in {places}, with intervals in summary.csv.", highlight=False)
