"""The commands `report` and `compare`: one run or several as one page."""

from __future__ import annotations

from pathlib import Path

import click

from sim.escaping import visible


@click.command()
@click.argument("run_directory", metavar="RUN")
def report(run_directory: str) -> None:
    """Write the report of RUN again.

    Writes report.html into RUN: conclusion, tables, charts, a map to replay, and the scenario, as one self-contained
    page. A run does this automatically.
    """
    from sim.analysis.result import Result
    from sim.report import write

    click.echo(visible(f"wrote {write(Result.open(run_directory))}"))


@click.command()
@click.argument("run_directories", metavar="RUN RUN...", nargs=-1, required=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("compare.html"), show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def compare(run_directories: tuple[str, ...], out: Path, overwrite: bool) -> None:
    """Compare several runs in one page.

    Like `report`, with the mechanisms of all runs in each table and chart, comparisons paired by user, and the
    differences between the scenarios.
    """
    from sim.analysis.result import Result
    from sim.errors import input_errors
    from sim.report import page
    from sim.storage.atomic import atomic_file

    if len(run_directories) < 2:
        raise click.UsageError("one run is not compared with anything: name two or more, or use `lppm-sim report`")
    if len({Path(name).resolve() for name in run_directories}) < len(run_directories):
        raise click.UsageError("a run is named twice: it differs in nothing from itself")
    if out.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"{out} must end in .html: the comparison is a page")
    if out.exists() and not overwrite:
        raise click.UsageError(f"{out} is there already: choose another name with -o or add --overwrite")
    with input_errors("the page cannot be written"):
        content = page([Result.open(directory) for directory in run_directories]).encode()
        with atomic_file(out) as file:
            file.write(content)
    click.echo(visible(f"wrote {out}"))
