"""Answers about runs: against direct computations from the event log, in blocks of users, and where there is none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.analysis import user_blocks
from sim.analysis.answers.collect import collect
from sim.analysis.answers.control_attacks import FOLDS, ControlAttacks, Folds
from sim.analysis.answers.located import coverage
from sim.analysis.answers.of_run import Answers, control_kinds
from sim.analysis.answers.places import best_cells, cells_within, covered_visits, positions_km
from sim.analysis.answers.questions import Questions
from sim.analysis.answers.shown import shown_answers
from sim.analysis.answers.unicity import top_key
from sim.analysis.result import Result
from sim.analysis.statistics import NONE, OWN_VALUES
from sim.analysis.trajectories import shown_at
from sim.errors import InvalidValue
from sim.interfaces import FloatArray
from sim.plots import home_exposure_figure, located_figure
from sim.scenario.models import Scenario
from sim.storage.errors import NotApplicable
from sim.storage.event_schema import POSTERIOR_WITHIN_KM
from sim.world import Grid
from tests.analysis.blocks import cut
from tests.support import raises_code

SCENARIO: dict[str, Any] = {
    "name": "answers",
    "seed": 5,
    "replications": 2,
    "world": {"grid": {"kind": "rectangle", "rows": 10, "cols": 10, "width_km": 5.0, "height_km": 5.0}},
    "users": {
        "count": 12,
        "days": 15,
        "mobility": {"kind": "favourites", "places": 4},
        "demand": {"kind": "periodic", "period_s": 21_600},
    },
    "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
    "lppms": [{"kind": "SP-Exp", "design": {"epsilon_per_km": 2}}, "identity"],
    "attacks": ["sporadic", "sporadic-trained", "face-value"],
    "record": {"posterior": True, "expected": False, "snapshots": []},
}


GRID = Grid.rectangle(rows=10, cols=10, width_km=5.0, height_km=5.0)


def run(folder: Path, **changes: Any) -> Result:
    return Result.open(sim.run(Scenario.model_validate(SCENARIO | changes), out=folder, figures=False).path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(tmp_path_factory.mktemp("answers") / "run")


@pytest.fixture(scope="module")
def answers(whole: Result) -> Answers:
    return whole.answers()


@pytest.fixture(scope="module")
def queries(whole: Result) -> pd.DataFrame:
    """Return the log with the straight distance between cell and estimate."""
    grid = whole.manifest.worlds[0].restore_locations()
    log = whole.events()
    at = {name: (grid.x_km[log[name]], grid.y_km[log[name]]) for name in ("cell", "estimate")}
    apart = np.hypot(at["cell"][0] - at["estimate"][0], at["cell"][1] - at["estimate"][1])
    return log.assign(apart_km=apart)


def value(answers: Answers, column: str = "share", **labels: Any) -> float:
    """Return a value of the row with these labels."""
    table = answers.table
    for name, label in labels.items():
        table = table[table[name] == label]
    assert len(table) == 1, f"{len(table)} rows of {labels}"
    return float(table[column].iloc[0])


@pytest.mark.parametrize("radius", [0.5, 2.0])
@pytest.mark.parametrize("attack", ["sporadic", "face-value"])
def test_located_as_counted_in_the_log(answers: Answers, queries: pd.DataFrame, radius: float, attack: str) -> None:
    own = queries[(queries["lppm"] == "SP-Exp") & (queries["attack"] == attack)]
    inside = own.assign(inside=own["apart_km"] <= radius + 1e-6)
    by_user = inside.groupby(["user", "replication"])["inside"].mean().groupby("user").mean()
    labels: dict[str, Any] = {"lppm": "SP-Exp", "attack": attack, "radius_km": radius}
    assert value(answers, question="located", **labels) == pytest.approx(by_user.mean())
    assert value(answers, question="reports", **labels) == pytest.approx(inside["inside"].mean())
    assert value(answers, "smallest", question="located", **labels) == pytest.approx(by_user.min())


def test_posterior_as_recorded(answers: Answers, queries: pd.DataFrame) -> None:
    own = queries[(queries["lppm"] == "SP-Exp") & (queries["attack"] == "sporadic")]
    expected = own.groupby(["user", "replication"])["posterior_at_truth"].mean().mean()
    measured = value(answers, question="posterior", lppm="SP-Exp", attack="sporadic")
    assert measured == pytest.approx(expected)


@pytest.mark.parametrize(("radius", "column"), POSTERIOR_WITHIN_KM.items())
def test_posterior_within_a_radius_next_to_the_prior(
    answers: Answers, queries: pd.DataFrame, radius: float, column: str
) -> None:
    """The prior is the share of a user's visits, or of all other users' visits, within the radius of each visit."""
    apart = np.hypot(GRID.x_km[:, None] - GRID.x_km, GRID.y_km[:, None] - GRID.y_km) <= radius + 1e-6
    log = queries[queries["lppm"] == "SP-Exp"]
    for attack, by_others in (("sporadic", False), ("sporadic-trained", True)):
        own = log[log["attack"] == attack]
        labels: dict[str, Any] = {"question": "posterior_within", "lppm": "SP-Exp", "attack": attack}
        labels["radius_km"] = radius
        by_user = own.groupby(["user", "replication"])
        assert value(answers, **labels) == pytest.approx(by_user[column].mean().mean())
        fold = {user: place % FOLDS for place, user in enumerate(own["user"].unique())}
        visits = {user: np.bincount(cells["cell"], minlength=100) / len(cells) for user, cells in by_user}
        priors = []
        for (user, replication), cells in by_user:
            others = sum(share for (name, _), share in visits.items() if fold[name] != fold[user])
            profile = np.asarray(others) / np.sum(others) if by_others else visits[user, replication]
            priors.append(float((apart @ profile)[cells["cell"]].mean()))
        assert value(answers, "control", **labels) == pytest.approx(np.mean(priors))
    face_value = answers.table[(answers.table["attack"] == "face-value")]
    assert not set(face_value["question"]) & {"posterior", "posterior_within"}


@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_guesses_by_hour_as_counted_in_the_log(answers: Answers, queries: pd.DataFrame, radius: float) -> None:
    """From the same hour of the user's other days; of the other users, no other cell covers more visits by hour."""
    apart = np.hypot(GRID.x_km[:, None] - GRID.x_km, GRID.y_km[:, None] - GRID.y_km)
    near = (apart <= radius + 1e-6).astype(float)
    own = queries[(queries["lppm"] == "SP-Exp") & (queries["attack"] == "sporadic")]
    own = own.assign(hour=own["time_s"] % 86_400 // 3_600, day=own["time_s"] // 86_400)
    shares = []
    for _, user in own.groupby(["user", "replication"]):
        visited = np.unique(user["cell"])
        hits = []
        for row in user.to_dict("records"):
            seen = user[(user["hour"] == row["hour"]) & (user["day"] != row["day"])]["cell"]
            seen = user["cell"] if seen.empty else seen
            guess = visited[(near[np.ix_(visited, seen)]).sum(axis=1).argmax()]
            hits.append(near[guess, row["cell"]])
        shares.append(np.mean(hits))
    labels: dict[str, Any] = {"question": "located", "lppm": "SP-Exp", "radius_km": radius}
    assert value(answers, "control_by_hour", attack="sporadic", **labels) == pytest.approx(np.mean(shares))
    home = labels | {"question": "home"}
    assert value(answers, "control_by_hour", attack="sporadic", **home) >= value(
        answers, "control", attack="sporadic", **home
    )


def test_others_are_guessed_by_the_hour() -> None:
    """Everybody is in cell 1 at 8 h, in cell 4 at 20 h and mostly in cell 2; one user in cell 5 at night."""
    grid = Grid.rectangle(rows=1, cols=6, width_km=6.0, height_km=1.0)
    controls = ControlAttacks(grid)
    for fold in range(3):
        cells, hours = np.array([1, 2, 2, 2, 4]), np.array([8, 12, 13, 14, 20])
        controls.add(fold, cells, hours, 4)
    controls.add(3, np.full(8, 5), np.array([8, 20, *[23] * 6]), 5)
    assert [controls.place_at(0, 0.1, hour) for hour in (8, 12, 20, 23, 3)] == [1, 2, 4, 5, 2]
    assert controls.place_at(3, 0.1, 23) == controls.place(3, 0.1) == 2
    assert ControlAttacks(grid).place_at(0, 0.1, 8) is None


def test_without_protection_everything_is_known(answers: Answers) -> None:
    own = answers.table[(answers.table["lppm"] == "identity") & (answers.table["attack"] == "face-value")]
    below = own[(own["radius_km"] < 0.5) | own["question"].isin(["located", "reports", "home"])]
    assert (below["share"] == 1).all()
    unique = answers.table[(answers.table["lppm"] == "identity") & (answers.table["question"] == "singled_out")]
    assert (unique["share"] == unique["without_protection"]).all()


def test_places_of_users_by_counting(answers: Answers, queries: pd.DataFrame) -> None:
    """Below the size of a cell, the places found are the common most frequent cells."""
    own = queries[(queries["lppm"] == "SP-Exp") & (queries["attack"] == "sporadic")]
    shares = []
    for _, rows in own.groupby(["user", "replication"]):
        ordered = rows.sort_values("index")
        true, guessed = (
            [cell for cell, _ in Counter(ordered[name].tolist()).most_common(2)] for name in ("cell", "estimate")
        )
        shares.append(np.mean([cell in guessed for cell in true]))
    measured = value(answers, question="places", radius_km=0.1, places=2, lppm="SP-Exp", attack="sporadic")
    assert measured == pytest.approx(np.mean(shares))


def test_unicity_by_counting(answers: Answers, queries: pd.DataFrame) -> None:
    own = queries[(queries["lppm"] == "SP-Exp") & (queries["attack"] == "sporadic")]
    alone = []
    for _, rows in own.groupby("replication"):
        keys = [
            frozenset(cell for cell, _ in Counter(of_user.sort_values("index")["output"].tolist()).most_common(2))
            for _, of_user in rows.groupby("user")
        ]
        alone.append(np.mean([keys.count(key) == 1 for key in keys]))
    assert value(answers, question="singled_out", places=2, lppm="SP-Exp") == pytest.approx(np.mean(alone))


def test_controls_have_the_knowledge_of_their_attack(whole: Result, answers: Answers) -> None:
    kinds = control_kinds(whole.manifest)
    known = {attack: kinds[0, "SP-Exp", attack] for attack in ("sporadic", "sporadic-trained", "face-value")}
    assert known == {"sporadic": "habits", "sporadic-trained": "others", "face-value": "others"}
    labels: dict[str, Any] = {"question": "located", "lppm": "SP-Exp", "radius_km": 0.5}
    habits, others = (value(answers, "control", attack=attack, **labels) for attack in ("sporadic", "face-value"))
    assert habits > others


def test_habits_by_enumerating_all_guesses(answers: Answers, queries: pd.DataFrame) -> None:
    """Within a cell, the best constant guess is the most frequent cell."""
    own = queries[(queries["lppm"] == "SP-Exp") & (queries["attack"] == "sporadic")]
    best = own.groupby(["user", "replication"])["cell"].agg(lambda cells: cells.value_counts(normalize=True).max())
    measured = value(answers, "control", question="located", lppm="SP-Exp", attack="sporadic", radius_km=0.1)
    assert measured == pytest.approx(best.mean())


def test_excess_is_that_of_the_means(answers: Answers) -> None:
    table = answers.table[answers.table["question"].isin(["located", "home", "singled_out", "linked"])]
    table = table[table["control"] < 1]
    expected = (table["share"] - table["control"]) / (1 - table["control"])
    np.testing.assert_allclose(table["excess"], expected, atol=1e-9)
    assert (table["excess_low"] <= table["excess"] + 1e-9).all()


def test_in_blocks_of_users(whole: Result, answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_blocks, "MOST_ROWS", 1)
    monkeypatch.setattr(user_blocks, "BLOCK_ROWS", 1)
    blocks = cut(whole, tmp_path / "cut", [0, 1, 5, 9]).answers()
    for name in ("table", "home_exposure"):
        keys = ["point", "lppm", "attack", "radius_km"]
        one, other = (
            getattr(own, name).sort_values([*keys, *([] if name == "home_exposure" else ["question", "places"])])
            for own in (answers, blocks)
        )
        pd.testing.assert_frame_equal(
            one.reset_index(drop=True), other.reset_index(drop=True), check_exact=False, rtol=1e-9, atol=1e-9
        )
    assert blocks.notes == answers.notes


def test_replications_of_a_user_are_one_user(answers: Answers) -> None:
    """Twelve users in two replications are twelve units of the survival curves."""
    first = answers.home_exposure.groupby(["lppm", "attack", "radius_km"])["at_risk"].max()
    assert (first == 12).all()
    homes = answers.table[answers.table["question"] == "home"]
    assert (homes["censored"] <= 12).all()
    start = answers.home_exposure[answers.home_exposure["day"] == 1]
    np.testing.assert_allclose(start["at_risk"], 12)


def test_coarse_cells_are_noted(answers: Answers) -> None:
    (note,) = [note for note in answers.notes if "coarser" in note]
    assert "100 m" in note
    assert "2 km" not in note
    assert set(answers.table["resolution_km"]) == {0.5}


def test_summary_has_no_answers(tmp_path: Path) -> None:
    users = {"count": 2, "queries": 4, "mobility": "favourites"}
    result = run(tmp_path / "run", users=users, record={"log": "summary", "window": 2}, replications=1)
    with raises_code(NotApplicable, "needs-query-log"):
        result.answers()


@pytest.mark.parametrize("past", [None, 3])
def test_without_times_there_are_no_days(tmp_path: Path, past: int | None) -> None:
    """Positions in the trace are not times, also if the test begins after a past."""
    rows = [f"{user},{order},{0.05 + 0.4 * (order % 2)},{0.05 + 0.3 * user}" for user in range(3) for order in range(8)]
    traces = tmp_path / "traces.csv"
    traces.write_text("\n".join(["user,order,lat,lon", *rows]))
    result = run(
        tmp_path / "run",
        world={"grid": {"kind": "region", "rows": 5, "cols": 5, "south": 0, "north": 1, "west": 0, "east": 1}},
        users={"mobility": {"kind": "replay", "file": str(traces)}, "past_queries": past},
        training={},
        attacks=["face-value"],
        lppms=["identity"],
    )
    answers = result.answers()
    assert set(answers.table["question"]) == {"located", "places", "reports", "singled_out"}
    assert answers.home_exposure.empty
    assert any("no times" in note for note in answers.notes)
    assert home_exposure_figure(answers.home_exposure).get_axes() == []


def test_one_user_without_others(tmp_path: Path) -> None:
    users = SCENARIO["users"] | {"count": 1, "days": 2}
    answers = run(tmp_path / "run", users=users, replications=1).answers()
    located = answers.table[(answers.table["question"] == "located") & (answers.table["control_kind"] == "others")]
    assert located["control"].isna().all()
    assert located["excess"].isna().all()
    shown = shown_answers(answers.table, answers.questions)
    assert set(shown.loc[shown["question"] == "located", "spread"]) == {NONE}
    assert any("one user" in note for note in answers.notes)
    assert any("cannot be linked" in note for note in answers.notes)


def test_two_users_have_ranges_and_a_figure(tmp_path: Path) -> None:
    answers = run(tmp_path / "run", users=SCENARIO["users"] | {"count": 2}, replications=1).answers()
    shown = shown_answers(answers.table, answers.questions)
    located = shown[shown["question"] == "located"]
    assert set(located["spread"]) == {OWN_VALUES}
    assert (located["share_low"] <= located["share"]).all()
    for figure in (home_exposure_figure(answers.home_exposure), located_figure(answers.table)):
        assert len(figure.get_axes()) == 3


def test_without_an_attack(tmp_path: Path) -> None:
    answers = run(tmp_path / "run", attacks=[], record={"snapshots": []}).answers()
    assert set(answers.table["question"]) == {"singled_out", "linked"}
    assert located_figure(answers.table).get_axes() == []


def test_all_censored(tmp_path: Path) -> None:
    """Two days have too few nights to establish anything: nobody's home is known, with an interval."""
    answers = run(tmp_path / "run", users=SCENARIO["users"] | {"days": 2}, replications=1).answers()
    homes = answers.table[answers.table["question"] == "home"]
    assert (homes["share"] == 0).all()
    assert (homes["censored"] == 12).all()
    np.testing.assert_allclose(homes["share_high"], 1 - 0.025 ** (1 / 12))
    assert np.isinf(homes["median_days"]).all()
    assert len(home_exposure_figure(answers.home_exposure).get_axes()) == 3


def test_dropped_and_dummy_reports(tmp_path: Path) -> None:
    """Queries without a report count as queries, but not as reports; dummies are reported places."""
    lppms = [
        {"name": "drop", "belief": "fixed_profile", "design": {"kind": "dropping", "drop_probability": 0.5}},
        {"name": "dummies", "belief": "fixed_profile", "design": {"kind": "dummies", "dummies": 2}},
    ]
    result = run(tmp_path / "run", lppms=lppms, attacks=["sporadic"])
    answers = result.answers()
    log = result.events()
    drop = log[log["lppm"] == "drop"]
    hits = drop["cell"] == drop["estimate"]
    labels: dict[str, Any] = {"lppm": "drop", "radius_km": 0.1}
    assert value(answers, question="reports", **labels) == pytest.approx(hits[drop["output"].notna()].mean())
    of_users = hits.groupby([drop["user"], drop["replication"]]).mean()
    assert value(answers, question="located", **labels) == pytest.approx(of_users.mean())
    collected = collect(result.run, Questions.of([0.1], [3]))
    sizes = next(own for (group, _), own in collected.keys.items() if group.lppm == "dummies")
    cells = result.output_space("dummies")
    dummies = log[(log["lppm"] == "dummies") & log["output"].notna() & (log["replication"] == 0)]
    reported = {
        user: [cell for output in own["output"].astype(int) for cell in shown_at(cells, output)]
        for user, own in dummies.groupby("user")
    }
    expected = Counter(top_key(own, 3) for own in reported.values())
    del expected[None]
    assert sorted(Counter(sizes).values()) == sorted(expected.values())


@pytest.mark.parametrize("radius", [0.3, 0.5, 1.1, 7.0])
def test_covered_visits_against_all_pairs(radius: float) -> None:
    rng = np.random.default_rng(1)
    grid = Grid.rectangle(rows=7, cols=4, width_km=3.0, height_km=3.5)
    visits, at = rng.integers(0, 4, 28).astype(float), positions_km(grid)
    np.testing.assert_allclose(covered_visits(visits, grid, radius), coverage(at, visits, at, radius), atol=1e-8)
    assert cells_within(grid, radius).tolist() == coverage(at, np.ones(28), at, radius).tolist()
    assert best_cells(visits, grid, radius)[0] == coverage(at, visits, at, radius).argmax()


def test_control_attacks_do_not_use_the_own_visits() -> None:
    """A user who alone visits a cell ten times as often as everybody else does not change the guess about them."""
    grid = Grid.rectangle(rows=1, cols=6, width_km=6.0, height_km=1.0)
    folds, controls = Folds(), ControlAttacks(grid)
    folds.add(f"user {i}" for i in range(FOLDS))
    for i in range(FOLDS):
        cells = np.array([5] * 10 if i == 0 else [i % 2])
        controls.add(folds[f"user {i}"], cells, np.zeros_like(cells), int(cells[0]))
    assert controls.place(0, 0.1) == 1
    assert controls.home(0, 0.1) == 1
    assert controls.places(1, 0.1, 3) == [0, 1, 5]
    assert ControlAttacks(grid).place(0, 0.1) is None


def test_random_guess_by_hand(answers: Answers, queries: pd.DataFrame) -> None:
    grid = Grid.rectangle(rows=10, cols=10, width_km=5.0, height_km=5.0)
    near: FloatArray = cells_within(grid, 0.5) / 100
    own = queries[(queries["lppm"] == "SP-Exp") & (queries["attack"] == "sporadic")]
    measured = value(answers, "random", question="located", lppm="SP-Exp", attack="sporadic", radius_km=0.5)
    of_users = own.assign(near=near[own["cell"]]).groupby(["user", "replication"])["near"].mean()
    assert measured == pytest.approx(of_users.mean())


@pytest.mark.parametrize(("radii", "places"), [([0.0], []), ([np.inf], []), ([], [0]), ([], [101])])
def test_invalid_questions(radii: list[float], places: list[int]) -> None:
    with pytest.raises(InvalidValue):
        Questions.of(radii, places)


def test_more_is_known_within_a_larger_radius(tmp_path: Path) -> None:
    """Homes and located places, and the control attacks on them."""
    users = SCENARIO["users"] | {"count": 6, "days": 9}
    answers = run(tmp_path / "run", users=users).answers([0.564, 1.0, 1.3, 2.0, 3.0])
    for question in ("home", "located"):
        own = answers.table[answers.table["question"] == question]
        for _, rows in own.groupby(["lppm", "attack"]):
            ascending = rows.sort_values("radius_km")
            for column in ("share", "control", "random"):
                assert (np.diff(ascending[column]) >= -1e-9).all(), ascending[["radius_km", column]]
            if question == "home":
                assert (ascending["median_days"].to_numpy()[:-1] >= ascending["median_days"].to_numpy()[1:]).all()
    homes = answers.home_exposure.pivot_table(index=["lppm", "attack", "day"], columns="radius_km", values="known")
    for _, by_day in homes.groupby(level=["lppm", "attack"]):
        assert (by_day.ffill().diff(axis=1).iloc[:, 1:] >= -1e-9).all(axis=None)


@given(seed=st.integers(0, 10_000))
def test_control_attacks_find_more_within_a_larger_radius(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = Grid.rectangle(rows=5, cols=5, width_km=5.0, height_km=5.0)
    controls, homes, at = ControlAttacks(grid), rng.integers(0, 25, 2 * FOLDS), positions_km(grid)
    for user, home in enumerate(homes.tolist()):
        controls.add(user % FOLDS, np.array([home]), np.array([0]), home)
    shares = []
    for radius in (0.1, 1.0, 1.5, 2.0, 3.0, 5.0):
        guesses = [controls.home(user % FOLDS, radius) or 0 for user in range(len(homes))]
        shares.append((np.hypot(*(at[homes] - at[guesses]).T) <= radius + 1e-9).mean())
    assert (np.diff(shares) >= 0).all()
