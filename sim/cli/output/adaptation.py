"""Table of the adaptation of mechanisms to a shift."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sim.analysis.adaptation import OF_USER, Adaptation
from sim.analysis.event_log import SERIES
from sim.analysis.result import Result
from sim.analysis.statistics import with_spread
from sim.analysis.sweep_labels import in_order
from sim.analysis.tables import (
    ADAPTATION,
    Cell,
    Column,
    Row,
    Table,
    adaptation_caption,
    lppm_column,
    metric_cell,
    swept_columns,
    text_column,
)
from sim.cli.output.tables import print_table, rows_with_swept_values, swept_paths
from sim.cli.output.terminal import stdout
from sim.components.wording import counted
from sim.escaping import escape
from sim.storage.errors import NotApplicable

_MOST_ROWS = 30


def print_first_shift(result: Result) -> None:
    """Print the adaptation to the first shift, if it is defined and the table is short."""
    try:
        adaptation = result.adaptation()
    except NotApplicable as error:
        stdout().print(
            f"[yellow]note:[/] {escape(f'adaptation to the shift is not available: {error}')}", highlight=False
        )
        return
    if len(adaptation.summary) <= _MOST_ROWS:
        print_adaptation(result, adaptation)
    else:
        stdout().print(
            f"The adaptation to shifts ({counted(len(adaptation.summary), 'row')}) is in adaptation.csv.",
            highlight=False,
        )


def print_adaptation(result: Result, adaptation: Adaptation, against: str | None = None) -> None:
    """Print the efficiency of each mechanism around a shift, its recovery time and the queries lost."""
    print_table(adaptation_table(result, adaptation, against))
    summary = adaptation.summary
    if adaptation.at_km is not None:
        stdout().print(
            f"Each user has a quality loss of {adaptation.at_km:g} km before the shift, interpolated between sweep "
            "points. Compared are the users whose error without any report before the shift, P0, is at least that; "
            f"{int(summary['excluded'].max())} others are excluded.",
            highlight=False,
        )
    if left_out := int(summary["left_out"].max()):
        stdout().print(
            f"Up to {left_out} users are omitted: they have no quality loss before the shift, or fewer than "
            f"{adaptation.window} queries between the shift and the next change or the end.",
            highlight=False,
        )


def adaptation_table(result: Result, adaptation: Adaptation, against: str | None = None) -> Table:
    """Return the efficiency of each mechanism around a shift, its recovery time and the queries lost."""
    points = result.points()
    summary = in_order(with_spread(adaptation.summary, adaptation.users, OF_USER, SERIES), result.run)
    against = summary["lppm"].iloc[0] if against is None else against
    compared = adaptation.compare(against) if against in set(adaptation.users["lppm"]) else pd.DataFrame()
    differences = {(row["point"], row["attack"], row["lppm"]): row for row in _differences(compared)}

    def difference(row: Row) -> Cell:
        own = differences.get((row["point"], row["attack"], row["lppm"]), {})
        return metric_cell(own, "queries_to_recover", 0, signed=True)

    *efficiencies, lost, not_back, together = ADAPTATION
    swept = swept_paths(points) if adaptation.at_km is None else ()  # an equal loss is between points
    labels = [lppm_column(), text_column("attack", "attack"), *swept_columns(swept)]
    columns = [*labels, *efficiencies, Column(f"minus {against}", difference), lost, not_back, together]
    caption = adaptation_caption(summary, adaptation.window, adaptation.recovered)
    return Table(columns, rows_with_swept_values(summary, points), caption)


def _differences(compared: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a comparison of mechanisms, without intervals if users are few."""
    if compared.empty:
        return []
    keys = ["point", "attack", "lppm"]
    nobody = pd.DataFrame({name: pd.Series(dtype=float) for name in keys})
    return with_spread(compared, nobody, OF_USER, keys, signed=True).to_dict("records")
