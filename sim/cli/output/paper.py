"""Output of `paper`: the claims in a table, and where the files are."""

from __future__ import annotations

from rich.table import Table

from sim.cli.output.terminal import duration, stdout
from sim.escaping import escape
from sim.paper.claims.verdicts import Finding
from sim.paper.reproduce import Evaluation

_COLOURS = {"holds": "green", "does not hold": "red", "cannot be told": "yellow"}


def print_evaluation(evaluation: Evaluation) -> None:
    """Print every claim with its verdict, how long it took, and where the files are."""
    console = stdout()
    table = Table()
    table.add_column("section", no_wrap=True)
    table.add_column("the paper says", ratio=3)
    table.add_column("measured, in % of Q-bar", ratio=2)
    table.add_column("verdict", no_wrap=True)
    for finding in evaluation.findings:
        verdict = f"[{_COLOURS[finding.verdict]}]{finding.verdict}[/]"
        table.add_row(escape(finding.section), escape(finding.claim), escape(_range(finding)), verdict)
    console.print(table)
    simulated = (
        f"{evaluation.simulated:,} queries were simulated" if evaluation.simulated else "nothing was left to simulate"
    )
    rest = evaluation.queries - evaluation.simulated
    before = f" ({rest:,} were there already)" if rest and evaluation.simulated else ""
    console.print(f"{simulated}{before}; all took {duration(evaluation.seconds)}", highlight=False)
    console.print(
        f"claims.md, all-panels.png and the {len(evaluation.tables)} panels as PDF, PNG and CSV are in "
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
