"""How mechanisms adapt to a shift, as a table."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.table import Table

from sim.analysis import statistics
from sim.analysis.adaptation import OF_USER, Adaptation
from sim.analysis.event_log import SERIES
from sim.analysis.result import Result
from sim.analysis.sweep_labels import in_order, path_headings, with_swept_values
from sim.analysis.tables import spread_note
from sim.cli.output.cells import spreads, swept_value, with_spread
from sim.cli.output.terminal import stdout
from sim.escaping import escape
from sim.storage.errors import NotApplicable

_MOST_ROWS = 30


def print_first_shift(result: Result) -> None:
    """Print how mechanisms adapt to the first shift, if that is defined and the table is short."""
    try:
        adaptation = result.adaptation()
    except NotApplicable as error:
        stdout().print(f"[yellow]note:[/] {escape(f'how mechanisms adapt cannot be told: {error}')}", highlight=False)
        return
    if len(adaptation.summary) <= _MOST_ROWS:
        print_adaptation(result, adaptation)
    else:
        stdout().print(
            f"{len(adaptation.summary)} rows of how mechanisms adapt are in adaptation.csv.", highlight=False
        )


def print_adaptation(result: Result, adaptation: Adaptation, against: str | None = None) -> None:
    """Print the efficiency of each mechanism around a shift, its time to recover, and the queries lost."""
    points = result.points()
    swept = path_headings([path for path in points.columns if path != "point"])
    summary = in_order(statistics.with_spread(adaptation.summary, adaptation.users, OF_USER, SERIES), result.run)
    valued = with_swept_values(summary[["lppm", "point"]], points).to_dict("records")
    against = summary["lppm"].iloc[0] if against is None else against
    compared = adaptation.compare(against) if against in set(adaptation.users["lppm"]) else pd.DataFrame()
    differences = {(row["point"], row["attack"], row["lppm"]): row for row in _differences(compared)}
    table = Table()
    table.add_column("LPPM")
    table.add_column("attack")
    numbers = ("before", "lowest", "at the end", "recover", "mean", f"minus {against}", "not back", "together", "lost")
    for heading in (*swept.values(), *numbers):
        table.add_column(escape(heading), justify="right")
    for values, row in zip(valued, summary.to_dict("records"), strict=True):
        apart = differences.get((row["point"], row["attack"], row["lppm"]))
        together = "" if pd.isna(row["pooled_queries_to_recover"]) else f"{row['pooled_queries_to_recover']:.0f}"
        table.add_row(
            escape(row["lppm"]),
            escape(row["attack"]),
            *(swept_value(values[path]) for path in swept),
            with_spread(row, "efficiency_before", 3),
            with_spread(row, "efficiency_lowest", 3),
            with_spread(row, "efficiency_end", 3),
            "" if pd.isna(row["queries_to_recover_median"]) else f"{row['queries_to_recover_median']:.0f}",
            with_spread(row, "queries_to_recover", 0),
            "" if apart is None else with_spread(apart, "queries_to_recover", 0, signed=True),
            f"{row['censored']} of {row['users']}",
            f"> {together}" if row["pooled_censored"] and together else together,
            with_spread(row, "queries_lost", 1),
        )
    shifts = ", ".join(dict.fromkeys(adaptation.summary["shift"]))
    console = stdout()
    console.print(
        escape(
            f"Efficiency P_AE / Q-bar before and after {shifts}; queries until a window of {adaptation.window} is back "
            f"at {100 * adaptation.recovered:g} %: median and mean over users, those not back counted with all they "
            f"have, and of all users together; queries lost until then; {spread_note(spreads(summary))}"
        ),
        style="italic",
        highlight=False,
    )
    console.print(table, highlight=False)
    if left_out := int(adaptation.summary["left_out"].max()):
        console.print(
            f"Who has no loss before the shift, or not {adaptation.window} queries from it to the next change or the "
            f"end, is left out: {left_out} of the users at most.",
            highlight=False,
        )


def _differences(compared: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a comparison of mechanisms, without intervals if users are few."""
    if compared.empty:
        return []
    keys = ["point", "attack", "lppm"]
    nobody = pd.DataFrame({name: pd.Series(dtype=float) for name in keys})
    return statistics.with_spread(compared, nobody, OF_USER, keys, signed=True).to_dict("records")
