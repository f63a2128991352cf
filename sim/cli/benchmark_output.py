"""What the benchmark prints: the table of targets, the costs of components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from sim.cli.output.terminal import stdout
from sim.escaping import escape

if TYPE_CHECKING:
    from sim.bench import Outcome as Measured
    from sim.bench.costs import Cost as PartCost


def print_bench(outcomes: Sequence[Measured], machine: dict[str, Any]) -> None:
    """Print the table of targets and the machine."""
    table = Table()
    table.add_column("row")
    table.add_column("what", ratio=3)
    for heading in ("measured", "limit", "ratio", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("met")
    table.add_column("limit and note", ratio=4)
    for row in outcomes:
        sign = "<=" if row.direction == "at_most" else ">="
        table.add_row(
            row.name,
            escape(row.what),
            "" if row.measured is None else _amount(row.measured, row.unit),
            "" if row.limit is None else _amount(row.limit, row.unit),
            "" if row.ratio is None else f"{row.ratio:,.0f}x" if row.ratio >= 100 else f"{row.ratio:.3g}x",
            f"{sign} {row.target:g}x",
            {True: "[green]yes[/]", False: "[red]no[/]", None: "skipped"}[row.met],
            escape("; ".join(filter(None, (row.beside, row.note)))),
        )
    console = stdout()
    console.print(table, highlight=False)
    _print_machine(console, machine)


_COSTS = {
    "design": (
        "a query, with its channel",
        ("first", "new prior", "budget", "same prior", "memory"),
        "first: the design and its first channel; budget: a new prior and a quality_budget_km of 1",
    ),
    "belief": ("a report", ("report",), ""),
    "attack": (
        "a report",
        ("report", "with expected figures", "end"),
        "end: what is said of all queries after the last report, once",
    ),
}


def print_costs(costs: Sequence[PartCost], cells: int, machine: dict[str, Any]) -> None:
    """Print the cost of each component, one table per family, and the machine."""
    console = stdout()
    for family, (title, columns, note) in _COSTS.items():
        rows = [cost for cost in costs if cost.part.family == family]
        shown = [column for column in columns if any(column in row.figures for row in rows)]
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
                _amount(row.figures[column], "bytes" if column == "memory" else "s") if column in row.figures else ""
                for column in shown
            ]
            table.add_row(row.part.name, *amounts)
        console.print(table, highlight=False)
        for row in rows:
            if row.note:
                console.print(escape(f"{row.part.name}: {row.note}"), highlight=False)
    _print_machine(console, machine)


def _print_machine(console: Console, machine: dict[str, Any]) -> None:
    console.print(
        escape(
            f"CPU time on {machine['cpu']}, Python {machine['python']}, numpy {machine['numpy']}, "
            f"BLAS threads: {machine['blas_threads']}, kernels: {machine['kernels']}"
        ),
        highlight=False,
    )


def _amount(value: float, unit: str) -> str:
    """Format seconds or bytes in a readable unit.

    >>> _amount(0.00123, "s"), _amount(6e8, "bytes"), _amount(2.6e9, "bytes"), _amount(1.0, "exponent")
    ('1.23 ms', '600 MB', '2.6 GB', 'r^1')
    """
    if unit == "exponent":
        return f"r^{value:.3g}"
    if unit == "bytes":
        return f"{value / 1e9:.3g} GB" if value >= 1e9 else f"{value / 1e6:.3g} MB"
    size, name = next(((size, name) for size, name in ((1.0, "s"), (1e-3, "ms")) if value >= size), (1e-6, "us"))
    return f"{value / size:.3g} {name}"
