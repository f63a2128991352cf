"""The command `export`: the event log as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sim.cli.options import file_stem
from sim.escaping import visible

if TYPE_CHECKING:
    from sim.storage.export import Format


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "parquet", "geoparquet", "geojson", "kml"]),
    default="csv",
    show_default=True,
    help="File format; geoparquet, geojson and kml have one point per true position, report and estimate.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write.  [default: <name of RUN>.<format> in the current folder]",
)
@click.option("--places", is_flag=True, help="Add the positions of true cells, reports and estimates to each row.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def export(run_directory: str, form: Format, out: Path | None, places: bool, overwrite: bool) -> None:
    """Write the event log of RUN to one file.

    Positions are latitudes and longitudes, or km east and north if the world of RUN is a plane in km.
    """
    from sim.storage.export import SUFFIXES
    from sim.storage.export import export as export_run
    from sim.storage.run_directory import RunDirectory

    destination = out or Path(f"{file_stem(run_directory)}.{SUFFIXES[form]}")
    done = export_run(RunDirectory.open(run_directory), destination, form, places=places, overwrite=overwrite)
    content = "features" if form in ("geoparquet", "geojson", "kml") else "rows"
    click.echo(visible(f"wrote {done.rows:,} {content} to {done.path}"))
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
