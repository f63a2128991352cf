"""Mechanisms compared at equal quality loss (`summarize --at`)."""

from __future__ import annotations

import pandas as pd
from rich.table import Table

from sim.analysis.statistics import INTERVAL, OWN_VALUES, SPREAD, are_few
from sim.analysis.tables import spread_note
from sim.cli.output.cells import spreads, with_spread
from sim.cli.output.terminal import stdout
from sim.escaping import escape


def print_at_loss(compared: pd.DataFrame) -> None:
    """Print the adversary error of each mechanism at given quality losses, and its difference to a reference."""
    console = stdout()
    table = Table()
    in_circumstances = compared["circumstances"].astype(bool).any()
    against = compared["against"].iloc[0] if len(compared) else ""
    compared = _at_loss_shown(compared)
    for heading in (*(["with"] if in_circumstances else []), "attack"):
        table.add_column(heading)
    table.add_column("Q-bar", justify="right")
    table.add_column("LPPM")
    for heading in ("P_AE", f"minus {against}", "users"):
        table.add_column(escape(heading), justify="right")
    for _, rows in compared.groupby(["circumstances", "attack", "quality_loss_km"], sort=False):
        for row in rows.to_dict("records"):
            of_this = f" ({row['reached']} with this one)" if row["reached"] > row["users"] else ""
            table.add_row(
                *([escape(row["circumstances"])] if in_circumstances else []),
                escape(row["attack"]),
                f"{row['quality_loss_km']:g}",
                escape(row["lppm"]),
                with_spread(row, "error_km", 3),
                "" if row["lppm"] == against else with_spread(row, "difference_km", 3),
                f"{row['users']} of {row['of_users']}{of_this}",
            )
        table.add_section()
    console.print(
        "Adversary error P_AE at equal quality loss Q-bar, in km, off each user's own curve, over the users who reach "
        f"it with every LPPM; differences paired by user; {spread_note(spreads(compared))}",
        style="italic",
        highlight=False,
    )
    console.print(table, highlight=False)


def _at_loss_shown(compared: pd.DataFrame) -> pd.DataFrame:
    """Return a table of `ranking.at_loss` with the extremes over users instead of intervals if users are few."""
    few = compared["users"].map(are_few)
    shown = compared.assign(**{SPREAD: few.map({True: OWN_VALUES, False: INTERVAL})})
    for name in ("error_km", "difference_km"):
        for end, extreme in (("_low", "_min"), ("_high", "_max")):
            shown[name + end] = shown[name + end].where(~few, shown[name + extreme])
    return shown
