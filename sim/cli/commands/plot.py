"""The command `plot`: the figures of a run, or one figure for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sim.cli.options import file_stem
from sim.escaping import visible


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    "--figure",
    "kind",
    type=click.Choice(["tradeoff", "over_time", "efficiency", "adaptation", "tournament", "users", "profiles", "map"]),
    help="Draw only this figure, for a paper.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="With --figure: file, .pdf, .svg, .png or .eps  [default: <RUN's name>-<figure>.pdf here]",
)
@click.option(
    "--width", metavar="WIDTH", help="With --figure: column (3.5 in), page (7.16 in) or inches.  [default: column]"
)
@click.option("--lppm", "lppms", multiple=True, metavar="NAME", help="With --figure: this LPPM; may be repeated.")
@click.option("--attack", "attacks", multiple=True, metavar="NAME", help="With --figure: this attack; may be repeated.")
@click.option("--user", "users", multiple=True, metavar="ID", help="With --figure users or map: this user.")
@click.option("--overwrite", is_flag=True, help="With --figure: replace an existing file.")
def plot(run_directory: str, kind: str | None, **asked: Any) -> None:
    """Draw the figures of RUN again, or one figure for a paper.

    With --figure, writes one file as wide as a column or a page, with embedded fonts.
    """
    if kind is not None:
        _plot_for_print(run_directory, kind, **asked)
        return
    if wrong := [f"--{name.removesuffix('s')}" for name, value in asked.items() if value]:
        raise click.UsageError(f"{', '.join(wrong)}: say with --figure which figure that is for")
    from contextlib import suppress

    from sim.analysis.result import Result
    from sim.plots import write_adaptation, write_figures
    from sim.storage.errors import NotApplicable

    result = Result.open(run_directory)
    paths = write_figures(result)
    if not result.shifts().empty:
        with suppress(NotApplicable):
            paths += write_adaptation(result.run, result.adaptation())
    for path in paths:
        click.echo(visible(str(path)))


def _plot_for_print(run_directory: str, kind: str, *, out: Path | None, width: str | None, **asked: Any) -> None:
    from sim.plots.for_print import width_in, write_figure
    from sim.storage.run_directory import RunDirectory

    destination = out or Path(f"{file_stem(run_directory)}-{kind}.pdf")
    inches = width_in(width or "column")
    path = write_figure(RunDirectory.open(run_directory), kind, destination, width=inches, **asked)
    click.echo(visible(str(path)))
