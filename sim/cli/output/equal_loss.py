"""Comparison of mechanisms at equal quality loss (`summarize --at`)."""

from __future__ import annotations

import pandas as pd

from sim.analysis.equal_loss_tables import at_loss_caption, at_loss_columns, beside_note
from sim.analysis.statistics import INTERVAL, OWN_VALUES, SPREAD, are_few
from sim.analysis.tables import Table, text_column
from sim.cli.output.tables import print_table


def print_at_loss(compared: pd.DataFrame) -> None:
    """Print `at_loss_table`."""
    print_table(at_loss_table(compared))


def at_loss_table(compared: pd.DataFrame) -> Table:
    """Return the adversary error of each mechanism at given quality losses, and its difference from a reference."""
    against = compared["against"].iloc[0] if len(compared) else ""
    shown = _at_loss_shown(compared)
    circumstances = [text_column("with", "circumstances")] if compared["circumstances"].astype(bool).any() else []
    columns = [*circumstances, text_column("attack", "attack"), *at_loss_columns(against, shown)]
    keys = ("circumstances", "attack", "quality_loss_km")
    rows = [row for _, own in shown.groupby(list(keys), sort=False) for row in own.to_dict("records")]
    return Table(
        columns, rows, at_loss_caption(shown), section=lambda row: [row[key] for key in keys], hint=beside_note(shown)
    )


def _at_loss_shown(compared: pd.DataFrame) -> pd.DataFrame:
    """Return a table of `ranking.at_loss`, with extremes over users instead of intervals if there are few users."""
    few = compared["users"].map(are_few)
    shown = compared.assign(**{SPREAD: few.map({True: OWN_VALUES, False: INTERVAL})})
    for name in ("error_km", "difference_km"):
        for end, extreme in (("_low", "_min"), ("_high", "_max")):
            shown[name + end] = shown[name + end].where(~few, shown[name + extreme])
    return shown
