"""The command `plot`: the figures of a run, or one figure for a publication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sim.cli.options import file_stem
from sim.errors import InputError
from sim.escaping import visible


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    "--figure",
    "kind",
    type=click.Choice(
        [
            *("tradeoff", "over_time", "efficiency", "adaptation", "tournament", "home_exposure", "located"),
            *("users", "profiles", "map"),
        ]
    ),
    help="Draw a single figure in print quality.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --figure: PDF, SVG, PNG or EPS file.  [default: <name of RUN>-<figure>.pdf in the current folder]",
)
@click.option(
    "--width", metavar="WIDTH", help="With --figure: column (3.5 in), page (7.16 in), or inches.  [default: column]"
)
@click.option(
    "--lppm", "lppms", multiple=True, metavar="NAME", help="With --figure: show only this LPPM; may be repeated."
)
@click.option(
    "--attack", "attacks", multiple=True, metavar="NAME", help="With --figure: show only this attack; may be repeated."
)
@click.option(
    "--user", "users", multiple=True, metavar="ID", help="With --figure users or map: show this user; may be repeated."
)
@click.option("--xlim", metavar="A:B", help="With --figure: limits of the x axis; either end may be missing.")
@click.option("--ylim", metavar="A:B", help="With --figure: limits of the y axis; either end may be missing.")
@click.option("--xscale", type=click.Choice(["linear", "log"]), help="With --figure: scale of the x axis.")
@click.option("--yscale", type=click.Choice(["linear", "log"]), help="With --figure: scale of the y axis.")
@click.option(
    "--font-size", type=float, metavar="PT", help="With --figure: size of axis labels in points.  [default: 8]"
)
@click.option("--overwrite", is_flag=True, help="With --figure: replace an existing file.")
def plot(run_directory: str, kind: str | None, **options: Any) -> None:
    """Draw the figures of RUN, or one figure for a publication.

    Without --figure, draws all figures of RUN again. With --figure, writes one file with embedded fonts, as wide as a
    column or a page.
    """
    if kind is not None:
        _plot_for_print(run_directory, kind, **options)
        return
    if unused := [f"--{name.removesuffix('s').replace('_', '-')}" for name, value in options.items() if value]:
        raise InputError(f"{', '.join(unused)}: needs --figure", code="missing-option")
    from contextlib import suppress

    from sim.analysis.result import Result
    from sim.plots import write_adaptation, write_figures
    from sim.storage.errors import NotApplicable
    from sim.storage.ro_crate import refresh_crate

    result = Result.open(run_directory)
    paths = write_figures(result)
    if not result.shifts().empty:
        with suppress(NotApplicable):
            paths += write_adaptation(result.run, result.adaptation())
    refresh_crate(result.run)
    for path in paths:
        click.echo(visible(str(path)))


def _plot_for_print(
    run_directory: str,
    kind: str,
    *,
    out: Path | None,
    width: str | None,
    xlim: str | None,
    ylim: str | None,
    xscale: Any,
    yscale: Any,
    font_size: float | None,
    **options: Any,
) -> None:
    from sim.plots.axis_control import AxisControl, parse_limits
    from sim.plots.for_print import width_in, write_figure
    from sim.storage.run_directory import RunDirectory

    destination = out or Path(f"{file_stem(run_directory)}-{kind}.pdf")
    inches = width_in(width or "column")
    xlimits, ylimits = (None if text is None else parse_limits(text) for text in (xlim, ylim))
    axes = AxisControl(xlimits, ylimits, xscale, yscale, font_size)
    path = write_figure(RunDirectory.open(run_directory), kind, destination, width=inches, axes=axes, **options)
    click.echo(visible(str(path)))
