"""The tables of a run as LaTeX (`summarize --format latex`)."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pandas as pd

from sim.analysis.calibrations import calibration_table
from sim.analysis.latex import latex_table
from sim.analysis.result import Result
from sim.analysis.tables import Table
from sim.cli.output.adaptation import adaptation_table
from sim.cli.output.equal_loss import at_loss_table
from sim.cli.output.metrics import metrics_tables
from sim.cli.output.past_queries import hindsight_table
from sim.cli.output.result import shows_standings
from sim.cli.output.summary import run_summary_table, standings_table
from sim.storage.errors import NotApplicable


def print_latex(result: Result, compared: pd.DataFrame | None, *, metrics: bool) -> None:
    """Print all tables of a run; `compared` is a table of `Result.at_loss`."""
    click.echo("% Needs \\usepackage{booktabs}.")
    for table in _tables(result, compared, metrics=metrics):
        click.echo(f"\n{latex_table(table)}")


def _tables(result: Result, compared: pd.DataFrame | None, *, metrics: bool) -> Iterator[Table]:
    yield standings_table(result.tournament()) if shows_standings(result) else run_summary_table(result)
    if (strengths := calibration_table(result.manifest, result.points())) is not None:
        yield strengths
    if not result.shifts().empty:
        try:
            yield adaptation_table(result, result.adaptation())
        except NotApplicable as error:
            click.echo(f"note: adaptation to the shift is not available: {error}", err=True)
    if not (hindsight := result.shown_hindsight()).empty:
        yield hindsight_table(result, hindsight)
    if compared is not None:
        yield at_loss_table(compared)
    if metrics:
        yield from metrics_tables(result)
