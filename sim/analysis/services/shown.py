"""The displayed table of the losses of services."""

from __future__ import annotations

from sim.analysis.result import Result
from sim.analysis.services.table import ServiceLosses, service_caption, service_columns
from sim.analysis.sweep_labels import with_swept_values
from sim.analysis.tables import Table, lppm_column, swept_columns, with_swept_cells


def services_table(result: Result, losses: ServiceLosses) -> Table:
    """Return the displayed table, with the LPPMs in the order of the scenario."""
    lppms = {lppm.name: number for number, lppm in enumerate(result.manifest.scenario.lppms)}
    services = {name: number for number, name in enumerate(dict.fromkeys(losses.shown["service"]))}
    ranks = losses.shown.assign(_service=losses.shown["service"].map(services), _lppm=losses.shown["lppm"].map(lppms))
    shown = ranks.sort_values(["_service", "_lppm", "point"], kind="stable", ignore_index=True)
    points = result.points()
    swept = with_swept_values(shown[["lppm", "point"]], points).to_dict("records")
    labels = [lppm_column(), *swept_columns([str(path) for path in points.columns if path != "point"])]
    rows = with_swept_cells(shown.to_dict("records"), swept)
    return Table(service_columns(labels), rows, service_caption(shown), section=lambda row: row["service"])
