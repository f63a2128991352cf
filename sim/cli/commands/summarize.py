"""The command `summarize`: recompute and print the tables of a run."""

from __future__ import annotations

import click

from sim.errors import InputError


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    "--at",
    "losses_km",
    type=click.FloatRange(0),
    multiple=True,
    metavar="KM",
    help="Also print the adversary error at this quality loss in km; may be repeated.",
)
@click.option("--against", metavar="LPPM", help="With --at: reference LPPM of the comparisons.  [default: first LPPM]")
@click.option(
    "--ceiling", metavar="LPPM", help="With --at: also print P_AE divided by that of this LPPM, which has a ceiling."
)
@click.option("--metrics", is_flag=True, help="Also print further metrics, with theoretical next to measured values.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "latex"]),
    default="text",
    show_default=True,
    help="Print text, or only the tables as LaTeX, which need the package booktabs.",
)
def summarize(
    run_directory: str,
    losses_km: tuple[float, ...],
    against: str | None,
    ceiling: str | None,
    metrics: bool,
    form: str,
) -> None:
    """Recompute and print the tables of RUN.

    Writes summary.csv and metrics.csv from the event log and prints the summary. With --at, interpolates each user's
    trade-off curve and compares LPPMs paired by user. With --metrics, prints hit rate, entropy, worst loss and epsilon
    if recorded.
    """
    from sim.analysis.result import Result
    from sim.cli.output.equal_loss import print_at_loss
    from sim.cli.output.latex import print_latex
    from sim.cli.output.metrics import print_metrics
    from sim.cli.output.result import print_result
    from sim.storage.ro_crate import refresh_crate

    for option, lppm in (("--against", against), ("--ceiling", ceiling)):
        if lppm is not None and not losses_km:
            raise InputError(f"{option} needs --at, such as --at 1", code="missing-option")
    result = Result.open(run_directory)
    compared = result.at_loss(losses_km, against=against, ceiling=ceiling) if losses_km else None
    result.run.write_csv("summary.csv", result.summary())
    result.run.write_csv("metrics.csv", result.metrics())
    refresh_crate(result.run)
    if form == "latex":
        print_latex(result, compared, metrics=metrics)
        return
    print_result(result)
    if compared is not None:
        print_at_loss(compared)
    if metrics:
        print_metrics(result)
