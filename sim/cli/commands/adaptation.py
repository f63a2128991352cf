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
    help="Fraction of the previous efficiency that counts as recovered.",
)
@click.option(
    "--before",
    type=click.IntRange(1),
    default=150,
    show_default=True,
    help="Longest baseline before the shift, in queries.",
)
@click.option("--shift", metavar="NAME", help="Name of the shift  [default: the first]")
@click.option("--against", metavar="LPPM", help="The LPPM that others are compared with  [default: the first]")
def adaptation(
    run_directory: str, window: int, recovered: float, before: int, shift: str | None, against: str | None
) -> None:
    """Show how mechanisms of RUN adapt to a shift.

    Efficiency P_AE / Q-bar before and after the shift, queries until recovery and queries lost. Writes adaptation.csv
    and figures/adaptation. A run with shifts does this automatically.
    """
    from sim.analysis.result import Result
    from sim.cli.output.adaptation import print_adaptation
    from sim.execution.finish import write_adaptation_results

    result = Result.open(run_directory)
    response = result.adaptation(window=window, recovered=recovered, before=before, shift=shift)
    if against is not None and against not in set(response.summary["lppm"]):
        raise click.UsageError(f"no LPPM {against!r}: there are {', '.join(dict.fromkeys(response.summary['lppm']))}")
    write_adaptation_results(result, response)
    print_adaptation(result, response, against)
    click.echo(visible(f"adaptation.csv and figures/adaptation are in {result.run}"))
