"""Print the benchmark: a line for each row when it is measured, and tables of costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.costs import Cost
from benchmarks.measuring import Outcome
from benchmarks.targets import Row
from sim.cli.output.terminal import stdout
from sim.escaping import escape

_WIDTHS = {"measured": 9, "limit": 9, "ratio": 8, "target": 9, "met": 7}
"""Columns between the name of a row and its description; the table is printed line by line, so widths are fixed."""

_COSTS = {
    "design": (
        "a query, with its channel",
        ("first", "new prior", "budget", "same prior", "memory"),
        "first: the design and its first channel; budget: a new prior and a quality_budget_km of 1",
    ),
    "belief": ("a report", ("report",), ""),
    "attack": (
        "a report",
        ("report", "with expected metrics", "end"),
        "end: final revision of all estimates after the last report, once",
    ),
}


class TargetTable:
    """Table of targets, printed row by row."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._console = stdout()
        self._name_width = max(len(row.name) for row in rows)
        headings = [f"{heading:>{width}}" for heading, width in _WIDTHS.items() if heading != "met"]
        self._print("row".ljust(self._name_width), *headings, "met".ljust(_WIDTHS["met"]), "what, limit and note")

    def add(self, outcome: Outcome) -> None:
        """Print one row."""
        sign = "<=" if outcome.direction == "at_most" else ">="
        amounts = {
            "measured": "" if outcome.measured is None else amount(outcome.measured, outcome.unit),
            "limit": "" if outcome.limit is None else amount(outcome.limit, outcome.unit),
            "ratio": "" if outcome.ratio is None else _times(outcome.ratio),
            "target": f"{sign} {outcome.target:g}x",
        }
        word, style = {True: ("yes", "green"), False: ("no", "red"), None: ("skipped", "yellow")}[outcome.met]
        description = escape("; ".join(filter(None, (outcome.what, outcome.beside, outcome.note))))
        self._print(
            outcome.name.ljust(self._name_width),
            *(f"{amounts[heading]:>{_WIDTHS[heading]}}" for heading in amounts),
            f"[{style}]{word.ljust(_WIDTHS['met'])}[/]",
            description,
        )

    def end(self, machine: dict[str, Any]) -> None:
        """Print a description of the machine."""
        _print_machine(self._console, machine)

    def _print(self, *cells: str) -> None:
        self._console.print("  ".join(cells), highlight=False, soft_wrap=True)
        self._console.file.flush()


def print_costs(costs: Sequence[Cost], cells: int, machine: dict[str, Any]) -> None:
    """Print the cost of each component, with a table for each family, and the machine."""
    console = stdout()
    for family, (title, columns, note) in _COSTS.items():
        rows = [cost for cost in costs if cost.part.family == family]
        shown = [column for column in columns if any(column in row.metrics for row in rows)]
        if not rows:
            continue
        table = Table(
            title=f"{family}: {title}, {cells} cells",
            caption=note if note.partition(":")[0] in shown else None,
            title_justify="left",
        )
        table.add_column(family)
        for column in shown:
            table.add_column(column, justify="right", no_wrap=True)
        for row in rows:
            amounts = [
                amount(row.metrics[column], "bytes" if column == "memory" else "s") if column in row.metrics else ""
                for column in shown
            ]
            table.add_row(row.part.name, *amounts)
        console.print(table, highlight=False)
        for row in rows:
            if row.note:
                console.print(escape(f"{row.part.name}: {row.note}"), highlight=False)
    _print_machine(console, machine)


def amount(value: float, unit: str) -> str:
    """Format seconds or bytes in a readable unit.

    >>> amount(0.00123, "s"), amount(6e8, "bytes"), amount(2.6e9, "bytes"), amount(1.0, "exponent")
    ('1.23 ms', '600 MB', '2.6 GB', 'r^1')
    """
    if unit == "exponent":
        return f"r^{value:.3g}"
    if unit == "bytes":
        return f"{value / 1e9:.3g} GB" if value >= 1e9 else f"{value / 1e6:.3g} MB"
    size, name = next(((size, name) for size, name in ((1.0, "s"), (1e-3, "ms")) if value >= size), (1e-6, "us"))
    return f"{value / size:.3g} {name}"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def _print_machine(console: Console, machine: dict[str, Any]) -> None:
    console.print(
        escape(
            f"CPU time on {machine['cpu']}, Python {machine['python']}, numpy {machine['numpy']}, "
            f"BLAS threads: {machine['blas_threads']}, kernels: {machine['kernels']}"
        ),
        highlight=False,
    )
