"""Output of the `data` commands.

Names and texts from files are shown verbatim: nothing in them is interpreted as markup or terminal codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sim.cli.output.terminal import stdout
from sim.components.wording import counted
from sim.datasets.counts import Counts
from sim.datasets.describing import MANY_DAYS, MANY_ROWS, Description
from sim.datasets.formats.base import Format
from sim.datasets.regions import Box
from sim.escaping import escape, visible

_WIDTH = 15


def print_import(counts: Counts, path: Path, one: Format, region: Box | None, *, recognised: bool) -> None:
    """Print the numbers of imported and rejected rows, and the path of the trace file."""
    lines = [("format", f"{one.name}, recognised by the content")] if recognised else []
    lines.append((f"{one.unit}s", f"{counts.lines:,}"))
    if counts.unreadable:
        lines.append(("invalid", f"{counted(counts.unreadable, one.unit)}, skipped; the first ones:"))
        lines += [("", line) for line in counts.first_unreadable]
    for number, (kind, count) in enumerate(counts.ignored.items()):
        lines.append(("" if number else "not used", f"{count:,} {kind}"))
    if region is not None:
        lines.append(
            ("outside", f"{counted(counts.outside, 'row')} outside the region, skipped; the region is {_box(region)}")
        )
    lines.append(("imported", f"{counted(counts.kept, 'row')} of {counted(counts.users, 'user')}"))
    if counts.duplicates:
        duplicates = counted(counts.duplicates, "row that repeats", "rows that repeat")
        lines.append(("", f"including {duplicates} another row in every column"))
    if counts.unordered:
        unordered = counted(counts.unordered, "row that was", "rows that were")
        lines.append(("", f"including {unordered} not in order of time; the rows are sorted"))
    if counts.span is not None:
        lines.append(("time", _span(*counts.span)))
    if one.time_note:
        lines.append(("", one.time_note))
    if one.grid is not None:
        lines.append(("grid", f"cells of {_grid(one)}; positions in degrees are unknown"))
    lines.append(("wrote", f"{path} ({path.stat().st_size / 1e6:,.1f} MB)"))
    _print(lines)


def _span(first: int, last: int) -> str:
    return f"{_moment(first)} to {_moment(last)} UTC, {(last - first) / 86_400:,.1f} days"


def _grid(one: Format) -> str:
    grid = one.grid
    assert grid is not None
    return (
        f"{{kind: rectangle, rows: {grid.rows}, cols: {grid.cols}, width_km: {grid.width_km:g}, "
        f"height_km: {grid.height_km:g}}}"
    )


def print_formats(formats: Iterable[Format], *, detailed: bool) -> None:
    """Print a line per format, or all that is known of one."""
    for one in formats:
        if not detailed:
            _print([(one.name, one.description)], width=_WIDTH)
            continue
        lines = [("format", one.name), ("data", one.description), ("source", one.source), ("content", one.checks)]
        lines += [("options", ", ".join(sorted(one.options)))] if one.options else []
        lines += [("region", f"{_box(one.region)} by default")] if one.region else []
        lines += [("time", one.time_note)] if one.time_note else []
        lines += [("grid", _grid(one))] if one.grid else []
        _print(lines)


def print_description(description: Description, path: Path) -> None:
    """Print the description of a trace file."""
    grid = description.grid
    span = "none, rows are only ordered"
    if description.span_s is not None:
        first, last = description.span_s
        span = _span(first, last)
    size = f"{grid.width_km:,.1f} x {grid.height_km:,.1f} km"
    grid_name = "the paper's grid" if description.of_paper else f"a grid of {grid.rows} x {grid.cols} cells over {size}"
    quantiles = ", ".join(f"{_share(share)} {rows:,}" for share, rows in description.rows_per_user)
    name, most = description.most_rows
    lines = [
        ("file", f"{path}{f' ({description.source})' if description.source else ''}"),
        ("rows", f"{description.rows:,} of {counted(description.users, 'user')}"),
        ("time", span),
        *([("extent", _box(description.extent))] if description.extent else []),
        (
            "region",
            f"{description.inside:,} rows in {description.cells_visited:,} of {grid.n_cells:,} cells of {grid_name}",
        ),
        ("per user", f"{quantiles} rows; maximum: user {name}, {counted(most, 'row')}"),
        ("", f"{description.users_with_many:,} users have at least {MANY_ROWS} rows in the region"),
    ]
    for number, (lat, lon, rows) in enumerate(description.points):
        share = rows / description.inside
        place = f"{lat:.6f}, {lon:.6f}" if description.extent else f"x {lat:g} km, y {lon:g} km"
        lines.append(("" if number else "top points", f"{place}: {counted(rows, 'row')}, {share:.1%}"))
    if description.good_days is not None:
        days = list(description.good_days.values())
        enough = sum(count >= MANY_DAYS for count in days)
        lines.append(("good days", f"{sum(days):,} days from midnight to midnight (UTC-7) without a gap over 2 h"))
        lines.append(("", f"{enough:,} of {len(days):,} cabs have at least {MANY_DAYS} good days"))
    _print(lines, description.warnings)


def _print(lines: Iterable[tuple[str, str]], notes: Iterable[str] = (), *, width: int = 10) -> None:
    console = stdout()
    for name, text in lines:
        console.print(f"{name:>{width}}  {escape(visible(text, keep=''))}", highlight=False, soft_wrap=True)
    for note in notes:
        console.print(f"[yellow]note:[/] {escape(visible(note, keep=''))}", highlight=False, soft_wrap=True)


def _box(box: Box) -> str:
    south, north, west, east = box
    return f"lat {south:.9g} to {north:.9g}, lon {west:.9g} to {east:.9g}"


def _moment(seconds: int) -> str:
    import numpy as np

    return str(np.datetime64(seconds, "s")).replace("T", " ")


def _share(share: float) -> str:
    return {0.0: "min", 0.5: "median", 1.0: "max"}.get(share, f"{share:.0%}")
