"""Tables of results in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import rich.table

from sim.analysis.sweep_labels import with_swept_values
from sim.analysis.tables import Cell, Row, Table, with_swept_cells
from sim.cli.output.terminal import stdout
from sim.escaping import escape


def print_table(table: Table) -> None:
    """Print a table and its caption, if any."""
    printed = rich.table.Table()
    for column in table.columns:
        printed.add_column(escape(column.heading), justify="right" if column.numeric else "left")
    sections = [table.section(row) if table.section else None for row in table.rows]
    for row, section, following in zip(table.rows, sections, [*sections[1:], None], strict=True):
        cells = [_text(column.cell(row)) for column in table.columns]
        printed.add_row(*cells, end_section=section != following)
    console = stdout()
    if table.caption:
        console.print(escape(table.caption + table.hint), style="italic", highlight=False)
    console.print(printed, highlight=False)


def rows_with_swept_values(frame: pd.DataFrame, points: pd.DataFrame) -> list[Row]:
    """Return the rows of a frame, by LPPM and point, with the swept values that affect the LPPM."""
    values = with_swept_values(frame[["lppm", "point"]], points).to_dict("records")
    return with_swept_cells(frame.to_dict("records"), values)


def swept_paths(points: pd.DataFrame) -> Sequence[str]:
    """Return the paths of swept values."""
    return [path for path in points.columns if path != "point"]


def _text(cell: Cell) -> str:
    return escape(" ".join(filter(None, (cell.text, cell.spread, "!" if cell.mark else ""))))
