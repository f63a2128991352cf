"""One figure of a run as one file, as wide as a column or a page of a paper."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from sim.analysis import beliefs, time_series, trajectories
from sim.analysis.result import Result
from sim.analysis.summary import Totals, summarize
from sim.analysis.sweep_labels import circumstances, in_order, named_apart
from sim.analysis.tournament import standings
from sim.plots import style
from sim.plots.adaptation import adaptation_figure
from sim.plots.map import BaseMap, Guesses, map_figure
from sim.plots.of_run import sweep_title, users_of_few
from sim.plots.over_time import efficiency_figure, over_time_figure
from sim.plots.profiles import profiles_figure
from sim.plots.style import Look, looks
from sim.plots.tournament import tournament_figure
from sim.plots.tradeoff import series_looks, tradeoff_figure
from sim.plots.users import users_figure
from sim.storage.atomic import atomic_file
from sim.storage.errors import RequestError
from sim.storage.export import checked_destination
from sim.storage.run_directory import RunDirectory

WIDTHS_IN = {"column": 3.5, "page": 7.16}
"""Of the journals that most of these papers are in, which have two columns."""
NARROWEST_IN, WIDEST_IN = 2.5, 20.0
FORMS = ("pdf", "svg", "png", "eps")
MOST_MAPS = 4
"""Unless LPPMs are named."""


def width_in(text: str) -> float:
    """Read a width: column, page, or a number of inches.

    >>> width_in("column"), width_in("5")
    (3.5, 5.0)
    """
    try:
        width = WIDTHS_IN[text] if text in WIDTHS_IN else float(text)
    except ValueError:
        width = 0.0
    if not NARROWEST_IN <= width <= WIDEST_IN:
        raise RequestError(
            f"the width must be {', '.join(WIDTHS_IN)} or inches from {NARROWEST_IN:g} to {WIDEST_IN:g}, got {text!r}"
        )
    return width


def write_figure(
    run: RunDirectory,
    kind: str,
    destination: str | os.PathLike[str],
    *,
    width: float = WIDTHS_IN["column"],
    lppms: Sequence[str] = (),
    attacks: Sequence[str] = (),
    users: Sequence[str] = (),
    overwrite: bool = False,
) -> Path:
    """Draw a figure of a run into a file, whose suffix says in which form; see `draw`."""
    suffix = Path(destination).suffix.removeprefix(".").lower()
    if suffix not in FORMS:
        raise RequestError(f"the file must end in {', '.join(f'.{form}' for form in FORMS)}, got {destination}")
    path = checked_destination(run, destination, overwrite=overwrite, example=f"{kind}.pdf")
    figure = draw(run, kind, width=width, lppms=lppms, attacks=attacks, users=users)
    (content,) = style.pictures(figure, [suffix]).values()
    with atomic_file(path) as file:
        file.write(content)
    return path


def draw(
    run: RunDirectory,
    kind: str,
    *,
    width: float = WIDTHS_IN["column"],
    lppms: Sequence[str] = (),
    attacks: Sequence[str] = (),
    users: Sequence[str] = (),
) -> Figure:
    """Return a figure of this width in inches, of all LPPMs, attacks and users or of some.

    LPPMs look as in all other figures of the run, whether all are drawn or some. Each is drawn at the middle one of
    its sweep points, but in `tradeoff`, which shows all. Of many LPPMs `map` shows the first unless some are named.
    """
    if kind not in KINDS:
        raise RequestError(f"the figure must be one of {', '.join(KINDS)}, got {kind!r}")
    what = KINDS[kind]
    if attacks and not what.of_attacks:
        raise RequestError(f"the figure {kind} is not about attacks: leave out --attack")
    if users and not what.of_users:
        of_users = " and ".join(name for name, other in KINDS.items() if other.of_users)
        raise RequestError(f"the figure {kind} is of all users: --user is for {of_users}")
    view = _View(run, width, tuple(lppms), tuple(attacks), tuple(users))
    view.refuse_unknown()
    return what.draw(view)


@dataclass(frozen=True)
class _View:
    """What of a run is drawn."""

    run: RunDirectory
    width: float
    lppms: tuple[str, ...]
    attacks: tuple[str, ...]
    users: tuple[str, ...]

    @cached_property
    def result(self) -> Result:
        return Result(self.run)

    @property
    def read(self) -> Totals:
        return self.result.totals()

    @cached_property
    def points(self) -> pd.DataFrame:
        return self.run.read_csv("points.csv")

    @cached_property
    def whole(self) -> pd.DataFrame:
        """The summary of the run, in its order, with LPPMs named apart."""
        return self.named(summarize(self.run, self.read))

    def refuse_unknown(self) -> None:
        for asked, known, what in (
            (self.lppms, self.whole["mechanism"], "LPPM"),
            (self.attacks, self.whole["attack"], "attack"),
            (self.users, self.read.users["user"], "user"),
        ):
            there = [name for name in dict.fromkeys(known) if name]
            for name in asked:
                if name not in there:
                    shown = ", ".join(there[:20]) + (f" and {len(there) - 20} more" if len(there) > 20 else "")
                    raise RequestError(f"{self.run} has no {what} {name!r}: there is {shown or 'none'}")

    @property
    def summary(self) -> pd.DataFrame:
        """The part of the summary that is drawn."""
        return self.only(self.whole)

    @cached_property
    def of_few(self) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
        """The values of each user, where they are too few for intervals."""
        return users_of_few(self.result, self.whole)

    @property
    def looks(self) -> dict[str, Look]:
        return looks(self.whole["lppm"])

    @property
    def title(self) -> str:
        return sweep_title(self.summary, self.points)

    @property
    def shifts(self) -> pd.DataFrame:
        return self.result.shifts()

    @property
    def middle(self) -> list[tuple[str, int]]:
        found = time_series.middle(self.run, self.read)
        return [(lppm, point) for lppm, point in found if not self.lppms or lppm in self.lppms]

    def named(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return rows in the order of the run with LPPMs named apart; `mechanism` keeps their own names."""
        ordered = in_order(table.assign(attack=table.get("attack", "")), self.run)
        ordered = ordered.assign(mechanism=ordered["lppm"], circumstances=circumstances(ordered, self.points))
        return named_apart(ordered, self.points)

    def only(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the LPPMs and attacks that are drawn."""
        if self.lppms:
            table = table[table["mechanism"].isin(self.lppms)]
        if self.attacks:
            table = table[table["attack"].isin(self.attacks)]
        return table.reset_index(drop=True)

    def one_attack(self, kind: str) -> str:
        """Return the attack of a figure that has room for one: the first unless said, empty where there is none."""
        if len(self.attacks) > 1:
            raise RequestError(f"the figure {kind} shows one attack, got {', '.join(self.attacks)}")
        return str(self.summary["attack"].iloc[0])

    def refuse_no_attack(self, what: str) -> None:
        if not self.summary["attack"].any():
            raise RequestError(
                f"{self.run} has no attack: there is no {what} to draw. `--figure over_time` draws the quality loss."
            )


def _tradeoff(view: _View) -> Figure:
    view.refuse_no_attack("adversary error")
    own, _ = view.of_few
    return tradeoff_figure(view.summary, users=own, width=view.width, names=series_looks(view.whole))


def _over_time(view: _View) -> Figure:
    rows = view.only(view.named(view.result.over_time()))
    _, own = view.of_few
    return over_time_figure(rows, users=own, title=view.title, shifts=view.shifts, width=view.width, names=view.looks)


def _efficiency(view: _View) -> Figure:
    view.refuse_no_attack("efficiency")
    users = time_series.user_courses(view.run, points=view.middle, read=view.read)
    rows = view.only(view.named(time_series.efficiency_course(users)))
    if rows.empty:
        raise RequestError(f"{view.run}: nothing of what was chosen loses quality, and there is no efficiency to draw")
    _, own = view.of_few
    return efficiency_figure(rows, users=own, title=view.title, shifts=view.shifts, width=view.width, names=view.looks)


def _adaptation(view: _View) -> Figure:
    found = view.result.adaptation()
    course, summary = (view.only(view.named(table)) for table in (found.course, found.summary))
    title = "" if course["circumstances"].any() else view.title
    users = found.user_courses if found.user_courses.empty else named_apart(found.user_courses, view.points)
    chosen = replace(found, course=course, summary=summary, user_courses=users)
    return adaptation_figure(chosen, title=title, width=view.width, names=view.looks)


def _tournament(view: _View) -> Figure:
    view.refuse_no_attack("adversary error")
    return tournament_figure(standings(view.summary), width=view.width)


def _users(view: _View) -> Figure:
    attack = view.one_attack("users")
    table = time_series.user_courses(view.run, points=view.middle, users=view.users or None, read=view.read)
    rows = view.named(table)
    rows = rows[rows["attack"] == attack].reset_index(drop=True)
    return users_figure(rows, title=view.title, shifts=view.shifts, width=view.width, names=view.looks)


def _profiles(view: _View) -> Figure:
    own = beliefs.user_belief_distances(view.run, points=view.middle)
    rows, users = (view.named(table) for table in (beliefs.mean_belief_distance(own), own))
    return profiles_figure(rows, users=users, title=view.title, shifts=view.shifts, width=view.width, names=view.looks)


def _map(view: _View) -> Figure:
    attack = view.one_attack("map")
    if len(view.users) > 1:
        raise RequestError(f"the figure map shows one user, got {', '.join(view.users)}")
    user = view.users[0] if view.users else str(view.read.users["user"].iloc[0])
    there = view.middle
    drawn = there if view.lppms else there[:MOST_MAPS]
    note = f"the first {len(drawn)} of {len(there)} LPPMs" if len(drawn) < len(there) else ""
    pairs = pd.DataFrame(drawn, columns=["lppm", "point"])
    names = view.named(pairs)["lppm"]
    worlds = [view.run.manifest().world_of(point) for point in dict.fromkeys(pairs["point"])]
    if any((world.grid, world.roads) != (worlds[0].grid, worlds[0].roads) for world in worlds):
        raise RequestError(f"{view.run}: these LPPMs were run in different worlds: choose some with --lppm")
    traces = {
        str(name): trajectories.user_trace(view.run, lppm=lppm, point=point, attack=attack, user=user)
        for name, (lppm, point) in zip(names, drawn, strict=True)
    }
    guesses = Guesses(attack, list(dict.fromkeys(view.whole["attack"])).index(attack))
    base = BaseMap.of(worlds[0])
    return map_figure(traces, base, user=user, guesses=guesses, note=note, title=view.title, width=view.width)


@dataclass(frozen=True, slots=True)
class _Kind:
    draw: Callable[[_View], Figure]
    of_attacks: bool = True
    of_users: bool = False


KINDS: dict[str, _Kind] = {
    "tradeoff": _Kind(_tradeoff),
    "over_time": _Kind(_over_time),
    "efficiency": _Kind(_efficiency),
    "adaptation": _Kind(_adaptation),
    "tournament": _Kind(_tournament),
    "users": _Kind(_users, of_users=True),
    "profiles": _Kind(_profiles, of_attacks=False),
    "map": _Kind(_map, of_users=True),
}
