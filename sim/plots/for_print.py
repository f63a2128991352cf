"""Single figures of a run for print, with the width of a column or a page of a paper."""

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
from sim.analysis.sweep_labels import circumstances, in_order, with_distinct_names
from sim.analysis.tournament import standings
from sim.plots import style
from sim.plots.adaptation import adaptation_figure
from sim.plots.answers import home_exposure_figure, located_figure
from sim.plots.axis_control import AxisControl, controlled
from sim.plots.base_map import BaseMap
from sim.plots.map import Guesses, map_figure
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
"""Widths of a column and a page of two-column journals, in inches."""
NARROWEST_IN, WIDEST_IN = 2.5, 20.0
FORMS = ("pdf", "svg", "png", "eps")
MOST_MAPS = 4
"""Maximum number of maps if no LPPMs are selected."""


def width_in(text: str) -> float:
    """Parse a width: `column`, `page`, or a number of inches.

    >>> width_in("column"), width_in("5")
    (3.5, 5.0)
    """
    try:
        width = WIDTHS_IN[text] if text in WIDTHS_IN else float(text)
    except ValueError:
        width = 0.0
    if not NARROWEST_IN <= width <= WIDEST_IN:
        raise RequestError(
            f"width must be {', '.join(WIDTHS_IN)} or a number of inches in [{NARROWEST_IN:g}, {WIDEST_IN:g}], "
            f"got {text!r}",
            code="invalid-width",
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
    axes: AxisControl | None = None,
    overwrite: bool = False,
) -> Path:
    """Draw a figure of a run into a file; the suffix determines the format. See `draw` for the parameters."""
    suffix = Path(destination).suffix.removeprefix(".").lower()
    if suffix not in FORMS:
        raise RequestError(
            f"unsupported figure format {destination}: the file must end in {', '.join(f'.{form}' for form in FORMS)}",
            code="unsupported-format",
        )
    path = checked_destination(run, destination, overwrite=overwrite, example=f"{kind}.pdf")
    figure = draw(run, kind, width=width, lppms=lppms, attacks=attacks, users=users, axes=axes)
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
    axes: AxisControl | None = None,
) -> Figure:
    """Return a figure of the given kind and width in inches.

    `lppms`, `attacks` and `users` select what is drawn (default: all). The style of an LPPM does not depend on the
    selection. Each LPPM is drawn at its middle sweep point, except in `tradeoff`, which shows all points. `map` shows
    the first four LPPMs by default. `axes` sets limits, scales and font size.
    """
    if kind not in KINDS:
        raise RequestError(f"unknown figure {kind!r}: must be one of {', '.join(KINDS)}", code="unknown-figure")
    options = KINDS[kind]
    if attacks and not options.of_attacks:
        raise RequestError(
            f"--attack does not apply to the figure {kind}, which does not depend on attacks",
            code="option-not-applicable",
        )
    if users and not options.of_users:
        of_users = " and ".join(name for name, other in KINDS.items() if other.of_users)
        raise RequestError(
            f"--user does not apply to the figure {kind}, which shows all users; it applies to {of_users}",
            code="option-not-applicable",
        )
    control = axes or AxisControl()
    if set(control.changed_axes()) - set(options.axes):
        having = f"the axis {options.axes}" if options.axes else "no axis"
        raise RequestError(
            f"limits and scales do not apply to the figure {kind}, which has {having} with numbers to choose",
            code="option-not-applicable",
        )
    view = _View(run, width, tuple(lppms), tuple(attacks), tuple(users), bool(control.changed_axes()))
    view.require_known()
    figure = options.draw(view)
    return figure if control == AxisControl() else controlled(figure, control)


