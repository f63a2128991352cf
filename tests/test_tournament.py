"""Every mechanism against every attack: standings worked out by hand, and the figure of them."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Annotation, Text

from sim.plots.tournament import tournament_figure
from sim.rundir import MEASURES, RequestError
from sim.tournament import common_loss_km, is_tournament, standings


def summary(*rows: tuple[str, int, str, float, float]) -> pd.DataFrame:
    """Return a summary of (lppm, point, attack, loss, error)."""
    frame = pd.DataFrame(rows, columns=["lppm", "point", "attack", "quality_loss_km", "adversary_error_km"])
    return frame.reindex(columns=["lppm", "point", "attack", *MEASURES])


SWEPT = summary(
    ("fine", 0, "a", 1.0, 0.8),
    ("fine", 1, "a", 3.0, 2.0),
    ("fine", 0, "b", 1.0, 1.0),
    ("fine", 1, "b", 3.0, 1.8),
    ("poor", 1, "a", 2.5, 1.1),
    ("poor", 0, "a", 0.5, 0.1),
    ("poor", 0, "b", 0.5, 0.4),
    ("poor", 1, "b", 2.5, 2.4),
    ("full", 0, "b", 1.0, 0.2),
    ("full", 1, "b", 2.0, 1.2),
    ("bare", 0, "a", 0.0, 0.0),
    ("bare", 0, "b", 0.0, 0.3),
)


def test_mechanisms_stand_at_one_loss_by_their_strongest_attack() -> None:
    table = standings(SWEPT, 2.0)
    assert table["lppm"].tolist() == ["fine", "full", "poor", "bare"]
    assert table["rank"].tolist() == [1, 2, 3, pd.NA]
    assert table["strongest"].tolist() == ["a", "b", "a", "a"]
    assert table["quality_loss_km"].tolist() == [2.0, 2.0, 2.0, 0.0]
    assert table["adversary_error_km"].tolist() == pytest.approx([1.4, 1.2, 0.85, 0.0])
    assert table["a"].tolist() == pytest.approx([1.4, np.nan, 0.85, 0.0], nan_ok=True)
    assert table["b"].tolist() == pytest.approx([1.4, 1.2, 1.9, 0.3])


def test_unless_said_the_loss_is_one_that_most_reach() -> None:
    """All three curves go from 1.0 to 2.0; the middle of the tenths there."""
    assert common_loss_km(SWEPT) == 1.5
    assert standings(SWEPT)["quality_loss_km"].tolist() == [1.5, 1.5, 1.5, 0.0]
    narrow = summary(("x", 0, "a", 1.01, 1.0), ("x", 1, "a", 1.03, 2.0))
    assert common_loss_km(narrow) == pytest.approx(1.02)
    assert standings(narrow)["adversary_error_km"].tolist() == pytest.approx([1.5])


def test_who_does_not_reach_the_loss_shows_the_point_nearest_to_it() -> None:
    table = standings(SWEPT, 2.8).set_index("lppm")
    assert table.loc["fine", "rank"] == 1
    assert (table.loc["poor", "quality_loss_km"], table.loc["poor", "a"]) == (2.5, 1.1)
    assert table["rank"].isna().sum() == 3


def test_without_a_sweep_each_stands_at_its_own_loss_and_equals_share_a_rank() -> None:
    rows = [("x", 0, "a", 1.0, 0.5), ("y", 0, "a", 2.0, 0.7), ("z", 0, "a", 3.0, 0.7)]
    table = standings(summary(*rows))
    assert common_loss_km(summary(*rows)) is None
    assert table["lppm"].tolist() == ["y", "z", "x"]
    assert table["rank"].tolist() == [1, 1, 3]
    assert table["quality_loss_km"].tolist() == [2.0, 3.0, 1.0]


def test_expected_figures_are_used_where_there_are_any() -> None:
    rows = summary(("x", 0, "a", 1.0, 0.5), ("y", 0, "a", 1.0, 0.6))
    rows.loc[0, ["expected_quality_loss_km", "expected_adversary_error_km"]] = [1.1, 0.9]
    table = standings(rows)
    assert table["lppm"].tolist() == ["x", "y"]
    assert table[["quality_loss_km", "a"]].to_numpy().tolist() == [[1.1, 0.9], [1.0, 0.6]]


def test_a_tournament_has_three_of_each() -> None:
    three = [(lppm, 0, attack, 1.0, 1.0) for lppm in "xyz" for attack in "abc"]
    assert is_tournament(summary(*three))
    assert not is_tournament(summary(*[row for row in three if row[0] != "z"]))
    assert not is_tournament(summary(*[(*row[:2], "" if row[2] == "c" else row[2], *row[3:]) for row in three]))


def test_the_figure_says_every_number_and_frames_the_strongest() -> None:
    figure = tournament_figure(standings(SWEPT, 2.0), width=4.0)
    (panel,) = figure.axes
    cells = [text.get_text() for text in panel.texts if not isinstance(text, Annotation)]
    assert cells == ["1.40", "1.40", "–", "1.20", "0.85", "1.90", "0.00", "0.30"]
    beside = [text.get_text() for text in panel.texts if isinstance(text, Annotation)]
    assert beside == ["2.00", "2.00", "2.00", "0.00", r"$\bar{Q}$"]
    assert [round(frame.get_x() + 0.46) for frame in panel.patches] == [0, 1, 0, 0]  # type: ignore[attr-defined]
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == ["fine", "full", "poor", "bare"]


def test_numbers_are_readable_and_apart_at_the_least_width() -> None:
    attacks = [f"attack-{number}" for number in range(9)]
    rows = [
        (lppm, 0, attack, 1.0, 10.0 + i) for lppm in ("x", "y-with-a-long-name") for i, attack in enumerate(attacks)
    ]
    table = standings(summary(*rows))
    with pytest.raises(RequestError, match=r"a table of 9 attacks needs (\S+) in, got 3\.5: choose") as refused:
        tournament_figure(table, width=3.5)
    figure = tournament_figure(table, width=float(str(refused.value).split()[6]) + 0.05)
    (panel,) = figure.axes
    seen = [text for text in figure.findobj(Text) if text.get_text().strip()]
    assert min(float(text.get_fontsize()) for text in seen) >= 6.5
    boxes = [text.get_window_extent() for text in panel.texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
