"""The command `answers`: what an adversary learns from the reports of a run, in metres, days and shares of users."""

from __future__ import annotations

import click

from sim.cli.quantity import KM


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    "--radius",
    "radii_km",
    type=KM,
    multiple=True,
    metavar="KM",
    help="Radius, such as 0.3km or 300m; may be repeated.  [default: 0.1, 0.5, 0.564 and 2]",
)
@click.option(
    "--top",
    "counts",
    type=click.IntRange(1, 100),
    multiple=True,
    metavar="N",
    help="Number of most visited places; may be repeated.  [default: 1, 2, 3 and 5]",
)
@click.option(
    "--night",
    type=(click.FloatRange(0, 24), click.FloatRange(0, 24)),
    default=(22.0, 6.0),
    show_default=True,
    metavar="FROM UNTIL",
    help="Hours of the day at which users are at home.",
)
@click.option(
    "--utc-offset",
    "utc_offset_h",
    type=click.FloatRange(-14, 14),
    default=0.0,
    show_default=True,
    metavar="HOURS",
    help="Local time minus the time of the queries.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all answers as JSON; write no files.")
def answers(
    run_directory: str,
    radii_km: tuple[float, ...],
    counts: tuple[int, ...],
    night: tuple[float, float],
    utc_offset_h: float,
    as_json: bool,
) -> None:
    """Answer what the adversaries of RUN learn.

    How often is a user located within a radius, how many days until their home is known, how many of their most visited
    places are found, are they singled out by their reports, and can two pseudonymous weeks be linked? Next to each
    answer is that of control attacks, which guess without any report. Writes answers.csv, home_exposure.csv,
    figures/home_exposure and figures/located to RUN. Needs a log with a row per query (record: {log: queries}).
    """
    from sim.analysis.result import Result
    from sim.cli.output.answers import answers_json, print_answers
    from sim.escaping import visible
    from sim.execution.finish import write_answers
    from sim.storage.ro_crate import refresh_crate

    result = Result.open(run_directory)
    answered = result.answers(radii_km, counts, (*night, utc_offset_h))
    if as_json:
        click.echo(answers_json(answered))
        return
    write_answers(result, answered)
    refresh_crate(result.run)
    print_answers(result, answered)
    names = "answers.csv, home_exposure.csv, figures/home_exposure and figures/located"
    click.echo(visible(f"wrote {names} to {result.run}"))
