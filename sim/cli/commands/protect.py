"""The command `protect`: apply a mechanism to a live stream."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sim.cli.mechanism import MechanismOptions, mechanism_options
from sim.cli.options import ScenarioCommand
from sim.escaping import visible

if TYPE_CHECKING:
    from sim.protection.protector import Protector


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
    from sim.cli.kernels import load_kernels
    from sim.protection.lines import lines_of
    from sim.protection.streaming import protect_lines

    load_kernels()
    policies = {"markov_restart": markov_restart, "outside": outside, "seed": seed}
    with _opened(state, mechanism, {name: value for name, value in policies.items() if value is not None}) as protector:
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


def _opened(state: Path, mechanism: MechanismOptions, policies: dict[str, Any]) -> Protector:
    """Begin or continue the state; errors name options instead of arguments of `sim.protect`."""
    from sim.api.protect import protect as open_protector
    from sim.errors import InputError
    from sim.protection import journal
    from sim.protection.mismatch import StateMismatch

    given = mechanism.arguments() | policies
    if not journal.exists(state) and (missing := mechanism.missing()):
        raise InputError(
            f"the state {state} does not exist: to begin one, {missing} must be given", code="missing-option"
        )
    try:
        return open_protector(state=state, **given)
    except StateMismatch as error:
        options = mechanism.options_of(error.arguments, policies)
        raise InputError(error.described(f"`{name}`" for name in options), code=error.code) from error


def _write(line: str) -> None:
    """Write a line and let it leave the process."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _warn(message: str) -> None:
    click.echo(visible(message), err=True)
