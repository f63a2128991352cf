"""The command of the benchmark: `python -m benchmarks`, or `make bench`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from sim.cli.kernels import load_kernels
from sim.cli.suggestions import require_known
from sim.cli.threads import THREAD_VARIABLES


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("names", metavar="[ROW]...", nargs=-1)
@click.option("--quick", is_flag=True, help="Take 90 seconds, with fewer rounds and less work in each.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the table and its samples to this JSON file.")
@click.option("--overwrite", is_flag=True, help="Replace the JSON file if it exists.")
@click.option(
    "--costs", is_flag=True, help="Measure the CPU time of each design, belief and attack instead, or of those named."
)
@click.option(
    "--cells",
    type=click.IntRange(4, 10_000),
    default=250,
    help="Number of cells of the grid with --costs (default: 250).",
)
@click.option(
    "--solver",
    type=click.Choice(["ipm", "simplex", "clarabel"]),
    default="ipm",
    help="Solver of linear programs with --costs.",
)
def main(
    names: tuple[str, ...], quick: bool, out: Path | None, overwrite: bool, costs: bool, cells: int, solver: str
) -> None:
    """Measure how close the simulator comes to the limits of this machine.

    Prints one row for each target, or for each ROW: the measured value, the limit, their ratio and the target. Exits
    with 1 if a target is missed. With --costs, prints the CPU time of the components of a scenario; large linear
    programs are solved only if they are named: --costs optimal_privacy --cells 100.
    """
    if threads := [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if os.environ[name] != "1"]:
        raise click.UsageError(f"limits are measured with one thread: unset {', '.join(threads)}; nothing was measured")
    if costs:
        if quick or out is not None:
            raise click.UsageError("--costs allows only --cells and --solver, got --quick or --out")
        _measure_costs(names, cells, solver)
    else:
        _measure_rows(names, quick, out, overwrite)


def _measure_rows(names: tuple[str, ...], quick: bool, out: Path | None, overwrite: bool) -> None:
    from benchmarks import measuring, scale
    from benchmarks.output import TargetTable
    from benchmarks.rows import ROWS

    rows = {row.name: row for row in ROWS}
    chosen = [
        rows[require_known(name, rows, noun="row", plural="Rows", code="unknown-row")]
        for name in dict.fromkeys(names or rows)
    ]
    if out is not None and out.exists() and not overwrite:
        raise click.UsageError(f"{out} exists: choose another name or add --overwrite; nothing was measured")
    if out is not None and not out.parent.is_dir():
        raise click.UsageError(f"the folder {out.parent} does not exist; nothing was measured")
    load_kernels()
    table = TargetTable(chosen)
    outcomes = []
    for outcome in measuring.measure(
        chosen,
        scale.QUICK if quick else scale.FULL,
        long=quick or bool(names),
        progress=lambda row: click.echo(f"measuring {row.name}: {row.what}", err=True),
    ):
        table.add(outcome)
        outcomes.append(outcome)
    result = measuring.document(outcomes, quick=quick)
    table.end(result["machine"])
    if out is not None:
        out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if any(outcome.met is False for outcome in outcomes):
        click.get_current_context().exit(1)


def _measure_costs(names: tuple[str, ...], cells: int, solver: str) -> None:
    from benchmarks import measuring
    from benchmarks.costs import measure, parts, shape_of
    from benchmarks.output import print_costs

    named = parts()
    chosen = [
        named[require_known(name, named, noun="component", plural="Components", code="unknown-component")]
        for name in dict.fromkeys(names or named)
    ]
    load_kernels()
    costs = measure(
        chosen,
        cells=cells,
        solver=solver,
        named=bool(names),
        progress=lambda part: click.echo(f"measuring {part.name}", err=True),
    )
    rows, cols = shape_of(cells)
    print_costs(costs, rows * cols, measuring.machine())


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
