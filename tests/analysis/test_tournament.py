"""Standings of all mechanisms against all attacks: values computed by hand, and their figure."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from scipy import stats

import sim
from sim import report
from sim.analysis import narrative as sentences
from sim.analysis.result import Result
from sim.analysis.tournament import common_loss_km, is_tournament, leads, standings
from sim.plots import of_run
from sim.plots.tournament import tournament_figure
from sim.scenario.models import Scenario
from sim.storage.errors import NotApplicable, RequestError
from sim.storage.event_schema import MEASURES
from sim.storage.load import load
from tests.support import SMALL, done, raises_code


def summary(*rows: tuple[str, int, str, float, float]) -> pd.DataFrame:
    """Return a summary of (lppm, point, attack, loss, error)."""
    frame = pd.DataFrame(rows, columns=["lppm", "point", "attack", "quality_loss_km", "adversary_error_km"])
    return frame.reindex(columns=["lppm", "point", "attack", *MEASURES])


def standings_of(rows: pd.DataFrame, at_km: float | None = None) -> pd.DataFrame:
    """Return the standings of a single user with these values."""
    return standings(rows, rows.assign(user="ann", replication=0), at_km)


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


def test_standings_are_at_one_loss_by_the_strongest_attack() -> None:
    table = standings_of(SWEPT, 2.0)
    assert table["lppm"].tolist() == ["fine", "poor", "full", "bare"]
    assert table["rank"].tolist() == [1, 2, pd.NA, pd.NA], "a mechanism without all attacks has no rank"
    assert table["strongest"].tolist() == ["a", "a", "b", "a"]
    assert table["quality_loss_km"].tolist() == [2.0, 2.0, 2.0, 0.0]
    assert table["adversary_error_km"].tolist() == pytest.approx([1.4, 0.85, 1.2, 0.0])
    assert table["a"].tolist() == pytest.approx([1.4, 0.85, np.nan, 0.0], nan_ok=True)
    assert table["b"].tolist() == pytest.approx([1.4, 1.9, 1.2, 0.3])


def of_users(errors: dict[tuple[str, int, str], list[float]], losses: dict[tuple[str, int], float]) -> pd.DataFrame:
    """Return the means of users who all have the mean loss of a point."""
    rows = [
        {"lppm": lppm, "point": point, "attack": attack, "user": f"u{i}", "adversary_error_km": error}
        | {"quality_loss_km": losses[lppm, point]}
        for (lppm, point, attack), of_all in errors.items()
        for i, error in enumerate(of_all)
    ]
    return (
        pd.DataFrame(rows)
        .assign(replication=0)[
            ["lppm", "point", "attack", "user", "replication", "quality_loss_km", "adversary_error_km"]
        ]
        .assign(expected_quality_loss_km=np.nan, expected_adversary_error_km=np.nan)
    )


@pytest.mark.parametrize("users", [2, 5, 8])
def test_leads_are_paired_by_user_and_agree_with_the_standings(users: int) -> None:
    rng = np.random.default_rng(4)
    level = 5 * rng.random(users)  # users differ much more than mechanisms
    losses = {("A", 0): 1.0, ("A", 1): 3.0, ("B", 0): 0.5, ("B", 1): 2.5, ("C", 0): 1.0, ("C", 1): 2.0}
    errors = {
        (lppm, point, attack): (level + loss + {"A": 0.6, "B": 0.3, "C": 0.0}[lppm] + 0.05 * rng.random(users)).tolist()
        for (lppm, point), loss in losses.items()
        for attack in ("a", "b")
    }
    rows = [(lppm, p, attack, losses[lppm, p], float(np.mean(own))) for (lppm, p, attack), own in errors.items()]
    table = standings(summary(*rows), of_users(errors, losses), 1.8)
    leads_km, number = leads(of_users(errors, losses), table)
    assert number == users
    first, *others = table.to_dict("records")
    for row in others:
        lead, half = leads_km[row["lppm"]]
        assert lead == pytest.approx(first["adversary_error_km"] - row["adversary_error_km"])
        weights = {name: (1.8 - losses[name, 0]) / (losses[name, 1] - losses[name, 0]) for name in "ABC"}
        one, other = (
            (1 - weights[name]) * np.array(errors[name, 0, attack]) + weights[name] * np.array(errors[name, 1, attack])
            for name, attack in ((first["lppm"], first["strongest"]), (row["lppm"], row["strongest"]))
        )
        interval = stats.ttest_rel(one, other).confidence_interval(0.95)
        assert (lead - half, lead + half) == pytest.approx((interval.low, interval.high))
    text = sentences.tournament(table, leads_km, number)
    if users < 5:
        assert "At 1.8 km of quality loss, 2 users are too few for a significance test: A has" in text
        assert "±" not in text
    else:
        assert "At 1.8 km of quality loss, A protects best: adversary error" in text
    level_found = {name: (lead, 2 * lead) for name, (lead, _) in leads_km.items()}
    level_text = sentences.tournament(table, level_found, 5)
    assert "the differences between A, B and C are not significant: A has adversary error" in level_text
    assert level_text.count("lower, not significant") == 2


LOSSES = {("A", 0): 0.0, ("A", 1): 4.0, ("B", 0): 0.0, ("B", 1): 4.0, ("C", 0): 0.0, ("C", 1): 1.5, ("D", 0): 3.0}


def test_users_of_the_standings_have_a_prior_error_of_at_least_the_loss() -> None:
    """Under every attack, whatever a mechanism reaches. The others count neither in means nor in leads."""
    slopes = {"A": [1.0, 2.0, 3.0, 9.0, 9.0], "B": [0.5, 1.5, 2.5, 0.0, 0.0], "C": [1.0] * 5, "D": [0.1] * 5}
    errors = {
        (lppm, point, attack): [slope * loss * (1 if attack == "a" else 1.1) for slope in slopes[lppm]]
        for (lppm, point), loss in LOSSES.items()
        for attack in ("a", "b")
    }
    users = of_users(errors, LOSSES)
    priors = pd.DataFrame({"a": [2.0, 5.0, 2.5, 1.9, 5.0], "b": [9.0, 9.0, 9.0, 9.0, 1.0]}, [f"u{i}" for i in range(5)])
    users["prior_error_km"] = [
        priors.loc[user, attack] for user, attack in zip(users["user"], users["attack"], strict=True)
    ]
    users = users.assign(smoothed_error_km=0.5 * users["adversary_error_km"].where(users["attack"] == "b"))
    users = users.assign(posterior_entropy_bits=2.0)
    rows = users.groupby(["lppm", "point", "attack"], as_index=False)[list(MEASURES)].mean()
    table = standings(rows, users, 2.0).set_index("lppm")
    assert table.loc[["A", "B"], "rank"].tolist() == [1, 2]
    assert table.loc[["A", "B"], "users"].tolist() == [3, 3]
    assert table.loc[["A", "B"], "adversary_error_km"].tolist() == pytest.approx([4.0, 3.0])
    assert table.loc[["A", "B"], "smoothed_error_km"].tolist() == pytest.approx([2.2, 1.65])
    assert table.loc[["A", "B"], "entropy_bits"].tolist() == [2.0, 2.0]
    assert table.loc[["C", "D"], "rank"].isna().all(), "fewer than half of the users attain the loss"
    assert table.loc[["C", "D"], "quality_loss_km"].tolist() == [1.5, 3.0]
    leads_km, number = leads(users, table.reset_index())
    assert number == 3
    assert leads_km["B"] == pytest.approx((1.0, 0.0))
    assert common_loss_km(rows) == 0.8  # 0 to 1.5 km are attained by A, B and C
    for most, expected in ((5.0, 0.8), (0.75, 0.4), (0.05, 0.0)):
        less = users.assign(prior_error_km=users["prior_error_km"].where(users["user"] > "u2", most))
        less.loc[users["user"] > "u2", "prior_error_km"] = 9.0
        assert common_loss_km(rows, less) == expected, "half of the users have a larger prior error"
    nobody = standings(rows, users, 5.5)
    assert nobody["rank"].isna().all(), "the prior error is at least 5.5 km for nobody under both attacks"
    assert nobody["lppm"].nunique() == 4


def test_half_of_the_users_at_the_end_of_their_curve_are_counted() -> None:
    frame = of_users({("A", 0, "a"): [0.0] * 4, ("A", 1, "a"): [1.0, 2.0, 3.0, 4.0]}, {("A", 0): 0.0, ("A", 1): 3.0})
    frame.loc[(frame["point"] == 1) & frame["user"].isin(["u0", "u1"]), "quality_loss_km"] = 1.0
    rows = frame.groupby(["lppm", "point", "attack"], as_index=False)[list(MEASURES)].mean()
    (row,) = standings(rows, frame, 2.0).to_dict("records")
    assert (row["rank"], row["users"], row["at_largest"], row["at_smallest"]) == (1, 4, 2, 0)
    assert row["adversary_error_km"] == pytest.approx((1.0 + 2.0 + 2.0 + 8 / 3) / 4)


def test_mechanism_without_any_error_is_excluded() -> None:
    rows = summary(("x", 0, "a", 1.0, np.nan), ("y", 0, "a", 1.0, 0.6))
    assert standings_of(rows)["lppm"].tolist() == ["y"]


def test_default_loss_is_one_that_most_mechanisms_attain() -> None:
    """All three curves cover 1.0 to 2.0 km; the middle multiple of 0.1 km is used."""
    assert common_loss_km(SWEPT) == 1.5
    assert standings_of(SWEPT)["quality_loss_km"].tolist() == [1.5, 1.5, 1.5, 0.0]
    narrow = summary(("x", 0, "a", 1.01, 1.0), ("x", 1, "a", 1.03, 2.0))
    assert common_loss_km(narrow) == pytest.approx(1.02)
    assert standings_of(narrow)["adversary_error_km"].tolist() == pytest.approx([1.5])


def test_mechanism_that_does_not_attain_the_loss_shows_its_nearest_point() -> None:
    table = standings_of(SWEPT, 2.8).set_index("lppm")
    assert table.loc["fine", "rank"] == 1
    assert (table.loc["poor", "quality_loss_km"], table.loc["poor", "a"]) == (2.5, 1.1)
    assert table["rank"].isna().sum() == 3


def test_without_a_sweep_each_mechanism_has_its_own_loss_and_ties_share_a_rank() -> None:
    rows = [("x", 0, "a", 1.0, 0.5), ("y", 0, "a", 2.0, 0.7), ("z", 0, "a", 3.0, 0.7)]
    table = standings_of(summary(*rows))
    assert common_loss_km(summary(*rows)) is None
    assert table["lppm"].tolist() == ["y", "z", "x"]
    assert table["users"].isna().all()
    assert table["rank"].tolist() == [1, 1, 3]
    assert table["quality_loss_km"].tolist() == [2.0, 3.0, 1.0]


def test_expected_metrics_are_preferred() -> None:
    rows = summary(("x", 0, "a", 1.0, 0.5), ("y", 0, "a", 1.0, 0.6))
    rows.loc[0, ["expected_quality_loss_km", "expected_adversary_error_km"]] = [1.1, 0.9]
    table = standings_of(rows)
    assert table["lppm"].tolist() == ["x", "y"]
    assert table[["quality_loss_km", "a"]].to_numpy().tolist() == [[1.1, 0.9], [1.0, 0.6]]


def test_tournament_has_at_least_three_mechanisms_and_attacks() -> None:
    three = [(lppm, 0, attack, 1.0, 1.0) for lppm in "xyz" for attack in "abc"]
    assert is_tournament(summary(*three))
    assert not is_tournament(summary(*[row for row in three if row[0] != "z"]))
    assert not is_tournament(summary(*[(*row[:2], "" if row[2] == "c" else row[2], *row[3:]) for row in three]))


def test_figure_has_every_number_and_frames_the_strongest_attack() -> None:
    figure = tournament_figure(standings_of(SWEPT, 2.0), width=4.0)
    (panel,) = figure.axes
    cells = [text.get_text() for text in panel.texts if not isinstance(text, Annotation)]
    assert cells == ["1.40", "1.40", "0.85", "1.90", "–", "1.20", "0.00", "0.30"]
    beside = [text.get_text() for text in panel.texts if isinstance(text, Annotation)]
    assert beside == ["2.00", "2.00", "2.00", "0.00", r"$\bar{Q}$"]
    assert [round(frame.get_x() + 0.46) for frame in panel.patches] == [0, 0, 1, 0]  # type: ignore[attr-defined]
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == ["fine", "poor", "full", "bare"]


def test_numbers_are_legible_at_the_minimum_width() -> None:
    attacks = [f"attack-{number}" for number in range(9)]
    rows = [
        (lppm, 0, attack, 1.0, 10.0 + i) for lppm in ("x", "y-with-a-long-name") for i, attack in enumerate(attacks)
    ]
    table = standings_of(summary(*rows))
    with raises_code(RequestError, "width-too-small") as refused:
        tournament_figure(table, width=3.5)
    match = re.search(r"at least (\S+) in, got 3\.5", str(refused.value))
    assert match
    figure = tournament_figure(table, width=float(match[1]) + 0.05)
    (panel,) = figure.axes
    seen = [text for text in figure.findobj(Text) if text.get_text().strip()]
    assert min(float(text.get_fontsize()) for text in seen) >= 6.5
    boxes = [text.get_window_extent() for text in panel.texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)


MANY = SMALL.replace(
    "attacks: [sporadic, markov]",
    "attacks: [sporadic, markov, sporadic-trained, path, face-value, {kind: markov, name: own, assumes: identity}]",
).replace("identity]", "{kind: PEB-full-Exp, name: full}, identity]")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a run with enough attacks for standings instead of a sentence on each, and its output."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "many.yaml").write_text(MANY)
    return folder / "run", done("run", folder / "many.yaml", "-o", folder / "run", "--no-figures")


def test_run_with_many_attacks_prints_and_writes_its_standings(many: tuple[Path, str]) -> None:
    folder, printed = many
    table = pd.read_csv(folder / "tournament.csv")
    again = Result.open(folder).tournament().astype({"rank": float})
    pd.testing.assert_frame_equal(table, again, check_dtype=False)
    assert set(table["lppm"]) == {"SP-Exp", "PEB-Exp", "full", "identity"}
    assert table.loc[table["lppm"] == "full", ["sporadic", "markov", "sporadic-trained", "path"]].isna().all(axis=None)
    assert "P_AE sporadic" not in printed
    assert "Against sporadic" not in printed
    for row in table.itertuples():
        assert f"{row.adversary_error_km:.3f}" in printed
    assert "Not computed against full" in printed
    assert "users are too few for a significance test" in " ".join(printed.split())


def test_figure_of_the_standings_is_drawn_with_the_others(
    many: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tradeoff_figure", "over_time_figure"):
        monkeypatch.setattr(of_run, name, lambda *_, **__: Figure())
    monkeypatch.setattr(of_run, "_written", lambda _, figures: figures)
    figures: Any = of_run.write_figures(Result.open(many[0]))
    assert list(figures) == ["tradeoff", "over_time", "tournament"]
    (panel,) = figures["tournament"].axes
    assert [label.get_text() for label in panel.get_yticklabels()] == Result.open(many[0]).tournament()["lppm"].tolist()


def test_page_has_the_standings_first_and_shaded(many: tuple[Path, str]) -> None:
    folder, _ = many
    page = report.page([Result.open(folder)])
    table = pd.read_csv(folder / "tournament.csv")
    ranked = table[table["rank"].notna()]
    answer = page[page.index('data-part="answer"') : page.index('data-part="standings"')]
    first = ranked.iloc[0]
    assert f"users are too few for a significance test: {first['lppm']} has " in answer
    assert f"under the strongest of 6 attacks on it, {first['strongest']}" in answer
    standings_of_page = page[page.index('data-part="standings"') : page.index('data-part="table"')]
    assert standings_of_page.count("<tr>") == 1 + len(table)
    assert standings_of_page.count("<b>") == len(table)
    assert 'class="shade-8"' in standings_of_page
    assert "\u2013" in standings_of_page


def test_no_tournament_if_other_parameters_are_swept(many: tuple[Path, str], tmp_path: Path) -> None:
    swept = MANY.replace('sweep: {"lppms.*.design.epsilon_per_km": [0.5, 2]}', "sweep: {users.count: [1, 2]}")
    scenario = load_text(swept, tmp_path)
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    assert not result.has_tournament()
    with raises_code(NotApplicable, "no-tournament"):
        result.tournament()


def load_text(text: str, folder: Path) -> Scenario:
    (folder / "scenario.yaml").write_text(text)
    return load(folder / "scenario.yaml")
