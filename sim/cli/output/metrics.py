"""Further metrics of each mechanism and attack (`summarize --metrics`)."""

from __future__ import annotations

from sim.analysis.metrics import METRICS, recorded_metrics
from sim.analysis.result import Result
from sim.analysis.sweep_labels import in_order
from sim.analysis.tables import Table, lppm_column, metrics_columns, swept_columns, table_spread_note, text_column
from sim.cli.output.tables import print_table, rows_with_swept_values, swept_paths
from sim.cli.output.terminal import stdout
from sim.escaping import escape


def print_metrics(result: Result) -> None:
    """Print further metrics of each mechanism and attack, those in km first, and their definitions."""
    console = stdout()
    for table in metrics_tables(result):
        print_table(table)
    for name in recorded_metrics(result.shown_metrics()):
        console.print(f"{METRICS[name].heading:>20}  {METRICS[name].description}", highlight=False)
    for line in result.metric_notes():
        console.print(f"[yellow]note:[/] {escape(line)}", highlight=False)


def metrics_tables(result: Result) -> list[Table]:
    """Return further metrics of each mechanism and attack, those in km first; the first table has the caption."""
    metrics, points = in_order(result.shown_metrics(), result.run), result.points()
    shown = recorded_metrics(metrics)
    distances = [name for name in shown if name.endswith(("_loss_km", "_error_km"))]
    labels = [lppm_column(), text_column("attack", "attack"), *swept_columns(swept_paths(points))]
    rows = rows_with_swept_values(metrics, points)
    groups = filter(None, (distances, [name for name in shown if name not in distances]))
    captions = (f"Further metrics; {table_spread_note(metrics)}", "")
    return [
        Table([*labels, *metrics_columns(names)], rows, caption)
        for names, caption in zip(groups, captions, strict=False)
    ]
