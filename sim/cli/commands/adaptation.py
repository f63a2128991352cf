"""The command `adaptation`: adaptation of the mechanisms of a run to a shift."""

from __future__ import annotations

import click

from sim.errors import InputError
from sim.escaping import visible


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option("--window", type=click.IntRange(1), default=50, show_default=True, help="Window length in queries.")
@click.option(
    "--recovered",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="Fraction of the efficiency before the shift that counts as recovered.",
)
@click.option(
    "--before",
    type=click.IntRange(1),
    default=150,
    show_default=True,
    help="Maximum length of the baseline before the shift, in queries.",
)
@click.option("--shift", metavar="NAME", help="Name of the shift.  [default: first shift]")
@click.option(
    "--at",
    "loss_km",
    type=click.FloatRange(0, min_open=True),
    metavar="KM",
    help="Interpolate between swept strengths so that each user has this quality loss before the shift.",
)
@click.option("--against", metavar="LPPM", help="Reference LPPM of the comparisons.  [default: first LPPM]")
def adaptation(
    run_directory: str,
    window: int,
    recovered: float,
    before: int,
    shift: str | None,
    loss_km: float | None,
    against: str | None,
) -> None:
    """Analyse how the mechanisms of RUN adapt to a shift.

    Prints the efficiency P_AE / Q-bar before and after the shift, the number of queries until recovery and the number
    of queries lost. With --at, all mechanisms have the same quality loss before the shift. Writes adaptation.csv and
    figures/adaptation to RUN. The command `run` does this automatically for scenarios with shifts.
    """
    from sim.analysis.result import Result
    from sim.cli.output.adaptation import print_adaptation
    from sim.execution.finish import write_adaptation_results
    from sim.storage.ro_crate import refresh_crate

    result = Result.open(run_directory)
    response = result.adaptation(window=window, recovered=recovered, before=before, shift=shift, at_km=loss_km)
    if against is not None and against not in set(response.summary["lppm"]):
        names = ", ".join(dict.fromkeys(response.summary["lppm"]))
        raise InputError(f"no LPPM {against!r}; available: {names}", code="unknown-lppm")
    write_adaptation_results(result, response)
    refresh_crate(result.run)
    print_adaptation(result, response, against)
    click.echo(visible(f"wrote adaptation.csv and figures/adaptation to {result.run}"))
