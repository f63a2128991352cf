"""The 22 panels: names, tables and figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sim.paper.panels import AT_KM, COLUMNS, LABELS, PANELS, draw, draw_all, series_of, table
from sim.paper.studies import STUDIES, Study
from sim.plots import pictures


def test_panels_are_those_of_the_paper() -> None:
    names = [panel.name for panel in PANELS]
    assert len(set(names)) == 22
    assert names[0] == "eval1-exp1-a-brightkite-exp"
    assert [name for name in names if name.startswith("eval2-exp1-")] == [
        "eval2-exp1-a-brightkite-exp",
        "eval2-exp1-b-brightkite-lh",
        "eval2-exp1-c-gowalla-exp",
        "eval2-exp1-d-gowalla-lh",
    ]
    assert names[-2:] == ["appendix-mk-a-taxicab-exp", "appendix-mk-b-taxicab-lh"]
    assert {panel.study for panel in PANELS} == set(STUDIES)
    series = {panel.figure: panel.series for panel in PANELS}
    assert all(series[panel.figure] == panel.series for panel in PANELS)
    assert series == {
        "eval1-exp1": ("sp-scarce", "sp-rich"),
        "eval1-exp21": ("mk-scarce", "mk-rich"),
        "eval1-exp22": ("mk-scarce", "mk-rich"),
        "eval2-exp1": ("sp-rich", "peb-first", "peb-last"),
        "eval2-exp21": ("mk-rich", "peb-first", "peb-last"),
        "eval2-exp22": ("mk-scarce", "peb-first", "peb-last"),
        "appendix-mk": ("mk-other-scarce", "mk-other-rich"),
    }
    assert {series for panel in PANELS for series in panel.series} == LABELS.keys()


def halves(lppm: str, rows: list[tuple[str, int, str, float, float]]) -> pd.DataFrame:
    """Return a table with one row per half of a trace, given user, point, half, loss and error."""
    frame = pd.DataFrame(rows, columns=["user", "point", "half", "quality_loss_km", "adversary_error_km"])
    empty = {"expected_quality_loss_km": np.nan, "expected_adversary_error_km": np.nan}
    return frame.assign(lppm=lppm, attack="markov", replication=0, queries=10, **empty)


def two_users(lppm: str) -> pd.DataFrame:
    """Return two users: the error of "a" is 0.5 (first half) or 1.0 (last half) of the loss, that of "b" half of it."""
    return halves(
        lppm,
        [
            (user, point, half, loss, loss * share * (0.5 if half == "first" else 1.0))
            for user, share, top in (("a", 1.0, 4.0), ("b", 0.5, 2.0))
            for point, loss in enumerate((0.0, top))
            for half in ("first", "last")
        ],
    )


def test_learning_mechanisms_have_one_series_per_half() -> None:
    users = series_of(pd.concat([two_users("peb"), two_users("mk-rich")], ignore_index=True))
    assert set(users["lppm"]) == {"peb-first", "peb-last", "mk-rich"}
    panel = next(panel for panel in PANELS if panel.name == "eval2-exp21-a-brightkite-exp")
    curves = table(panel, users)
    assert list(curves.columns) == COLUMNS
    assert list(dict.fromkeys(curves["series"])) == ["mk-rich", "peb-first", "peb-last"], "in the order of the panel"
    assert curves.groupby("series")["quality_loss_km"].apply(list).tolist() == [AT_KM.tolist()] * 3
    at_two = curves[curves["quality_loss_km"] == 2.0].set_index("series")
    assert at_two["users"].tolist() == [2, 2, 2]
    metrics = at_two[["mean_km", "min_km", "max_km"]].T.to_dict("list")
    assert metrics["peb-first"] == pytest.approx([0.75, 0.5, 1.0])
    assert metrics["peb-last"] == pytest.approx([1.5, 1.0, 2.0])
    assert metrics["mk-rich"] == pytest.approx([1.125, 0.75, 1.5])
    beyond = curves[(curves["quality_loss_km"] == 3.0)]
    assert beyond["users"].tolist() == [1, 1, 1], "curves are not extrapolated"


def test_figures_are_deterministic_and_have_the_note() -> None:
    panel = PANELS[0]
    curves = pd.DataFrame(
        {"series": "sp-rich", "quality_loss_km": AT_KM, "users": 5, "mean_km": AT_KM, "min_km": 0.0, "max_km": 4.0}
    )
    one, again = (pictures(draw(panel, curves, note="made up"), ("pdf", "png")) for _ in range(2))
    assert one == again
    assert one.keys() == {"pdf", "png"}
    figure = draw(panel, curves, note="made up")
    assert figure.get_supxlabel().endswith("\nmade up")
    (axes,) = figure.axes
    assert axes.get_title() == "Brightkite, Exp"
    assert draw_all(dict.fromkeys((panel.name for panel in PANELS), curves)).get_supxlabel().endswith("this loss")


def test_mean_over_fewer_users_is_not_a_solid_line() -> None:
    users = np.where(AT_KM > 2, 3, 5)
    curves = pd.DataFrame(
        {"series": "sp-rich", "quality_loss_km": AT_KM, "users": users, "mean_km": AT_KM, "min_km": 0, "max_km": 4}
    )
    (axes,) = draw(PANELS[0], curves).axes
    full = next(line for line in axes.get_lines() if line.get_label() == LABELS["sp-rich"])
    assert np.nanmax(np.asarray(full.get_ydata(), dtype=float)) == 2.0


def test_names_of_studies() -> None:
    assert Study("sp", "gowalla", "lh").name == "sp-gowalla-lh"
    assert len({study.name for study in STUDIES}) == len(STUDIES) == 10
