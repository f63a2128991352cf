"""The standard figures of a run, in its directory `figures`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from sim.analysis.adaptation import Adaptation
from sim.analysis.answers.of_run import Answers
from sim.analysis.result import Result
from sim.analysis.statistics import are_few
from sim.analysis.sweep_labels import circumstances, in_order, path_headings, swept_value, with_distinct_names
from sim.analysis.time_series import middle_points
from sim.analysis.tournament import is_tournament, standings
from sim.plots import style
from sim.plots.adaptation import adaptation_figure
from sim.plots.answers import home_exposure_figure, located_figure
from sim.plots.over_time import over_time_figure
from sim.plots.tournament import tournament_figure
from sim.plots.tradeoff import tradeoff_figure
from sim.storage.run_directory import RunDirectory


def write_figures(result: Result) -> list[Any]:
    """Write `figures/tradeoff.*` and `figures/over_time.*` of a run.

    With at least three mechanisms and three attacks, also write `figures/tournament.*`.

    Return the written files: paths, or run files if the run is at a URL.
    """
    run, points = result.run, result.points()
    summary = in_order(result.summary(), run)
    summary = summary.assign(circumstances=circumstances(summary, points))
    own, windows = users_of_few(result, summary)
    over_time = with_distinct_names(in_order(result.over_time(), run), points)
    named, title = with_distinct_names(summary, points), sweep_title(over_time, points)
    figures = {
        "tradeoff": tradeoff_figure(named, users=own),
        "over_time": over_time_figure(over_time, users=windows, title=title, shifts=result.shift_times()),
    }
    if is_tournament(named) and not named["circumstances"].any():
        figures["tournament"] = tournament_figure(standings(named, result.tournament_users()))
    return _written(run, figures)


def users_of_few(result: Result, summary: pd.DataFrame) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Return the means of each user, overall and by window, if a run has too few users for intervals; otherwise None.

    LPPMs have distinct names, as in the tables that are drawn.
    """
    if not summary["users"].map(are_few).any():
        return None, None
    points = result.points()
    own, windows = (
        with_distinct_names(table.assign(circumstances=circumstances(table, points)), points)
        for table in (result.totals().users, result.user_series())
    )
    return own, windows


def write_adaptation(run: RunDirectory, adaptation: Adaptation) -> list[Any]:
    """Write `figures/adaptation.*` of a run and return the written files."""
    points = run.read_csv("points.csv")
    series, summary = (
        with_distinct_names(table.assign(circumstances=circumstances(table, points)), points)
        for table in (in_order(table, run) for table in (adaptation.time_series, adaptation.summary))
    )
    users = adaptation.user_time_series
    users = users if users.empty else with_distinct_names(users, points)
    title = "" if series["circumstances"].any() else sweep_title(series, points)
    return _written(
        run,
        {
            "adaptation": adaptation_figure(
                replace(adaptation, time_series=series, summary=summary, user_time_series=users), title=title
            )
        },
    )


def write_answer_figures(result: Result, answers: Answers) -> list[Any]:
    """Write `figures/home_exposure.*` and `figures/located.*` of a run and return the written files."""
    run, points = result.run, result.points()
    home, table = (
        with_distinct_names(in_order(table, run), points) for table in (answers.home_exposure, answers.table)
    )
    title = sweep_title(table, points)
    resolution = float(answers.table["resolution_km"].max())
    figures = {
        "home_exposure": home_exposure_figure(home, resolution_km=resolution, title=title),
        "located": located_figure(table, title=title),
    }
    return _written(run, figures)


def _written(run: RunDirectory, figures: dict[str, Figure]) -> list[Any]:
    if run.in_folder:
        return [path for name, figure in figures.items() for path in style.save(figure, run.path / "figures" / name)]
    return [
        run.write_figure(f"{name}.{suffix}", content)
        for name, figure in figures.items()
        for suffix, content in style.pictures(figure).items()
    ]


def sweep_title(frame: pd.DataFrame, points: pd.DataFrame) -> str:
    """Return a title with the drawn sweep point, if it is the same for all swept mechanisms."""
    if len(points) == 1 or frame.empty:
        return ""
    swept = frame[frame.groupby("lppm")["point"].transform("nunique") > 1]
    middle = set(middle_points(swept).values())
    if len(middle) != 1:
        return "each mechanism at its middle sweep point"
    values = points[points["point"] == middle.pop()].to_dict("records")[0]
    short = path_headings([path for path in points.columns if path != "point"])
    return ", ".join(f"{name} = {swept_value(values[path])}" for path, name in short.items())
