"""The removed command `bench`, hidden: it names its replacement."""

from __future__ import annotations

import click


@click.command(hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, expose_value=False)
def bench() -> None:
    """Name the replacement of the removed command."""
    raise click.UsageError("the benchmark is not part of the package: run `make bench` in a clone of the repository")
