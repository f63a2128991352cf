"""The command `services`: what the reports of a run cost the users of services."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

_NAMED = re.compile(r"\s*([^={]+?)\s*=\s*(\{.*)", re.DOTALL)
ORIGIN = "--service"


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    ORIGIN,
    "specifications",
    multiple=True,
    metavar="[NAME=]SPEC",
    help="Service, as under `world.services` in a scenario, such as '{kind: nearest_points, file: cafes.csv, k: 10}'; "
    "may be repeated.  [default: the services of the scenario]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of the files named data:NAME.  [default: $LPPM_SIM_DATA]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex", "csv", "json"]),
    default="text",
    show_default=True,
    help="Format of the printed table; with another format than text, no file is written.",
)
@click.option("--json", "form", flag_value="json", help="Short for --format json.")
def services(run_directory: str, specifications: tuple[str, ...], data: Path | None, form: str) -> None:
    """Report what the reports of RUN cost the users of services.

    A service answers for the reported place: which points of interest are nearest, to which one to travel, in which
    zone the user is. Prints the mean loss (points missed, extra km, wrong zones or tariffs) and the shares of queries
    and users whose answers differ from those to the true place, and writes services.csv to RUN. Needs a log with a row
    per query (record: {log: queries}). `lppm-sim list service` lists the kinds.
    """
    from sim.analysis.result import Result
    from sim.cli.output.services import print_services, services_text
    from sim.escaping import visible
    from sim.execution.finish import write_services

    result = Result.open(run_directory)
    losses = result.services(_specifications(specifications) if specifications else None, data=data)
    if form != "text":
        click.echo(services_text(result, losses, form))
        return
    write_services(result, losses)
    print_services(result, losses)
    click.echo(visible(f"wrote services.csv to {result.run}"))


def _specifications(texts: Sequence[str]) -> dict[str, Any]:
    """Return the services by name; the default name is the kind, numbered if it is repeated."""
    from sim.scenario.reading.source import parse_value

    named: dict[str, Any] = {}
    for text in texts:
        match = _NAMED.fullmatch(text)
        spec = parse_value(match[2] if match else text, ORIGIN)
        kind = str(spec.get("kind", "service")) if isinstance(spec, dict) else "service"
        name = match[1] if match else kind
        if match and name in named:
            raise click.BadParameter(f"two services are called {name!r}", param_hint=ORIGIN)
        number = 2
        while name in named:
            name, number = f"{kind} {number}", number + 1
        named[name] = spec
    return named
