"""Table of what the reports cost the users of services."""

from __future__ import annotations

from sim.analysis.result import Result
from sim.analysis.services.shown import services_table
from sim.errors import UserError
from sim.report.markup import Markup, bulleted, joined
from sim.report.study import Study
from sim.report.tables import html_table
from sim.storage.summary_rows import summarized


def services(study: Study) -> Markup:
    """Return a table for each run whose scenario names services and that recorded queries."""
    with_services = [result for result in study.results if result.manifest.scenario.world.services]
    return joined([_services(result) for result in with_services if not summarized(result.manifest)])


def _services(result: Result) -> Markup:
    try:
        losses = result.services()
    except UserError as error:  # the files of a service may be missing or have changed since the run
        return bulleted([f"Services: {error}"], "notes")
    return joined([html_table(services_table(result, losses)), bulleted(losses.notes, "notes")])
