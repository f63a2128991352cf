"""Output of `choose`."""

from __future__ import annotations

from sim.choice.choose import Choice
from sim.choice.ranking import sentences
from sim.choice.table import ranking_table
from sim.cli.output.tables import print_table
from sim.cli.output.terminal import stdout
from sim.escaping import escape


def print_choice(choice: Choice) -> None:
    """Print the table of candidates, warnings, the choice in words, the conditions and the files."""
    console = stdout()
    print_table(ranking_table(choice.ranking, choice.request))
    for warning in choice.warnings:
        console.print(f"[bold yellow]warning:[/] {escape(warning)}", highlight=False)
    first, *others = sentences(choice.ranking, choice.request)
    console.print(f"[bold]{escape(first)}[/]", highlight=False)
    for line in others:
        console.print(escape(line), highlight=False)
    for remark in choice.remarks:
        console.print(f"[yellow]note:[/] {escape(remark)}", highlight=False)
    files = "scenario.yaml (reproduces the comparison), choice.json, choice.html and run/"
    console.print(f"\n{files} are in {escape(str(choice.folder))}", highlight=False, soft_wrap=True)
