"""Table of the losses of services in the terminal, and in other formats."""

from __future__ import annotations

import json
import math
from typing import Any

from sim.analysis.latex import latex_table
from sim.analysis.markdown import markdown_table, markdown_text
from sim.analysis.result import Result
from sim.analysis.services.shown import services_table
from sim.analysis.services.table import ServiceLosses
from sim.analysis.sweep_labels import with_swept_values
from sim.cli.output.tables import print_table
from sim.cli.output.terminal import stdout
from sim.escaping import escape


def print_services(result: Result, losses: ServiceLosses) -> None:
    """Print the table and its notes."""
    print_table(services_table(result, losses))
    for note in losses.notes:
        stdout().print(escape(note), highlight=False)


def services_text(result: Result, losses: ServiceLosses, form: str) -> str:
    """Return the table as Markdown, LaTeX, CSV (with all digits) or JSON, with notes in Markdown and JSON."""
    match form:
        case "markdown":
            return "\n".join([markdown_table(services_table(result, losses)), *map(_note_line, losses.notes)])
        case "latex":
            return "\n".join(["% Needs \\usepackage{booktabs}.", latex_table(services_table(result, losses))])
        case "csv":
            return with_swept_values(losses.table, result.points()).to_csv(index=False).rstrip("\n")
    records = [{str(name): _plain(value) for name, value in row.items()} for row in losses.table.to_dict("records")]
    return json.dumps({"services": records, "notes": list(losses.notes)}, indent=2, allow_nan=False)


def _note_line(note: str) -> str:
    return f"\n{markdown_text(note)}"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
