"""Remarks on the quality of the data in a trace file, found without knowledge of the data set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.components.wording import counted
from sim.datasets.survey.survey import MOST_USERS, Irregular, Survey
from sim.datasets.survey.user_shares import KEPT_SHARE, UserShares
from sim.escaping import visible
from sim.interfaces import IntArray
from sim.world.grid import Grid
from sim.world.locations import Locations

LARGE_SHARE = 0.1
"""Share of the rows at one point from which the point may be a default position."""
ALMOST_EMPTY = 0.05
"""Share of the rows of an average line of cells below which an outer line is almost empty."""
MANY_OUTSIDE = 0.05
"""Share of rows outside the region from which another region is suggested."""


def remarks(survey: Survey, locations: Locations | None = None, *, default_position: bool = True) -> Iterator[str]:
    """Yield remarks on a survey; `grid` is the one in whose cells its rows were counted.

    Without `default_position`, a frequent point is not mentioned.
    """
    if survey.invalid:
        total = survey.rows + survey.invalid
        yield (
            f"{survey.invalid:,} of {total:,} rows have no user, no time or no position on Earth: a replay rejects the "
            "file and names the first of them"
        )
    if not survey.timed:
        yield (
            "no times, rows are only ordered: scenarios need `demand: every_visit`, and gaps, sessions, stay points "
            "and lengths in days do not exist"
        )
    yield from _irregular(survey)
    if default_position:
        yield from _default_position(survey)
    if survey.zeros:
        yield f"{counted(survey.zeros, 'row is', 'rows are')} at latitude 0 and longitude 0: probably missing positions"
    if survey.kept is not None and survey.kept.losing:
        yield _losing(survey.kept)
    if isinstance(locations, Grid) and survey.cells is not None:
        yield from _empty_lines(survey.cells.reshape(locations.rows, locations.cols))


def _irregular(survey: Survey) -> Iterator[str]:
    texts = {
        "backward": ("goes", "go", "back in time: a replay sorts the rows; check the time column and its time zone"),
        "same_time": (
            "has",
            "have",
            "the time of the user's previous row, but another position: check that each id belongs to one person",
        ),
        "repeated": ("repeats", "repeat", "time and position of the user's previous row: each is a visit"),
    }
    for kind, (one, many, text) in texts.items():
        irregular = survey.irregular.get(kind)
        if irregular is not None and irregular.rows:
            verb = one if irregular.rows == 1 else many
            yield f"{counted(irregular.rows, 'row')} ({_users(irregular)}) {verb} {text}"


def _users(irregular: Irregular) -> str:
    named = ", ".join(f"{visible(user, keep='')}: {rows:,}" for user, rows in irregular.most)
    more = ", ..." if irregular.users > len(irregular.most) else ""
    return f"{irregular.users:,} user{'s' if irregular.users > 1 else ''}; {named}{more}"


def _losing(kept: UserShares) -> str:
    named = ", ".join(
        f"{visible(user, keep='')}: {1 - share:.0%}" for user, share in kept.lowest[:MOST_USERS] if share < KEPT_SHARE
    )
    more = ", ..." if kept.losing > MOST_USERS else ""
    return (
        f"{kept.losing:,} of {kept.users:,} user{'s' if kept.users > 1 else ''} lose more than {1 - KEPT_SHARE:.0%} of "
        f"their rows, which are outside the region ({named}{more}): a place that they visit may be missing"
    )


def _default_position(survey: Survey) -> Iterator[str]:
    point = survey.frequent
    if point is not None and point.share >= LARGE_SHARE and (point.users > 1) == (survey.users > 1):
        users = f", of {point.users:,} users" if point.users > 1 else ""
        yield (
            f"one point, {point.lat:.6f}, {point.lon:.6f}, holds {point.share:.0%} of all rows{users}: a default "
            "position? Remove such rows if users were not there"
        )


def _empty_lines(cells: IntArray) -> Iterator[str]:
    """Yield a remark for each side of the grid whose outer rows or columns are almost empty."""
    if not cells.sum():
        return
    for axis, name, first, last in ((0, "row", "southernmost", "northernmost"), (1, "column", "west", "east")):
        lines = cells.sum(axis=1 - axis)
        names = (first, last) if axis == 0 else (f"{first}ernmost", f"{last}ernmost")
        for ordered, side in zip((lines, lines[::-1]), names, strict=True):
            empty = int(np.argmax(np.append(ordered >= ALMOST_EMPTY * lines.mean(), True)))
            if 0 < empty < lines.size:
                which = f"{empty} {side} {name}s" if empty > 1 else f"{side} {name}"
                held = f"{int(ordered[:empty].sum()):,} of {int(lines.sum()):,} rows"
                yield (
                    f"the {which} of the grid's {lines.size} {'are' if empty > 1 else 'is'} almost empty, with {held}: "
                    "the region may extend beyond the data"
                )
