"""The commands `data import` and `data describe`: parsing and printing only. Heavy imports wait inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_SOURCES = ("brightkite", "gowalla", "cabspotting")


class _Region(click.ParamType):  # type: ignore[type-arg]
    name = "region"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        """Return four bounds, or the word all."""
        if value == "all" or not isinstance(value, str):
            return value
        try:
            south, north, west, east = (float(word) for word in value.split(","))
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

    Raw downloads become a trace file for the mobility `replay`. docs/data.md names the sources.
    """


@data.command(name="import")
@click.argument("source", type=click.Choice(_SOURCES))
@click.argument("raw", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, help="Trace file to write, NAME.parquet.")
@click.option(
    "--region",
    type=_Region(),
    metavar="LAT0,LAT1,LON0,LON1",
    help="Keep this region, in degrees, or `all`  [default: the paper's San Francisco]",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def import_data(source: str, raw: tuple[Path, ...], out: str, region: Any, overwrite: bool) -> None:
    """Convert raw downloads to a trace file.

    RAW is SNAP's loc-SOURCE_totalCheckins.txt, gzipped or not, or CRAWDAD's folder of new_<cab>.txt. Unreadable
    lines are counted, shown and skipped.
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
        raise UserError("stopped; nothing was written") from None
    print_import(counts, Path(out), box)


@data.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Picture  [default: FILE's name and .png, beside it]"
)
@click.option("--overwrite", is_flag=True, help="Replace an existing picture named by -o.")
@click.option("--figure/--no-figure", default=True, help="Draw the picture.")
def describe(file: Path, out: Path | None, overwrite: bool, figure: bool) -> None:
    """Describe a trace file in numbers and a picture.

    FILE is an output of `data import`, or a CSV file with a header.
    """
    from sim.cli.output.data import print_description
    from sim.datasets.describing import describe as describe_traces
    from sim.datasets.describing import load, picture
    from sim.datasets.trace_file import check_output
    from sim.errors import input_errors
    from sim.escaping import visible
    from sim.storage.atomic import atomic_file

    path = file.with_name(f"{file.name}.png") if out is None else out
    if figure and out is not None:
        if out.suffix.lower() != ".png":
            raise click.UsageError(f"-o: found {str(out)!r}, expected a name that ends with .png")
        check_output(out, inputs=[file], overwrite=overwrite)
    with input_errors("the file cannot be described"):
        traces = load(file)
    found = describe_traces(traces)
    print_description(found, file)
    if figure:
        content = picture(traces, found, title=file.name)
        with atomic_file(path) as target:
            target.write(content)
        click.echo(visible(f"\nthe picture is in {path}"))
