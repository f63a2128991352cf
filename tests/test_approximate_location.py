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
from sim.storage.load import load
from tests.support import ROOT, done
from tools import approximate_location as tool

PAGE = ROOT / "docs" / "approximate_location.md"
SCENARIO = ROOT / "scenarios" / "approximate_location.yaml"
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


def users(**errors: list[tuple[int, str, str, float, float]]) -> pd.DataFrame:
    """Return points of a mechanism: point, attack, user, loss, error."""
    (rows,) = errors.values()
    return pd.DataFrame(rows, columns=["point", "attack", "user", "loss", "error"])


def test_the_attack_with_the_smallest_mean_error_counts_at_each_point() -> None:
    rows = users(rows=[(0, "a", "u", 1, 1.0), (0, "a", "v", 1, 3.0), (0, "b", "u", 1, 2.0), (0, "b", "v", 1, 1.0)])
    rows = pd.concat([rows, users(rows=[(1, "a", "u", 2, 0.5), (1, "b", "u", 2, 0.6)])])
    best = tool.strongest(rows)
    assert list(zip(best["point"], best["attack"], best["user"], strict=True)) == [
        (0, "b", "u"),
        (0, "b", "v"),
        (1, "a", "u"),
    ]


def test_errors_are_interpolated_at_the_loss_of_each_user() -> None:
    own = users(rows=[(0, "a", "u", 1.5, 0.2), (0, "a", "v", 4.0, 0.3), (0, "a", "w", 0.5, 0.4)])
    swept = users(rows=[(p, "a", name, loss, error) for name in "uvw" for p, loss, error in ((0, 1, 1.0), (1, 2, 3.0))])
    paired = tool.paired_errors(own, swept)
    assert paired["own"].tolist() == [0.2, 0.3, 0.4]
    assert paired["ours"].tolist() == [2.0, 3.0, 1.0]
    assert paired["outside"].tolist() == [False, True, True]


def test_steps_of_a_survival_curve_hold_until_the_next_one() -> None:
    steps = pd.DataFrame({"day": [3.0, 0.0, 1.0], "known": [0.75, 0.0, 0.5]})
    known = tool.daily(steps.assign(known_low=steps["known"] - 0.1, known_high=steps["known"] + 0.1), 5)
    assert known[0].tolist() == [0.5, 0.5, 0.75, 0.75, 0.75]
    np.testing.assert_allclose(known[2] - known[1], 0.2)


def test_every_phone_mechanism_is_in_the_scenario() -> None:
    listed = sim.list_components("design").set_index("kind")["group"]
    named = {lppm.design.kind for lppm in load(SCENARIO).lppms if lppm.design is not None}
    assert set(listed.index[listed == "phones and apps"]) <= named
    assert tool.OURS in {lppm.name for lppm in load(SCENARIO).lppms}


def test_page_has_every_table_once() -> None:
    assert sorted(re.findall("(?m)^% table: (.+)$", PAGE.read_text())) == sorted(tool.NAMES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small run of the scenario."""
    folder = tmp_path_factory.mktemp("evidence") / "run"
    assigned = [text for key, value in SMALL.items() for text in ("--set", f"{key}={value}")]
    done("run", SCENARIO, "-o", folder, *assigned)
    return folder


def test_a_small_run_fills_the_page_and_draws_the_figure(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, figure = tmp_path / "page.md", tmp_path / "figure.png"
    page.write_text(PAGE.read_text())
    monkeypatch.setattr("sys.argv", ["tool", str(run), "--page", str(page), "-o", str(figure)])
    tool.main()
    assert figure.stat().st_size > 10_000
    tables = re.findall(r"(?ms)^% table: (\w+)\n\n(.*?)\n\n% end$", page.read_text())
    by_name = {name: [line.strip("| ").split(" | ") for line in text.splitlines()] for name, text in tables}
    phones = {lppm.name for lppm in load(SCENARIO).lppms[:12]}
    for name in tool.ADVERSARIES:
        titles, _, control, *rows = by_name[name]
        assert {row[0] for row in rows} == phones
        assert control[0] == "*no report*"
        assert {len(row) for row in rows} == {len(titles)}


def test_values_of_a_small_run_are_those_of_its_tables(run: Path) -> None:
    """The error of a fixed mechanism is that of the summary; a mechanism compared with itself has no difference."""
    result = sim.Result.open(run)
    evidence = tool.Evidence(result)
    summary = result.summary().set_index(["lppm", "attack"])
    routine, stranger = (evidence.compared(adversary) for adversary in tool.ADVERSARIES)
    for name in evidence.fixed:
        assert routine["error_km"][name] == pytest.approx(summary.loc[(name, "markov"), "adversary_error_km"])
        weakest = summary.loc[(name, ["stranger", "home"]), "adversary_error_km"]
        assert stranger["error_km"][name] == pytest.approx(weakest.min())
    answers = result.answers(radii_km=[tool.RADIUS_KM])
    located = answers.table.query("question == 'located'").set_index(["lppm", "attack"])["share"]
    known = answers.home_exposure.groupby(["lppm", "attack"])["known"].last()
    for name in evidence.fixed:
        assert stranger["located"][name] == max(located[name, "stranger"], located[name, "home"])
        assert routine["home"][name] == known[name, "markov"]
        assert stranger["home"][name] in {known[name, "stranger"], known[name, "home"]}
    same = tool.paired_errors(*[evidence.points.query("lppm == 'Laplace' and attack == 'markov' and point == 0")] * 2)
    assert (same["own"] == same["ours"]).all()
    assert not same["outside"].any()


def test_an_unfinished_run_is_refused() -> None:
    unfinished: Any = SimpleNamespace(run="RUN", manifest=SimpleNamespace(finished=False))
    with pytest.raises(SystemExit) as error:
        tool.Evidence(unfinished)
    assert str(error.value).startswith("RUN ")
