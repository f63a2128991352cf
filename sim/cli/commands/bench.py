"""The command `bench`: measured times against the limits of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import click

from sim.cli.kernels import load_kernels
from sim.cli.suggestions import require_known
from sim.cli.threads import THREAD_VARIABLES


@click.command()
@click.argument("names", metavar="[ROW]...", nargs=-1)
@click.option("--quick", is_flag=True, help="In three minutes, with fewer rounds and less work in each.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="JSON file for the table and its samples.")
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
@click.option("--costs", is_flag=True, help="Instead: what each design, belief and attack costs, or those named.")
@click.option("--cells", type=click.IntRange(4, 10_000), default=250, help="Of --costs: size of the grid, 250.")
@click.option(
    "--solver", type=click.Choice(["ipm", "simplex", "clarabel"]), default="ipm", help="Of --costs: of linear programs."
)
def bench(
    names: tuple[str, ...], quick: bool, out: Path | None, overwrite: bool, costs: bool, cells: int, solver: str
) -> None:
    """Measure how near this machine's limits we come.

    One row for each target: what was measured, the limit beside it, their ratio and the target; with ROW only these.
    Ends with 1 if a target is missed. With --costs, CPU time of the parts of a scenario; large linear programs are
    solved only if they are named: lppm-sim bench --costs optimal_privacy --cells 100.
    """
    import json

    from sim import bench as benchmark
    from sim.cli.benchmark_output import print_bench
    from sim.errors import input_errors

    if threads := [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if os.environ[name] != "1"]:
        raise click.UsageError(f"limits are measured on one thread: unset {', '.join(threads)}, nothing was measured")
    if costs:
        if quick or out is not None:
            raise click.UsageError("--costs goes with --cells and --solver, found --quick or --out")
        _print_costs(names, cells, solver)
        return
    rows = {row.name: row for row in benchmark.ROWS}
    chosen = [rows[require_known(name, rows, what="row", plural="Rows")] for name in dict.fromkeys(names or rows)]
    if out is not None and out.exists() and not overwrite:
        raise click.UsageError(f"{out} is there already: choose another name or add --overwrite, nothing was measured")
    if out is not None and not out.parent.is_dir():
        raise click.UsageError(f"the folder {out.parent} does not exist: nothing was measured")
    load_kernels()
    outcomes = benchmark.measure(
        chosen,
        benchmark.QUICK if quick else benchmark.FULL,
        progress=lambda row: click.echo(f"measuring {row.name}: {row.what}", err=True),
    )
    result = benchmark.document(outcomes, quick=quick)
    print_bench(outcomes, result["machine"])
    if out is not None:
        with input_errors("the table cannot be written"):
            out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if any(outcome.met is False for outcome in outcomes):
        click.get_current_context().exit(1)


def _print_costs(names: tuple[str, ...], cells: int, solver: str) -> None:
    from sim import bench as benchmark
    from sim.bench import costs
    from sim.cli.benchmark_output import print_costs

    parts = costs.parts()
    chosen = [parts[require_known(name, parts, what="part", plural="Parts")] for name in dict.fromkeys(names or parts)]
    load_kernels()
    found = costs.measure(
        chosen,
        cells=cells,
        solver=solver,
        named=bool(names),
        progress=lambda part: click.echo(f"measuring {part.name}", err=True),
    )
    rows, cols = costs.shape_of(cells)
    print_costs(found, rows * cols, benchmark.machine())
