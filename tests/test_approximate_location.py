"""The tool that fills docs/approximate_location.md, from the tables of users to the page and the figure."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.components.files import VARIABLE, Place
from sim.scenario.reading.source import read
from sim.storage.load import load
from tests.support import ROOT, done
from tools import approximate_location as tool
from tools import equal_loss_evidence as evidence_tool
from tools.beyond import replaced

PAGE = ROOT / "docs" / "approximate_location.md"
SCENARIO = ROOT / "scenarios" / "approximate_location.yaml"
GOWALLA = ROOT / "scenarios" / "approximate_location" / "gowalla.yaml"
SMALL = {
    "world.grid.cell_m": "2000",
    "users.count": "3",
    "users.days": "4",
    "users.past_days": "2",
    "training.others": "{kind: others, count: 4, days: 2}",
    "sweep": "{lppms.PEB-SPMK-AMix.design.epsilon_per_km: [0.1, 4], lppms.*-Exp.design.epsilon_per_km: [0.1, 4], "
    "lppms.Laplace.design.epsilon_per_km: [0.5, 4]}",
    "lppms.Android.design.levels": "2",
    "lppms.AndroidS2.design.levels": "2",
    "lppms.ConstantOffset.design.levels": "2",
}
CHECK_INS = {
    "world.grid.cell_m": "2000",
    "users.mobility.select.min_visits": "40",
    "users.mobility.visits": "40",
    "users.past_queries": "10",
    "training.others.mobility.select.exclude.min_visits": "40",
    "sweep": "{lppms.PEB-SPMK-AMix.design.epsilon_per_km: [0.1, 4]}",
    "lppms.Android.design.levels": "2",
    "lppms.AndroidS2.design.levels": "2",
    "lppms.ConstantOffset.design.levels": "2",
}


def users(**errors: list[tuple[int, str, str, float, float]]) -> pd.DataFrame:
    """Return points of a mechanism: point, attack, user, loss, error."""
    (rows,) = errors.values()
    return pd.DataFrame(rows, columns=["point", "attack", "user", "loss", "error"])


def test_the_attack_with_the_smallest_mean_error_counts_at_each_point() -> None:
    rows = users(rows=[(0, "a", "u", 1, 1.0), (0, "a", "v", 1, 3.0), (0, "b", "u", 1, 2.0), (0, "b", "v", 1, 1.0)])
    rows = pd.concat([rows, users(rows=[(1, "a", "u", 2, 0.5), (1, "b", "u", 2, 0.6)])])
    best = evidence_tool.strongest(rows)
    assert list(zip(best["point"], best["attack"], best["user"], strict=True)) == [
        (0, "b", "u"),
        (0, "b", "v"),
        (1, "a", "u"),
    ]


def test_errors_are_interpolated_at_the_loss_of_each_user() -> None:
    own = users(rows=[(0, "a", "u", 1.5, 0.2), (0, "a", "v", 4.0, 0.3), (0, "a", "w", 0.5, 0.4)])
    swept = users(rows=[(p, "a", name, loss, error) for name in "uvw" for p, loss, error in ((0, 1, 1.0), (1, 2, 3.0))])
    paired = evidence_tool.paired_errors(own, swept)
    assert paired["own"].tolist() == [0.2, 0.3, 0.4]
    assert paired["ours"].tolist() == [2.0, 3.0, 1.0]
    assert paired["outside"].tolist() == [False, True, True]


def test_steps_of_a_survival_curve_hold_until_the_next_one() -> None:
    steps = pd.DataFrame({"day": [3.0, 0.0, 1.0], "known": [0.75, 0.0, 0.5]})
    known = evidence_tool.daily(steps.assign(known_low=steps["known"] - 0.1, known_high=steps["known"] + 0.1), 5)
    assert known[:, 0].tolist() == [0.5, 0.5, 0.75, 0.75, 0.75]
    np.testing.assert_allclose(known[:, 2] - known[:, 1], 0.2)


def test_every_phone_mechanism_is_in_the_scenario() -> None:
    listed = sim.list_components("design").set_index("kind")["group"]
    named = {lppm.design.kind for lppm in load(SCENARIO).lppms if lppm.design is not None}
    assert set(listed.index[listed == "phones and apps"]) <= named
    assert evidence_tool.OURS in {lppm.name for lppm in load(SCENARIO).lppms}


@pytest.mark.parametrize("name", ["gowalla", "cabs"])
def test_real_people_have_the_mechanisms_of_commuters(name: str) -> None:
    """The figure has one row for each mechanism; only parameters that count time may differ."""
    commuters, real = (read(tool.SCENARIOS / tool.POPULATIONS[one].scenario).data for one in ("commuters", name))
    world = {key: value for key, value in commuters["world"].items() if key != "roads"}
    assert real["world"] == world
    by_name, own = (dict(map(named, data["lppms"])) for data in (commuters, real))
    swept = {"PEB-MK-Exp", "RPEB-Exp", "Laplace"}
    zones = {"SP-Zone", "SP-HiddenZone", "SP-RandomZone"}
    assert set(by_name) - set(own) == swept | (zones if name == "cabs" else set())
    for key, parameters in own.items():
        timeless = {
            k: v for k, v in parameters.get("design", {}).items() if k not in {"cache_min", "update_interval_s"}
        }
        assert timeless == {k: v for k, v in by_name[key].get("design", {}).items() if k != "cache_min"}


def named(lppm: Any) -> tuple[str, dict[str, Any]]:
    """Return the name of a mechanism in a scenario file and its keys."""
    parameters: dict[str, Any] = {"kind": lppm} if isinstance(lppm, str) else lppm
    return str(parameters.get("name", parameters.get("kind"))), parameters


def test_page_has_every_table_once() -> None:
    assert sorted(re.findall("(?m)^% table: (.+)$", PAGE.read_text())) == sorted(tool.NAMES)


def test_tables_are_read_from_the_page_as_they_are_written() -> None:
    page = PAGE.read_text()
    assert replaced(page, tool.tables_in(page).__getitem__) == page


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small run of the scenario."""
    folder = tmp_path_factory.mktemp("evidence")
    done("run", SCENARIO, "-o", folder / "commuters", *assigned(SMALL))
    return folder


