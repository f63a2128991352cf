"""The command `new`: write a scenario to start from."""

from __future__ import annotations

from pathlib import Path

import click

from sim.escaping import visible


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("scenario.yaml"))
def new(path: Path) -> None:
    """Write a commented scenario to start from.

    PATH is scenario.yaml by default.
    """
    from importlib.resources import files

    from sim.errors import input_errors

    with input_errors("nothing was written"):
        if path.exists():
            raise click.UsageError(f"{path} is there already: choose another name, nothing was written")
        if not path.parent.is_dir():
            raise click.UsageError(f"the folder {path.parent} does not exist: nothing was written")
        path.write_bytes(files("sim.scenario").joinpath("template.yaml").read_bytes())
    click.echo(visible(f"wrote {path}; now: lppm-sim run {path}"))
