"""The command `export`: the event log as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from sim.cli.options import file_stem
from sim.escaping import visible


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    default="csv",
    show_default=True,
    help="File format.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write.  [default: <name of RUN>.<format> in the current folder]",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def export(run_directory: str, form: Literal["csv", "jsonl", "parquet"], out: Path | None, overwrite: bool) -> None:
    """Write the event log of RUN to one file."""
    from sim.storage.export import export as export_run
    from sim.storage.run_directory import RunDirectory

    destination = out or Path(f"{file_stem(run_directory)}.{form}")
    done = export_run(RunDirectory.open(run_directory), destination, form, overwrite=overwrite)
    click.echo(visible(f"wrote {done.rows:,} rows to {done.path}"))
