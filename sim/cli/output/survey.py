"""Output of a survey of a trace file: numbers, remarks, and a region and grid as YAML.

Names and texts from files are shown verbatim: nothing in them is interpreted as markup or terminal codes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from sim.cli.output.terminal import stdout
from sim.components.wording import counted
from sim.datasets.importing import Box
from sim.datasets.survey.remarks import MANY_OUTSIDE, remarks
from sim.datasets.survey.survey import Survey
from sim.datasets.survey.user_shares import KEPT_SHARE, UserShares
from sim.escaping import escape, visible
from sim.mobility.recorded.importable import converted, import_command, is_importable
from sim.world.locations import Locations

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_QUANTILES = {0.5: "median"}


def print_survey(
    survey: Survey,
    path: Path,
    *,
    locations: Locations | None = None,
    columns: Mapping[str, str] | None = None,
    region: bool,
) -> None:
    """Print a survey; with `region`, also the suggested region and grid."""
    _print(_lines(survey, path, locations))
    for remark in remarks(survey, locations):
        _print_note(remark)
    if region:
        print_suggestion(survey, path, columns)


def print_rest(survey: Survey, path: Path, locations: Locations) -> None:
    """Print what the description of a small file lacks: sampling, gaps, remarks, and the suggested region."""
    _print(_sampling(survey))
    for remark in remarks(survey, locations, default_position=False):
        _print_note(remark)
    print_suggestion(survey, path)


def print_suggestion(survey: Survey, path: Path, columns: Mapping[str, str] | None = None) -> None:
    """Print the suggested region and grid as the beginning of a scenario."""
    suggestion = survey.suggestion
    if suggestion is None:
        return
    width_km, height_km = suggestion.size_km
    region = f"a region of {width_km:.3g} x {height_km:.3g} km with {suggestion.share:.1%} of the rows"
    _print([("suggested", f"{region}, {_kept(suggestion.users)}; in a scenario:")])
    if is_importable(path):
        _print([("", f"after `{import_command(path)}`:")])
        path, columns = converted(path), None
    for line in suggested_yaml(survey, path, columns):
        stdout().print(f"    {escape(visible(line, keep=''))}", highlight=False, soft_wrap=True)


def _kept(shares: UserShares) -> str:
    """Return the shares of the rows of users in a region: of each user if there are few, else of the worst."""
    named = [f"{user} {share:.1%}" for user, share in shares.lowest]
    if shares.users <= len(named):
        return f"of each user: {', '.join(named)}"
    most = f"{shares.users - shares.losing:,} of {shares.users:,} users"
    return f"and at least {KEPT_SHARE:.0%} of those of {most} (worst: {named[0]})"


def suggested_yaml(survey: Survey, path: Path, columns: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the lines of `world` and `users` of a scenario, ready to paste."""
    if survey.suggestion is None:
        return
    south, north, west, east = survey.suggestion.box
    yield "world:"
    yield (
        f"  grid: {{kind: region, south: {south:g}, north: {north:g}, west: {west:.7g}, east: {east:.7g}, "
        f"cell_m: {survey.suggestion.cell_m:g}}}"
    )
    named = ", ".join(f"{name}: {json.dumps(column)}" for name, column in (columns or {}).items())
    # A JSON string is valid YAML, whatever the name contains.
    yield "users:"
    yield f"  mobility: {{kind: replay, file: {json.dumps(str(path))}{f', columns: {{{named}}}' if named else ''}}}"


def print_next_step(path: Path, columns: Mapping[str, str] | None, *, large: bool) -> None:
    """Print the command for a figure and the most frequent points; large files have none."""
    text = "To check a scenario, use `lppm-sim check SCENARIO`."
    describe = "For a figure and the most frequent points, use "
    if columns or is_importable(path):
        target = shlex.quote(str(converted(path)))
        text = f"{describe}`{import_command(path, columns)}`, then `lppm-sim data describe {target}`. {text}"
    elif not large:
        text = f"{describe}`lppm-sim data describe {shlex.quote(str(path))}`. {text}"
    stdout().print(f"\n{escape(visible(text, keep=''))}", highlight=False, soft_wrap=True)


def suggests_another_region(survey: Survey) -> bool:
    """Return whether the grid omits many rows, or many rows of many users, so that another region is suggested."""
    if survey.cells is None or not survey.rows:
        return False
    losing = survey.kept is not None and survey.kept.losing > MANY_OUTSIDE * survey.kept.users
    return losing or _outside(survey) > MANY_OUTSIDE * survey.rows


def _outside(survey: Survey) -> int:
    return survey.rows - int(survey.cells.sum()) if survey.cells is not None else 0


def _lines(survey: Survey, path: Path, locations: Locations | None) -> Iterator[tuple[str, str]]:
    yield "traces", f"{path}: {counted(survey.rows, 'row')} of {counted(survey.users, 'user')}"
    if survey.span_s is not None:
        first, last = survey.span_s
        days = (last - first) / 86_400
        yield "time", f"{_moment(first)} to {_moment(last)} UTC, {days:,.1f} days"
    else:
        yield "time", "none, rows are only ordered"
    if survey.extent is not None:
        yield "extent", _box(survey.extent)
    if locations is not None and survey.cells is not None and survey.rows:
        out, visited = _outside(survey), int((survey.cells > 0).sum())
        yield (
            "region",
            f"{out:,} rows ({out / survey.rows:.2%}) are outside; the others are in {visited:,} of "
            f"{locations.n_cells:,} cells",
        )
    yield from _sampling(survey)


def _sampling(survey: Survey) -> Iterator[tuple[str, str]]:
    """Yield lines on the time between rows and on sessions."""
    if survey.gaps_s:
        parts = [f"{_QUANTILES.get(share, f'{share:.0%}')} {_time(gap_s)}" for share, gap_s in survey.gaps_s]
        yield "sampling", f"time between rows: {', '.join(parts)}, longest {_time(survey.longest_gap_s)}"
        gaps = f"{counted(survey.long_gaps, 'gap')} of over {_time(survey.max_gap_s)}"
        yield "sessions", f"{survey.sessions:,}, separated by {gaps} (max_gap_s)"
    if survey.sampled is not None:
        yield "", f"quantiles, frequent points and regions are those of a random sample of {survey.sampled:,} rows"


def _print(lines: Iterable[tuple[str, str]]) -> None:
    for name, text in lines:
        stdout().print(f"{name:>10}  {escape(visible(text, keep=''))}", highlight=False, soft_wrap=True)


def _print_note(note: str) -> None:
    stdout().print(f"{'note':>10}  {escape(visible(note, keep=''))}", highlight=False, soft_wrap=True)


def _time(seconds: float) -> str:
    """Return a duration in its largest unit."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds / size:.3g} {unit}"


def _moment(seconds: float) -> str:
    return str(np.datetime64(int(seconds), "s")).replace("T", " ")


def _box(box: Box) -> str:
    south, north, west, east = box
    return f"lat {south:.9g} to {north:.9g}, lon {west:.9g} to {east:.9g}"
