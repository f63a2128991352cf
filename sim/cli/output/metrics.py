"""Further metrics of each mechanism and attack (`summarize --metrics`)."""

from __future__ import annotations

from rich.table import Table

from sim.analysis.metrics import METRICS, recorded_metrics, unrecorded_metrics
from sim.analysis.result import Result
from sim.analysis.sweep_labels import in_order, path_headings, with_swept_values
from sim.analysis.tables import spread_note
from sim.cli.output.cells import spreads, swept_value, with_spread
from sim.cli.output.terminal import stdout
from sim.escaping import escape


def print_metrics(result: Result) -> None:
    """Print further metrics of each mechanism and attack, those in km first, and the meaning of each."""
    console = stdout()
    metrics, points = in_order(result.shown_metrics(), result.run), result.points()
    swept = path_headings([path for path in points.columns if path != "point"])
    valued = with_swept_values(metrics[["lppm", "point"]], points).to_dict("records")
    shown = recorded_metrics(metrics)
    distances = [name for name in shown if name.endswith(("_loss_km", "_error_km"))]
    console.print(f"More metrics; {spread_note(spreads(metrics))}", style="italic", highlight=False)
    for names in filter(None, (distances, [name for name in shown if name not in distances])):
        table = Table()
        for heading in ("LPPM", "attack"):
            table.add_column(heading)
        for heading in (*swept.values(), *(METRICS[name].heading for name in names)):
            table.add_column(escape(heading), justify="right")
        for values, row in zip(valued, metrics.to_dict("records"), strict=True):
            figures = (with_spread(row, name, METRICS[name].digits) for name in names)
            table.add_row(
                escape(row["lppm"]), escape(row["attack"]), *(swept_value(values[path]) for path in swept), *figures
            )
        console.print(table, highlight=False)
    for name in shown:
        console.print(f"{METRICS[name].heading:>20}  {METRICS[name].words}", highlight=False)
    for line in unrecorded_metrics(metrics, result.manifest):
        console.print(f"[yellow]note:[/] {escape(line)}", highlight=False)
