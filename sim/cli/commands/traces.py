"""The command `traces`: the true traces of a scenario as CSV."""

from __future__ import annotations

from pathlib import Path

import click

from sim.cli.options import ScenarioCommand, ScenarioOptions, scenario_options
from sim.components.wording import counted
from sim.escaping import visible


@click.command(cls=ScenarioCommand)
@scenario_options
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="CSV file to write; .gz compresses it.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def traces(scenario: ScenarioOptions, *, out: Path, overwrite: bool) -> None:
    """Write the true traces of SCENARIO as CSV.

    The file lists the cells of all queries, in the format that the mobility model `replay` reads.
    """
    from sim.errors import InputError, input_errors
    from sim.mobility.recorded.replay import write_csv
    from sim.simulation.population import Population
    from sim.simulation.setting import Setting

    if out.exists() and not overwrite:
        raise InputError(
            f"{out} exists: choose another name, or use --overwrite; nothing was written", code="file-exists"
        )
    study = scenario.load_with_consent()
    population = Population(Setting(study), 0)
    traces = population.traces
    with input_errors("cannot write the traces"):
        write_csv(out, traces, population.setting.world.locations)
    queries = counted(sum(map(len, traces)), "query", "queries")
    click.echo(visible(f"wrote {queries} of {counted(len(traces), 'user')} to {out}"))