@pytest.fixture(scope="module")
def check_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small run of check-ins with an order only: users a to d at three places each, and people around them."""
    folder = tmp_path_factory.mktemp("check-ins")
    rng = np.random.default_rng(5)
    frames = []
    for user, visits in {**dict.fromkeys("abcdefgh", 40), **dict.fromkeys("mnop", 20)}.items():
        places = np.column_stack([rng.uniform(37.72, 37.80, 3), rng.uniform(-122.50, -122.40, 3)])
        at = places[rng.choice(3, visits, p=[0.6, 0.3, 0.1])]
        frames.append(pd.DataFrame({"user": user, "order": range(visits), "lat": at[:, 0], "lon": at[:, 1]}))
    pd.concat(frames).to_parquet(folder / "gowalla.parquet")
    done("run", GOWALLA, "--data", folder, "-o", folder / "run", *assigned(CHECK_INS))
    return folder / "run"


def assigned(settings: dict[str, str]) -> list[str]:
    """Return the options of `run` that change a scenario."""
    return [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]


def rows_of(page: str) -> dict[str, list[list[str]]]:
    """Return the cells of the tables of a page."""
    return {
        name: [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        for name, table in tool.tables_in(page).items()
    }


def test_a_small_run_fills_the_page_and_draws_the_figure(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figure = tmp_path / "page.md", tmp_path / "figure.png"
    page.write_text(PAGE.read_text())
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("sys.argv", ["tool", str(runs), "--page", str(page), "-o", str(figure)])
    tool.main()
    assert "gowalla: omitted" in capsys.readouterr().out
    assert figure.stat().st_size > 10_000
    before, after = rows_of(PAGE.read_text()), rows_of(page.read_text())
    phones = {lppm.name for lppm in load(SCENARIO).lppms[:13]}
    for name in after:
        if name.startswith("commuters"):
            titles, _, control, *rows = after[name]
            assert titles[0] == "3 users"
            assert {row[0] for row in rows} == phones
            assert control[0] == "*no report*"
            assert {len(row) for row in rows} == {len(titles)}
        elif name != tool.OTHERS:
            assert after[name] == before[name]


def test_values_of_a_small_run_are_those_of_its_tables(runs: Path) -> None:
    """The error of a fixed mechanism is that of the summary; a mechanism compared with itself has no difference."""
    result = sim.Result.open(runs / "commuters")
    evidence = evidence_tool.Evidence(result)
    summary = result.summary().set_index(["lppm", "attack"])
    routine, stranger = (evidence.compared(adversary, "home") for adversary in evidence_tool.ADVERSARIES)
    for name in evidence.fixed:
        assert routine["error_km"][name] == pytest.approx(summary.loc[(name, "markov"), "adversary_error_km"])
        weakest = summary.loc[(name, ["stranger", "home"]), "adversary_error_km"]
        assert stranger["error_km"][name] == pytest.approx(weakest.min())
    answers = result.answers(radii_km=[evidence_tool.RADIUS_KM])
    located = answers.table.query("question == 'located'").set_index(["lppm", "attack"])["share"]
    known = answers.home_exposure.groupby(["lppm", "attack"])["known"].last()
    for name in evidence.fixed:
        assert stranger["located"][name] == max(located[name, "stranger"], located[name, "home"])
        assert routine["found"][name] == known[name, "markov"]
        assert stranger["found"][name] in {known[name, "stranger"], known[name, "home"]}
    same = evidence_tool.paired_errors(
        *[evidence.points.query("lppm == 'Laplace' and attack == 'markov' and point == 0")] * 2
    )
    assert (same["own"] == same["ours"]).all()
    assert not same["outside"].any()


def test_most_visited_places_are_those_of_the_answers(check_ins: Path) -> None:
    result = sim.Result.open(check_ins)
    evidence = evidence_tool.Evidence(result)
    stranger = evidence.compared("stranger", "place")
    table = result.answers(radii_km=[evidence_tool.RADIUS_KM], places=[1]).table
    shares = table.query("question == 'places'").set_index(["lppm", "attack"])["share"]
    for name in evidence.fixed:
        assert stranger["found"][name] == pytest.approx(max(shares[name, "stranger"], shares[name, "learner"]))
    lines = tool.compared_lines(stranger, "place", 0, "stranger")
    assert lines[0][0] == f"{evidence.users} users"
    assert {len(line) for line in lines} == {7}


@pytest.mark.data
@pytest.mark.parametrize(("name", "users"), [("gowalla", 22), ("cabs", 21)])
def test_real_data_have_the_users_of_the_page(real_data: Path, name: str, users: int) -> None:
    population = tool.POPULATIONS[name]
    file = next(real_data / file for file in population.files if (real_data / file).is_file())
    scenario = tool.scenario_of(population, file)
    mobility: Any = scenario.users.mobility
    assert len(mobility.build(scenario.build_world(), 1, Place(data=real_data)).users()) == users
    assert rows_of(PAGE.read_text())[f"{name} routine"][0][0] == f"{users} users"


def test_an_unfinished_run_is_refused() -> None:
    unfinished: Any = SimpleNamespace(run="RUN", manifest=SimpleNamespace(finished=False))
    with pytest.raises(SystemExit) as error:
        evidence_tool.Evidence(unfinished)
    assert str(error.value).startswith("RUN ")
