"""The command `protect`: apply a mechanism to a live stream."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sim.cli.mechanism import MechanismOptions, mechanism_options
from sim.cli.options import ScenarioCommand
from sim.escaping import visible


@click.command(cls=ScenarioCommand)
@mechanism_options
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="File of the state: begun if it does not exist, otherwise continued.",
)
@click.option(
    "--markov-restart", type=click.Choice(["never", "daily"]), help="Restart of Markov models.  [default: never]"
)
@click.option(
    "--outside",
    type=click.Choice(["refuse", "nearest"]),
    help="Answer to a position outside the region: no report, or that of the nearest cell.  [default: refuse]",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of the noise. For tests only.")
def protect(
    mechanism: MechanismOptions, *, state: Path, markov_restart: str | None, outside: str | None, seed: int | None
) -> None:
    """Answer a live stream of positions with reports of a mechanism.

    Reads queries from standard input, one per line, as JSON lines or CSV with time, lat and lon, optionally user and
    seq. Writes one answer per line, each after it is stored in the state. A query that was answered before gets the
    same answer. With an existing state, --state is sufficient.
    """
    from sim.api.protect import protect as open_protector
    from sim.cli.kernels import load_kernels
    from sim.protection.lines import lines_of
    from sim.protection.streaming import protect_lines

    load_kernels()
    given = mechanism.arguments()
    for name, value in (("markov_restart", markov_restart), ("outside", outside), ("seed", seed)):
        if value is not None:
            given[name] = value
    with open_protector(state=state, **given) as protector:
        for note in protector.notes():
            _warn(note)
        queries = lines_of(sys.stdin.buffer)
        counts = protect_lines(protector, queries, _write, _warn)
        moved = protector.moved
    listed = ", ".join(f"{number:,} {status}" for status, number in sorted(counts.items()))
    _warn(f"{counts.total():,} answers{': ' if listed else ''}{listed}")
    if moved:
        _warn(f"{moved:,} positions outside the region were replaced by the nearest cell")
    if counts["invalid"]:
        click.get_current_context().exit(1)


def _write(line: str) -> None:
    """Write a line and let it leave the process."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _warn(message: str) -> None:
    click.echo(visible(message), err=True)
