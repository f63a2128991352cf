"""Table of the adversary error about past queries."""

from __future__ import annotations

import pandas as pd

from sim.analysis.result import Result
from sim.analysis.sweep_labels import in_order
from sim.analysis.tables import (
    PAST_ERRORS,
    Cell,
    Column,
    Table,
    lppm_column,
    past_errors_caption,
    swept_columns,
    text_column,
)
from sim.cli.output.tables import print_table, rows_with_swept_values, swept_paths
from sim.cli.output.terminal import stdout
from sim.components.wording import counted

_MOST_ROWS = 30


def print_hindsight(result: Result, errors: pd.DataFrame) -> None:
    """Print the error about past queries of each attack that revises its estimates, if the table is short."""
    if len(errors) > _MOST_ROWS:
        stdout().print(
            f"The errors about past queries ({counted(len(errors), 'row')}) are in hindsight.csv.", highlight=False
        )
        return
    print_table(hindsight_table(result, errors))


def hindsight_table(result: Result, errors: pd.DataFrame) -> Table:
    """Return the error about past queries of each attack that revises its estimates."""
    points, errors = result.points(), in_order(errors, result.run)
    labels = [lppm_column(), text_column("attack", "attack"), *swept_columns(swept_paths(points))]
    lag = Column("reports later", lambda row: Cell(row["lag"]))
    rows = rows_with_swept_values(errors, points)
    return Table([*labels, lag, *PAST_ERRORS], rows, past_errors_caption(errors))
