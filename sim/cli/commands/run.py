"""The command `run`."""

from __future__ import annotations

import re

import click

from sim.cli.options import RunOptions, ScenarioCommand, ScenarioOptions, run_options, scenario_options
from sim.escaping import visible


def _shard(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Parse I/N."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise click.BadParameter(f"{text!r} is not I/N with I from 1 to N, such as 3/8")
    return int(match[1]), int(match[2])


@click.command(cls=ScenarioCommand)
@scenario_options
@run_options
@click.option("--shard", callback=_shard, metavar="I/N", help="Simulate only the I-th of N shards, for job arrays.")
@click.option("--chunk", metavar="ID", help="Simulate only this chunk; a failure shows its traceback.")
@click.option(
    "--chunk-queries",
    type=click.IntRange(1),
    help="Queries per chunk of replications; results do not depend on it  [default: 10,000]",
)
def run(
    scenario: ScenarioOptions,
    options: RunOptions,
    *,
    shard: tuple[int, int] | None,
    chunk: str | None,
    chunk_queries: int | None,
) -> None:
    """Run SCENARIO into a run directory.

    Writes an event log, tables, figures and a report. A second run resumes an interrupted one.
    """
    from sim.cli.kernels import load_kernels
    from sim.cli.output.result import print_result, print_shard
    from sim.cli.progress import Bar
    from sim.execution.run import run as run_scenario
    from sim.simulation.interrupts import explained

    options.require_lasting_directory()
    study = scenario.load_with_consent()
    load_kernels()
    with Bar(study.name) as bar:
        result = run_scenario(
            study,
            out=options.out,
            progress=bar,
            figures=options.figures,
            workers=options.workers if chunk is not None else options.processes(),
            dask=options.dask,
            dask_timeout=options.dask_timeout,
            shard=shard,
            chunk=chunk,
            chunk_queries=chunk_queries,
        )
    with explained(f"interrupted; the simulation is complete and kept in {result.run}"):
        if chunk is not None:
            click.echo(visible(f"chunk {chunk} is in {result.run}"))
        elif shard is not None:
            print_shard(shard, result)
        else:
            print_result(result, redrawn=options.figures)
