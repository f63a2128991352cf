"""The command `adaptation`: how mechanisms of a run adapt to a shift."""

from __future__ import annotations

import click

from sim.escaping import visible


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option("--window", type=click.IntRange(1), default=50, show_default=True, help="Queries in a window.")
@click.option(
    "--recovered",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="Which part of the efficiency before counts as recovered.",
)
@click.option("--before", type=click.IntRange(1), default=150, show_default=True, help="Queries before, at most.")
@click.option("--shift", metavar="NAME", help="Which shift  [default: the first]")
@click.option("--against", metavar="LPPM", help="The LPPM that others are compared with  [default: the first]")
def adaptation(
    run_directory: str, window: int, recovered: float, before: int, shift: str | None, against: str | None
) -> None:
    """Show how mechanisms of RUN followed a shift.

    Efficiency P_AE / Q-bar before and after it, how many queries it takes to recover and how many are lost. Writes
    adaptation.csv and figures/adaptation. A run with shifts does that by itself.
    """
    from sim.analysis.result import Result
    from sim.cli.output.adaptation import print_adaptation
    from sim.execution.finish import write_adaptation_results

    result = Result.open(run_directory)
    found = result.adaptation(window=window, recovered=recovered, before=before, shift=shift)
    if against is not None and against not in set(found.summary["lppm"]):
        raise click.UsageError(f"no LPPM {against!r}: there are {', '.join(dict.fromkeys(found.summary['lppm']))}")
    write_adaptation_results(result, found)
    print_adaptation(result, found, against)
    click.echo(visible(f"adaptation.csv and figures/adaptation are in {result.run}"))
