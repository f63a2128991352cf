"""The commands `report` and `compare`: HTML pages of one or several runs."""

from __future__ import annotations

from pathlib import Path

import click

from sim.escaping import visible


@click.command()
@click.argument("run_directory", metavar="RUN")
def report(run_directory: str) -> None:
    """Write the HTML report of RUN.

    Writes report.html to RUN, a self-contained page with conclusions, tables, charts, a map that replays the traces,
    and the scenario. The command `run` does this automatically.
    """
    from sim.analysis.result import Result
    from sim.report import write
    from sim.storage.ro_crate import refresh_crate

    result = Result.open(run_directory)
    written = write(result)
    refresh_crate(result.run)
    click.echo(visible(f"wrote {written}"))


@click.command()
@click.argument("run_directories", metavar="RUN RUN...", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("compare.html"),
    show_default=True,
    metavar="FILE",
    help="HTML file to write.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def compare(run_directories: tuple[str, ...], out: Path, overwrite: bool) -> None:
    """Compare several runs in one HTML page.

    The page is like that of `report`, with the mechanisms of all runs in each table and chart, comparisons paired by
    user, and the differences between the scenarios.
    """
    from sim.analysis.result import Result
    from sim.errors import InputError, input_errors
    from sim.report import page
    from sim.storage.atomic import atomic_file

    if len(run_directories) < 2:
        raise InputError(
            "compare needs two or more runs, got one; for one run use `lppm-sim report`", code="too-few-runs"
        )
    if len({Path(name).resolve() for name in run_directories}) < len(run_directories):
        raise InputError("a run is given twice: name different runs", code="duplicate-run")
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"-o: found {str(out)!r}, expected a name that ends with .html", code="unsupported-file-type")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists: choose another name with -o, or use --overwrite", code="file-exists")
    with input_errors("cannot write the page"):
        content = page([Result.open(directory) for directory in run_directories]).encode()
        with atomic_file(out) as file:
            file.write(content)
    click.echo(visible(f"wrote {out}"))