@dataclass(frozen=True)
class _View:
    """Selection of a run that is drawn."""

    run: RunDirectory
    width: float
    lppms: tuple[str, ...]
    attacks: tuple[str, ...]
    users: tuple[str, ...]
    other_axes: bool
    """Whether axes get other limits or scales."""

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
        """The summary of the run in the order of the scenario, with distinct LPPM names."""
        return self.named(summarize(self.run, self.read))

    def require_known(self) -> None:
        """Raise an error if a selected LPPM, attack or user does not exist."""
        for selected, known, kind, code in (
            (self.lppms, self.whole["mechanism"], "LPPM", "unknown-lppm"),
            (self.attacks, self.whole["attack"], "attack", "unknown-attack"),
            (self.users if self.read.moments is None else (), self.read.users["user"], "user", "unknown-user"),
        ):
            names = [name for name in dict.fromkeys(known) if name]
            for name in selected:
                if name not in names:
                    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
                    raise RequestError(
                        f"{self.run} has no {kind} {name!r}; available: {shown or 'none'}",
                        code=code,
                    )

    @property
    def summary(self) -> pd.DataFrame:
        """The selected rows of the summary."""
        return self.only(self.whole)

    @cached_property
    def of_few(self) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
        """The values of each user if there are too few for intervals."""
        return users_of_few(self.result, self.whole)

    @property
    def looks(self) -> dict[str, Look]:
        return looks(self.whole["lppm"])

    @property
    def title(self) -> str:
        return sweep_title(self.summary, self.points)

    @property
    def shifts(self) -> pd.DataFrame:
        return self.result.shift_times()

    @property
    def middle(self) -> list[tuple[str, int]]:
        middle = time_series.middle(self.run, self.read)
        return [(lppm, point) for lppm, point in middle if not self.lppms or lppm in self.lppms]

    def named(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return rows in the order of the scenario with distinct LPPM names; `mechanism` has the original names."""
        ordered = in_order(table.assign(attack=table.get("attack", "")), self.run)
        ordered = ordered.assign(mechanism=ordered["lppm"], circumstances=circumstances(ordered, self.points))
        return with_distinct_names(ordered, self.points)

    def only(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the selected LPPMs and attacks."""
        if self.lppms:
            table = table[table["mechanism"].isin(self.lppms)]
        if self.attacks:
            table = table[table["attack"].isin(self.attacks)]
        return table.reset_index(drop=True)

    def one_attack(self, kind: str) -> str:
        """Return the attack of a figure that shows one: the selected or the first; empty if the run has none."""
        if len(self.attacks) > 1:
            raise RequestError(
                f"the figure {kind} shows one attack, got {', '.join(self.attacks)}", code="too-many-selected"
            )
        return str(self.summary["attack"].iloc[0])

    def require_attack(self, metric: str) -> None:
        """Raise an error if no attack is selected."""
        if not self.summary["attack"].any():
            raise RequestError(
                f"{self.run} has no attack, so the {metric} is undefined. `--figure over_time` draws the quality loss.",
                code="no-attack",
            )


def _tradeoff(view: _View) -> Figure:
    view.require_attack("adversary error")
    own, _ = view.of_few
    return tradeoff_figure(
        view.summary, users=own, width=view.width, names=series_looks(view.whole), other_axes=view.other_axes
    )


def _over_time(view: _View) -> Figure:
    rows = view.only(view.named(view.result.over_time()))
    _, own = view.of_few
    return over_time_figure(rows, users=own, title=view.title, shifts=view.shifts, width=view.width, names=view.looks)


def _efficiency(view: _View) -> Figure:
    view.require_attack("efficiency")
    rows = view.only(view.named(view.result.efficiency()))
    if rows.empty:
        raise RequestError(
            f"{view.run}: the selected LPPMs have no quality loss, so efficiency is undefined", code="no-efficiency"
        )
    _, own = view.of_few
    return efficiency_figure(rows, users=own, title=view.title, shifts=view.shifts, width=view.width, names=view.looks)


def _adaptation(view: _View) -> Figure:
    adaptation = view.result.adaptation()
    series, summary = (view.only(view.named(table)) for table in (adaptation.time_series, adaptation.summary))
    title = "" if series["circumstances"].any() else view.title
    users = adaptation.user_time_series
    users = users if users.empty else with_distinct_names(users, view.points)
    selected = replace(adaptation, time_series=series, summary=summary, user_time_series=users)
    return adaptation_figure(selected, title=title, width=view.width, names=view.looks)


def _tournament(view: _View) -> Figure:
    view.require_attack("adversary error")
    users = view.result.user_blocks().mapped(lambda block: view.only(view.named(block)))
    return tournament_figure(standings(view.summary, users), width=view.width)


def _home_exposure(view: _View) -> Figure:
    view.require_attack("answer about homes")
    answers = view.result.answers()
    rows, resolution = view.only(view.named(answers.home_exposure)), float(answers.table["resolution_km"].max())
    return home_exposure_figure(rows, resolution_km=resolution, title=view.title, width=view.width, names=view.looks)


def _located(view: _View) -> Figure:
    view.require_attack("share of located queries")
    rows = view.only(view.named(view.result.answers().table))
    return located_figure(rows, title=view.title, width=view.width, names=view.looks)


def _users(view: _View) -> Figure:
    attack = view.one_attack("users")
    table = view.result.user_series()
    if view.users:
        table = time_series.user_time_series(view.run, points=view.middle, users=view.users, read=view.read)
        missing = [user for user in view.users if user not in set(table["user"])]
        if missing:
            raise RequestError(f"{view.run} has no user {missing[0]!r}", code="unknown-user")
    rows = view.only(view.named(table))
    rows = rows[rows["attack"] == attack].reset_index(drop=True)
    of_users = len(view.users) or view.read.n_users
    return users_figure(
        rows, of_users=of_users, title=view.title, shifts=view.result.shifts(), width=view.width, names=view.looks
    )


def _profiles(view: _View) -> Figure:
    beliefs.require_belief(view.run, view.middle)
    tables = (view.result.mean_belief_distances(), view.result.belief_distances())
    rows, users = (view.only(view.named(table)) for table in tables)
    return profiles_figure(rows, users=users, title=view.title, shifts=view.shifts, width=view.width, names=view.looks)


def _map(view: _View) -> Figure:
    attack = view.one_attack("map")
    if len(view.users) > 1:
        raise RequestError(f"the figure map shows one user, got {', '.join(view.users)}", code="too-many-selected")
    user = view.users[0] if view.users else str(view.read.users["user"].iloc[0])
    available = view.middle
    drawn = available if view.lppms else available[:MOST_MAPS]
    note = f"the first {len(drawn)} of {len(available)} LPPMs" if len(drawn) < len(available) else ""
    pairs = pd.DataFrame(drawn, columns=["lppm", "point"])
    names = view.named(pairs)["lppm"]
    worlds = [view.run.manifest().world_of(point) for point in dict.fromkeys(pairs["point"])]
    places = [(world.grid, world.locations, world.roads) for world in worlds]
    if any(one != places[0] for one in places):
        raise RequestError(
            f"{view.run}: these LPPMs were simulated in different worlds: select some with --lppm",
            code="different-worlds",
        )
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
    axes: str = "xy"
    """Axes whose limits and scales can be chosen."""


KINDS: dict[str, _Kind] = {
    "tradeoff": _Kind(_tradeoff),
    "over_time": _Kind(_over_time),
    "efficiency": _Kind(_efficiency),
    "adaptation": _Kind(_adaptation),
    "tournament": _Kind(_tournament, axes=""),
    "home_exposure": _Kind(_home_exposure),
    "located": _Kind(_located, axes="y"),
    "users": _Kind(_users, of_users=True),
    "profiles": _Kind(_profiles, of_attacks=False),
    "map": _Kind(_map, of_users=True, axes=""),
}
