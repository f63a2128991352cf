"""The adversary error about past queries, as a table."""

from __future__ import annotations

import pandas as pd
from rich.table import Table

from sim.analysis.result import Result
from sim.analysis.sweep_labels import in_order, path_headings, with_swept_values
from sim.analysis.tables import spread_note
from sim.cli.output.cells import spreads, swept_value, with_spread
from sim.cli.output.terminal import stdout
from sim.escaping import escape

_MOST_ROWS = 30


def print_hindsight(result: Result, errors: pd.DataFrame) -> None:
    """Print the error about past queries of each attack that revises its estimates, if the table is short."""
    console = stdout()
    if len(errors) > _MOST_ROWS:
        console.print(f"{len(errors)} rows about past queries are in hindsight.csv.", highlight=False)
        return
    points = result.points()
    swept = path_headings([path for path in points.columns if path != "point"])
    errors = in_order(errors, result.run)
    valued = with_swept_values(errors[["lppm", "point"]], points).to_dict("records")
    table = Table()
    table.add_column("LPPM")
    table.add_column("attack")
    for heading in (*swept.values(), "reports later", "P_AE(r, s)", "P_AE(s, s)", "gain", "users"):
        table.add_column(escape(heading), justify="right")
    for values, row in zip(valued, errors.to_dict("records"), strict=True):
        table.add_row(
            escape(row["lppm"]),
            escape(row["attack"]),
            *(swept_value(values[path]) for path in swept),
            row["lag"],
            with_spread(row, "adversary_error_km", 3),
            with_spread(row, "online_error_km", 3),
            with_spread(row, "gain_km", 3),
            str(row["users"]),
        )
    console.print(
        "Adversary error about past queries s, in km: so many reports later or at the last one (final), and when they "
        f"were asked, gains paired by query; {spread_note(spreads(errors))}",
        style="italic",
        highlight=False,
    )
    console.print(table, highlight=False)
