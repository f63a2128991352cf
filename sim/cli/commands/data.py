"""The commands `data import` and `data describe`; heavy modules are imported inside the functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sim.cli.options import column_names

_SOURCES = ("brightkite", "gowalla", "cabspotting")


class _Region(click.ParamType):  # type: ignore[type-arg]
    name = "region"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        """Return four bounds, or "all"."""
        if value == "all" or not isinstance(value, str):
            return value
        try:
            south, north, west, east = (float(bound) for bound in value.split(","))
        except ValueError:
            self.fail(f"found {value!r}, expected four numbers LAT0,LAT1,LON0,LON1 or all", param, context)
        if not -90 <= south < north <= 90 or not -180 <= west < east <= 180:
            self.fail(
                f"found {value!r}, expected -90 <= LAT0 < LAT1 <= 90 and -180 <= LON0 < LON1 <= 180", param, context
            )
        return south, north, west, east


@click.group(name="data")
def data() -> None:
    """Import and describe real data sets.

    `data import` converts raw downloads to a trace file, which the mobility model `replay` reads.
    """


@data.command(name="import")
@click.argument("source", type=click.Choice(_SOURCES))
@click.argument("raw", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, metavar="FILE", help="Trace file to write, NAME.parquet.")
@click.option(
    "--region",
    type=_Region(),
    metavar="LAT0,LAT1,LON0,LON1",
    help="Region to import, in degrees, or `all`.  [default: the paper's region of San Francisco]",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def import_data(source: str, raw: tuple[Path, ...], out: str, region: Any, overwrite: bool) -> None:
    """Convert raw downloads to a trace file.

    RAW is the file loc-SOURCE_totalCheckins.txt of SNAP, optionally gzipped, or the folder of files new_<cab>.txt of
    CRAWDAD. Invalid lines are skipped and reported.
    """
    from sim.cli.output.data import print_import
    from sim.cli.progress import BytesBar
    from sim.datasets.importing import SAN_FRANCISCO, import_traces
    from sim.errors import UserError

    box = SAN_FRANCISCO if region is None else None if region == "all" else region
    try:
        with BytesBar(source) as bar:
            counts = import_traces(source, raw, out, region=box, overwrite=overwrite, progress=bar)
    except KeyboardInterrupt:
        raise UserError("interrupted; nothing was written", code="interrupted") from None
    print_import(counts, Path(out), box)


@data.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="PNG", help="Figure file.  [default: FILE.png]")
@click.option("--overwrite", is_flag=True, help="Replace an existing file named by -o.")
@click.option("--figure/--no-figure", default=True, help="Draw a figure.  [default: yes]")
@click.option("--columns", multiple=True, metavar="NAME=COLUMN", help="Name of the column of user, time, lat or lon.")
def describe(file: Path, out: Path | None, overwrite: bool, figure: bool, columns: tuple[str, ...]) -> None:
    """Describe a trace file in numbers and a figure, and suggest a region and a grid.

    FILE is an output of `data import`, or a CSV file with a header. Files with more than about 3 million rows, and
    files with other column names (--columns), are described in constant memory and without a figure.
    `lppm-sim check SCENARIO` describes the files of a scenario with respect to its region.
    """
    from sim.cli.surveying import is_large, survey_rest, survey_traces

    if columns or (is_large(file) and out is None):
        if columns and out is not None:
            raise click.UsageError("-o and --columns exclude each other: with --columns, no figure is drawn")
        survey_traces(file, column_names(columns))
        return
    from sim.cli.output.data import print_description
    from sim.datasets.describing import describe as describe_traces
    from sim.datasets.describing import load, picture
    from sim.datasets.trace_file import check_output
    from sim.errors import InputError, input_errors
    from sim.escaping import visible
    from sim.storage.atomic import atomic_file

    path = file.with_name(f"{file.name}.png") if out is None else out
    if figure and out is not None:
        if out.suffix.lower() != ".png":
            raise InputError(
                f"-o: found {str(out)!r}, expected a name that ends with .png", code="unsupported-file-type"
            )
        check_output(out, inputs=[file], overwrite=overwrite)
    with input_errors("cannot describe the file"):
        traces = load(file)
    description = describe_traces(traces)
    print_description(description, file)
    survey_rest(file, description.grid)
    if figure:
        content = picture(traces, description, title=file.name)
        with atomic_file(path) as target:
            target.write(content)
        click.echo(visible(f"\nwrote {path}"))
