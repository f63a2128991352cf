"""Output of `paper`: a table of the claims, and the folder of the files."""

from __future__ import annotations

from rich.table import Table

from sim.cli.output.terminal import duration, stdout
from sim.escaping import escape
from sim.paper.claims.verdicts import Finding
from sim.paper.reproduce import Evaluation

_COLOURS = {"holds": "green", "does not hold": "red", "undecided": "yellow"}


def print_evaluation(evaluation: Evaluation) -> None:
    """Print all claims with their verdicts, the time taken and the folder of the files."""
    console = stdout()
    table = Table()
    table.add_column("section", no_wrap=True)
    table.add_column("claim", ratio=3)
    table.add_column("measured (% of Q-bar)", ratio=2)
    table.add_column("verdict", no_wrap=True)
    for finding in evaluation.findings:
        verdict = f"[{_COLOURS[finding.verdict]}]{finding.verdict}[/]"
        table.add_row(escape(finding.section), escape(finding.claim), escape(_range(finding)), verdict)
    console.print(table)
    reused = evaluation.queries - evaluation.simulated
    earlier = f" and reused {reused:,}" if reused else ""
    console.print(
        f"simulated {evaluation.simulated:,} queries{earlier} in {duration(evaluation.seconds)}", highlight=False
    )
    console.print(
        f"wrote claims.md, all-panels.png and {len(evaluation.tables)} panels (PDF, PNG, CSV) to "
        f"{escape(str(evaluation.folder))}",
        highlight=False,
        soft_wrap=True,
    )


def _range(finding: Finding) -> str:
    """Return the lowest and highest mean over all panels."""
    means = [100 * row.mean for row in finding.measured]
    if not means:
        return "not tested"
    return f"{min(means):+.1f}" if len(means) == 1 else f"{min(means):+.1f} to {max(means):+.1f}, {len(means)} rows"
