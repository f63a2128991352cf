"""The commands `data import` and `data describe`; heavy modules are imported inside the functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sim.cli.options import column_names


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


class _Origin(click.ParamType):  # type: ignore[type-arg]
    name = "origin"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        """Return latitude and longitude."""
        try:
            lat, lon = (float(number) for number in value.split(","))
        except ValueError:
            self.fail(f"found {value!r}, expected two numbers LAT,LON", param, context)
        if not abs(lat) < 90 or not abs(lon) <= 180:
            self.fail(f"found {value!r}, expected LAT in (-90, 90) and LON in [-180, 180]", param, context)
        return lat, lon


class _Start(click.ParamType):  # type: ignore[type-arg]
    name = "start"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        """Return whole Unix seconds of ISO 8601 text, in UTC by default."""
        from sim.datasets.lines import moment

        try:
            return moment(value, "--start")[0]
        except ValueError as error:
            self.fail(str(error), param, context)


@click.group(name="data")
def data() -> None:
    """Import and describe real data sets.

    `data import` converts raw data to a trace file, which the mobility model `replay` reads.
    """


@data.command(name="import")
@click.argument("arguments", metavar="[FORMAT] PATH...", nargs=-1, required=True)
@click.option("-o", "--out", required=True, metavar="FILE", help="Trace file to write, NAME.parquet.")
@click.option(
    "--region",
    type=_Region(),
    metavar="LAT0,LAT1,LON0,LON1",
    help="Region to import, in degrees, or `all`.  [default: all; San Francisco for the data sets of the paper]",
)
@click.option(
    "--columns", multiple=True, metavar="NAME=COLUMN", help="Column of user, time, order, lat or lon (CSV, Parquet)."
)
@click.option("--user", metavar="NAME", help="User of all rows, for formats that name none.")
@click.option("--network", type=click.Path(path_type=Path), metavar="FILE", help="Road network of SUMO or MATSim.")
@click.option("--crs", metavar="EPSG:CODE", help="Coordinate reference system of positions in m (SUMO, MATSim).")
@click.option("--origin", type=_Origin(), metavar="LAT,LON", help="Position of x = 0, y = 0 of a plane in m.")
@click.option("--start", type=_Start(), metavar="DATE", help="Date, or date and time, of time 0 of a simulation.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def import_data(
    *,
    arguments: tuple[str, ...],
    out: str,
    region: Any,
    columns: tuple[str, ...],
    overwrite: bool,
    **settings: Any,
) -> None:
    """Convert raw data to a trace file.

    FORMAT is recognised by the content of the files if it is omitted; `lppm-sim data formats` lists all formats. PATH
    is a file, optionally gzipped, or a folder. Invalid rows are skipped and reported.
    """
    from sim.cli.output.data import print_import
    from sim.cli.progress import BytesBar
    from sim.datasets.formats import FORMATS
    from sim.datasets.formats.base import Options
    from sim.datasets.importing import format_of, import_traces
    from sim.errors import UserError

    given = arguments[0] in FORMATS and not (len(arguments) == 1 and Path(arguments[0]).exists())
    paths = [Path(path) for path in arguments[given:]]
    settings["start_s"] = settings.pop("start")
    options = Options(columns=column_names(columns), **settings)
    one = format_of(arguments[0] if given else None, paths)
    box = one.region if region is None else None if region == "all" else region
    try:
        with BytesBar(one.name) as bar:
            counts = import_traces(one.name, paths, out, region=box, options=options, overwrite=overwrite, progress=bar)
    except KeyboardInterrupt:
        raise UserError("interrupted; nothing was written", code="interrupted") from None
    print_import(counts, Path(out), one, box, recognised=not given)


@data.command()
@click.argument("name", required=False)
def formats(name: str | None) -> None:
    """List the formats that `data import` reads, or explain the format NAME."""
    from sim.cli.output.data import print_formats
    from sim.datasets.formats import FORMATS
    from sim.errors import InputError

    if name is not None and name not in FORMATS:
        raise InputError(f"no format {name}, expected one of {', '.join(FORMATS)}", code="unknown-format")
    print_formats([FORMATS[name]] if name else list(FORMATS.values()), detailed=name is not None)


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
    from sim.datasets.describing import load
    from sim.datasets.picture import picture
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
