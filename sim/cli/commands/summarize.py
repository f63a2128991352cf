"""The command `summarize`: recompute and print the tables of a run."""

from __future__ import annotations

import click


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    "--at",
    "losses_km",
    type=click.FloatRange(0),
    multiple=True,
    metavar="KM",
    help="Also print the adversary error at this quality loss; may be repeated.",
)
@click.option(
    "--against", metavar="LPPM", help="With --at: the LPPM that others are compared with  [default: the first]"
)
@click.option("--metrics", is_flag=True, help="Print further metrics, and privacy guarantees next to measured values.")
def summarize(run_directory: str, losses_km: tuple[float, ...], against: str | None, metrics: bool) -> None:
    """Recompute the tables of RUN from its event log.

    Writes summary.csv and metrics.csv and prints the table. With --at, reads the error off each user's trade-off curve
    and compares LPPMs paired by user. With --metrics, prints hit rate, entropy, worst loss and epsilon where recorded.
    """
    from sim.analysis.result import Result
    from sim.cli.output.equal_loss import print_at_loss
    from sim.cli.output.metrics import print_metrics
    from sim.cli.output.result import print_result

    if against is not None and not losses_km:
        raise click.UsageError("--against needs a quality loss to compare at, such as --at 1")
    result = Result.open(run_directory)
    compared = result.at_loss(losses_km, against=against) if losses_km else None
    result.run.write_csv("summary.csv", result.summary())
    result.run.write_csv("metrics.csv", result.metrics())
    print_result(result)
    if compared is not None:
        print_at_loss(compared)
    if metrics:
        print_metrics(result)
