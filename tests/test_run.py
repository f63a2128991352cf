"""Whole runs: same seed, same bytes; nobody's choice disturbs anybody else; a kill loses nothing that was finished."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.cost import estimate
from sim.errors import UserError
from sim.events import Guess, Report
from sim.runner import default_directory
from sim.scenario.models import Scenario
from sim.sweep import plan

MakeScenario = Callable[..., Scenario]


def run(scenario: Scenario, out: Path) -> pd.DataFrame:
    return sim.run(scenario, out=out, figures=False).events()


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_same_seed_same_bytes(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=2, sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]})
    run(scenario, tmp_path / "a")
    run(scenario, tmp_path / "b")
    first, second = files(tmp_path / "a"), files(tmp_path / "b")
    assert first == second
    assert sum(name.startswith("events/") for name in first) == 4


def test_another_seed_gives_another_log(make_scenario: MakeScenario, tmp_path: Path) -> None:
    one, two = run(make_scenario(), tmp_path / "a"), run(make_scenario(seed=4), tmp_path / "b")
    assert not one["cell"].equals(two["cell"])


def moves(events: pd.DataFrame) -> pd.DataFrame:
    columns = ["replication", "user", "index", "time_s", "cell"]
    return events[columns].drop_duplicates().sort_values(columns, ignore_index=True)


def test_another_lppm_leaves_all_movements_as_they_were(make_scenario: MakeScenario, tmp_path: Path) -> None:
    one = run(make_scenario(lppms=["SP-Exp"]), tmp_path / "a")
    two = run(
        make_scenario(lppms=["identity", {"kind": "MK-LH", "design": {"quality_budget_km": 0.5}}]), tmp_path / "b"
    )
    pd.testing.assert_frame_equal(moves(one), moves(two))


def test_a_swept_parameter_leaves_all_movements_as_they_were(make_scenario: MakeScenario, tmp_path: Path) -> None:
    events = run(make_scenario(sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]}), tmp_path / "a")
    one, two = (moves(events[events["point"] == point]) for point in (0, 1))
    pd.testing.assert_frame_equal(one, two)


def test_one_more_user_lppm_or_attack_leaves_the_others_rows_as_they_were(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    small = make_scenario(lppms=["PEB-Exp"], attacks=["markov"])
    users = small.users.model_copy(update={"count": 4})
    large = make_scenario(
        lppms=["MK-Exp", "PEB-Exp"],
        attacks=["sporadic", "markov", "markov-trained"],
        users=users.model_dump(exclude_unset=True),
    )
    few, many = run(small, tmp_path / "a"), run(large, tmp_path / "b")
    kept = many.query("lppm == 'PEB-Exp' and attack == 'markov' and user != 'user-004'")
    keys = ["user", "index"]
    pd.testing.assert_frame_equal(few.sort_values(keys, ignore_index=True), kept.sort_values(keys, ignore_index=True))


@pytest.mark.parametrize("lppm", ["SP-Exp", "MK-Exp", "PEB-LH"])
def test_two_users_interleaved_equal_the_two_apart(lppm: str, make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"user": list("abab" * 6), "time": range(24), "cell": [0, 7, 1, 7, 5, 8, 0, 9, 1, 7, 0, 12] * 2}
    )
    frames = []
    for who in ("ab", "a", "b"):
        file = tmp_path / f"{who}.csv"
        table[table["user"].isin(list(who))].to_csv(file, index=False)
        scenario = make_scenario(
            lppms=[lppm], users={"mobility": {"kind": "replay", "file": str(file)}}, training={"no data": "nothing"}
        )
        frames.append(run(scenario, tmp_path / who))
    both, *apart = frames
    # Midnight of the first day is the same for all of them, so times agree too.
    joined = pd.concat(apart).sort_values(["user", "index", "attack"], ignore_index=True)
    pd.testing.assert_frame_equal(both.sort_values(["user", "index", "attack"], ignore_index=True), joined)


@pytest.mark.parametrize(
    ("lppm", "belief"),
    [
        ("SP-Exp", "fixed_profile"),
        ("SP-LH", "fixed_profile"),
        ("MK-Exp", "markov_filter"),
        ("MK-LH", "markov_filter"),
        ("PEB-Exp", "estimated_profile"),
        ("PEB-LH", "estimated_profile"),
    ],
)
@pytest.mark.parametrize("distance", ["manhattan", "euclidean"])
@pytest.mark.parametrize("expected", [True, False])
def test_an_adversary_with_the_mechanisms_own_belief_can_only_repeat_the_report(
    lppm: str, belief: str, distance: str, expected: bool, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    world = make_scenario().world.model_dump(exclude_unset=True)
    scenario = make_scenario(
        world=world | {"privacy_distance": distance, "quality_distance": distance},
        lppms=[lppm],
        attacks=[{"name": "twin", "belief": belief, "knows": "training"}],
        record={"expected": expected},
    )
    events = run(scenario, tmp_path / "run")
    assert (events["estimate"] == events["output"]).all()
    assert (events["adversary_error_km"] == events["quality_loss_km"]).all()
    if expected:
        pd.testing.assert_series_equal(
            events["expected_adversary_error_km"], events["expected_quality_loss_km"], check_names=False, rtol=1e-12
        )


def test_realised_figures_agree_with_expected_ones(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=20, lppms=["SP-Exp", "PEB-Exp"])
    events = run(scenario, tmp_path / "run")
    for measure in ("quality_loss_km", "adversary_error_km"):
        for _, rows in events.groupby(["lppm", "attack"]):
            difference = rows[measure] - rows[f"expected_{measure}"]
            # Given the past, realised minus expected has mean 0: a martingale, so five standard errors are a lot.
            assert abs(difference.mean()) < 5 * difference.std() / len(difference) ** 0.5


def test_what_a_mechanism_that_never_changes_loses_is_the_same_in_every_replication_given_the_cell(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    events = run(make_scenario(replications=2, lppms=["SP-Exp"]), tmp_path / "run")
    by_cell = events.groupby("cell")["expected_quality_loss_km"]
    assert (by_cell.max() == by_cell.min()).all()


def test_each_replication_has_noise_of_its_own_and_each_user_too(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = pd.DataFrame({"user": ["a"] * 30 + ["b"] * 30, "order": [*range(30)] * 2, "cell": [3, 7, 11] * 20})
    table.to_csv(tmp_path / "t.csv", index=False)
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")}}
    scenario = make_scenario(replications=2, lppms=["Exp"], attacks=[], users=users, training={"none": "nothing"})
    events = run(scenario, tmp_path / "run")
    drawn = {key: tuple(rows["output"]) for key, rows in events.groupby(["user", "replication"])}
    assert len(set(drawn.values())) == 4


def test_without_attacks_there_is_a_row_per_query(make_scenario: MakeScenario, tmp_path: Path) -> None:
    result = sim.run(make_scenario(attacks=[], lppms=["SP-Exp"]), out=tmp_path / "run")
    events = result.events()
    assert len(events) == 3 * 25
    assert events["attack"].isna().all()
    assert events["adversary_error_km"].isna().all()
    assert result.summary()["quality_loss_km"].gt(0).all()


def test_expected_figures_can_be_switched_off(make_scenario: MakeScenario, tmp_path: Path) -> None:
    on = run(make_scenario(), tmp_path / "on")
    off = run(make_scenario(record={"expected": False}), tmp_path / "off")
    assert off["expected_quality_loss_km"].isna().all()
    assert off["expected_adversary_error_km"].isna().all()
    pd.testing.assert_series_equal(on["output"], off["output"])
    pd.testing.assert_series_equal(on["estimate"], off["estimate"])


def test_mechanisms_that_a_sweep_does_not_touch_run_once(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=["SP-Exp", "SP-LH"], sweep={"lppms.*.design.epsilon_per_km": [0.5, 1, 2]})
    assert [chunk.lppms for chunk in plan(scenario)] == [("SP-Exp", "SP-LH"), ("SP-Exp",), ("SP-Exp",)]


def test_a_second_run_goes_on_and_ends_with_the_same_bytes(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=3)
    run(scenario, tmp_path / "whole")
    run(scenario, tmp_path / "broken")
    part = sorted((tmp_path / "broken" / "events").iterdir())[1]
    part.write_bytes(part.read_bytes()[:500])
    sorted((tmp_path / "broken" / "events").iterdir())[2].unlink()
    counted: list[tuple[int, int]] = []

    class Count:
        def start(self, queries: int, *, skipped: int) -> None:
            counted.append((queries, skipped))

        def advance(self, queries: int) -> None: ...

    sim.run(scenario, out=tmp_path / "broken", progress=Count(), figures=False)
    assert counted == [(2 * 2 * 3 * 25, 1)]
    assert files(tmp_path / "whole") == files(tmp_path / "broken")


def test_another_scenario_is_refused_with_the_difference(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run(make_scenario(), tmp_path / "run")
    before = files(tmp_path / "run")
    with pytest.raises(UserError, match=r"scenario\.seed: 3 there, 5 now"):
        run(make_scenario(seed=5), tmp_path / "run")
    assert files(tmp_path / "run") == before


def test_more_replications_are_added_to_those_there_are(make_scenario: MakeScenario, tmp_path: Path) -> None:
    few = run(make_scenario(replications=2), tmp_path / "run")
    many = run(make_scenario(replications=3), tmp_path / "run")
    pd.testing.assert_frame_equal(few, many[many["replication"] < 2].reset_index(drop=True))
    assert sorted(many["replication"].unique()) == [0, 1, 2]
    before = files(tmp_path / "run")
    words = r"it has 3 replications there, 1 now; ask for 3 or more, or choose another folder with -o$"
    with pytest.raises(UserError, match=words):
        run(make_scenario(replications=1), tmp_path / "run")
    assert files(tmp_path / "run") == before


def test_fewer_replications_do_not_hide_another_difference(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run(make_scenario(replications=2), tmp_path / "run")
    with pytest.raises(UserError, match=r"another scenario; they differ in\n  scenario\.seed: 3 there, 5 now\nChoose"):
        run(make_scenario(replications=1, seed=5), tmp_path / "run")
    part = max((tmp_path / "run" / "events").iterdir())
    part.rename(part.with_name("0000-0001-0123456789.parquet"))
    with pytest.raises(UserError, match=r"0000-0001-0123456789\.parquet, which is no part of this one"):
        run(make_scenario(replications=1), tmp_path / "run")


def test_parts_of_another_run_are_never_mixed_in(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run(make_scenario(), tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises(UserError, match="which is no part of this one"):
        run(make_scenario(seed=5), tmp_path / "run")


def test_another_version_of_the_simulator_is_not_mixed_in(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run(make_scenario(), tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(re.sub(r'"lppm_sim": "[^"]*"', '"lppm_sim": "0.0.1"', manifest.read_text()))
    with pytest.raises(UserError, match=r"made by version 0\.0\.1 of lppm-sim, this is version \d"):
        run(make_scenario(), tmp_path / "run")


DESIGN = """
import numpy as np
from sim.lppm.channel import MatrixChannel


class Constant:
    def __init__(self, *, world, cell):
        n = world.grid.n_cells
        self.channel = MatrixChannel(np.eye(n)[np.full(n, cell)])

    def __call__(self, prior):
        return self.channel
"""


OWN = {"name": "constant", "belief": "fixed_profile", "design": {"kind": "own_constant:Constant", "cell": 7}}


@pytest.fixture
def own_constant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a component of one's own beside where a scenario is, in neither the current folder nor `sys.path`."""
    beside, here = tmp_path / "beside", tmp_path / "here"
    beside.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", list(sys.path))
    # Set before it is deleted, so that whatever a test imports is taken out again afterwards.
    monkeypatch.setitem(sys.modules, "own_constant", types.ModuleType("own_constant"))
    monkeypatch.delitem(sys.modules, "own_constant")
    (beside / "own_constant.py").write_text(DESIGN)
    return beside / "own_constant.py"


def test_a_changed_component_of_ones_own_is_noticed(
    make_scenario: MakeScenario, tmp_path: Path, own_constant: Path
) -> None:
    scenario = make_scenario(lppms=[OWN]).at(own_constant.parent, None)
    assert run(scenario, tmp_path / "run")["output"].eq(7).all()
    own_constant.write_text(DESIGN + "# changed")
    with pytest.raises(UserError) as caught:
        run(scenario, tmp_path / "run")
    said = str(caught.value)
    assert "\n  own_constant:Constant (own_constant.py) has changed since this run was made\n" in said
    assert not re.search("[0-9a-f]{64}", said)
    assert "another scenario" not in said


def test_a_changed_component_has_another_folder_by_default(make_scenario: MakeScenario, own_constant: Path) -> None:
    scenario = make_scenario(lppms=[OWN]).at(own_constant.parent, None)
    first = sim.run(scenario, figures=False)
    assert sim.run(scenario, figures=False).run.path == first.run.path == default_directory(scenario)
    # Another length, or the bytecode of the same second would be taken for the new source.
    own_constant.write_text(DESIGN.replace("np.full(n, cell)", "np.full(n, cell + 1)"))
    with pytest.raises(UserError, match=r"own_constant\.py has changed since it was imported: start Python anew"):
        sim.run(scenario, figures=False)
    del sys.modules["own_constant"]
    second = sim.run(scenario, figures=False)
    assert second.run.path != first.run.path
    assert second.manifest["digest"] != first.manifest["digest"]
    assert second.run.path.name == f"small-{second.manifest['digest'][:8]}"
    assert first.events()["output"].eq(7).all()
    assert second.events()["output"].eq(8).all()


def test_a_changed_file_is_named_and_has_another_folder_by_default(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "traces.csv"
    file.write_text("user,time,cell\n" + "".join(f"a,{i},{i % 3}\n" for i in range(9)))
    users = {"mobility": {"kind": "replay", "file": "traces.csv"}}
    scenario = make_scenario(users=users, training={"no data": "nothing"}, lppms=["SP-Exp"]).at(tmp_path, None)
    first = sim.run(scenario, figures=False)
    file.write_text(file.read_text() + "a,9,0\n")
    with pytest.raises(UserError, match=r"\n  traces\.csv has changed since this run was made\n"):
        sim.run(scenario, out=first.run.path, figures=False)
    second = sim.run(scenario, figures=False)
    assert second.run.path != first.run.path
    assert (len(first.events()), len(second.events())) == (2 * 9, 2 * 10)


def test_files_that_only_a_sweep_names_count_in_the_default_folder(make_scenario: MakeScenario, tmp_path: Path) -> None:
    replay = {"kind": "replay", "file": "one.csv"}
    swept = {"users.mobility.file": ["one.csv", "two.csv"]}
    scenario = make_scenario(users={"mobility": replay}, training={}, sweep=swept).at(tmp_path, None)
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("user,time,cell\na,1,1\n")
    before = default_directory(scenario)
    (tmp_path / "two.csv").write_text("user,time,cell\na,1,2\n")
    assert default_directory(scenario) != before


def test_a_scenario_without_files_keeps_its_name_and_is_not_spread_out(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def costly(_: Scenario) -> None:
        raise AssertionError("points were made")

    monkeypatch.setattr("sim.runner.points", costly)
    scenario = make_scenario(sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]}, lppms=["SP-Exp"])
    assert default_directory(scenario) == Path("outputs", f"small-{scenario.digest[:8]}")


def test_a_module_beside_the_scenario_is_found_by_run_and_by_check(
    make_scenario: MakeScenario, tmp_path: Path, own_constant: Path
) -> None:
    scenario = make_scenario(lppms=[OWN]).at(own_constant.parent, None)
    assert estimate(scenario).queries == 75
    del sys.modules["own_constant"]
    assert run(scenario, tmp_path / "run")["output"].eq(7).all()
    assert sys.path[:2] == [str(Path.cwd()), str(own_constant.parent)]
    assert sys.path.count(str(own_constant.parent)) == 1


def test_two_mechanisms_of_one_name_are_refused_from_python_too(make_scenario: MakeScenario, tmp_path: Path) -> None:
    twice = [{"kind": "SP-Exp", "design": {"epsilon_per_km": epsilon}} for epsilon in (0.1, 5.0)]
    with pytest.raises(UserError, match="two of the lppms are called 'SP-Exp'"):
        run(make_scenario(lppms=twice), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("estimate", "shift"), [(-1, 0), (99, 0), (3, -1)])
def test_an_attack_that_answers_nonsense_is_stopped(
    estimate: int, shift: int, make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nonsense:
        def __init__(self, **given: Any) -> None: ...

        def observe(self, report: Report) -> Guess:
            return Guess(report.user, max(report.index + shift, 1), estimate)

    module = types.ModuleType("nonsense")
    module.__dict__["Nonsense"] = Nonsense
    module.__file__ = __file__
    monkeypatch.setitem(sys.modules, "nonsense", module)
    monkeypatch.setattr("sim.runner.source_file", lambda _: Path(__file__))
    with pytest.raises(RuntimeError, match="answered"):
        run(make_scenario(attacks=[{"kind": "nonsense:Nonsense", "name": "nonsense"}]), tmp_path / "run")


SCENARIO = """
name: killed
replications: 40
world: {grid: {kind: rectangle, rows: 6, cols: 6, width_km: 6, height_km: 6}}
users: {count: 4, queries: 40, mobility: favourites}
lppms: [PEB-Exp]
attacks: [sporadic]
"""


@pytest.mark.slow
def test_a_kill_leaves_a_readable_run_that_can_be_finished(tmp_path: Path) -> None:
    file, out = tmp_path / "killed.yaml", tmp_path / "run"
    file.write_text(SCENARIO)
    command = [sys.executable, "-m", "sim.cli", "run", str(file), "-o", str(out), "--no-figures"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while len(list(out.glob("events/*.parquet"))) < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    result = sim.Result.open(out)
    assert not result.manifest["finished"]
    survived = result.events()
    assert 3 * 160 <= len(survived) < 40 * 160
    finished = run(sim.load(file), out)
    assert len(finished) == 40 * 160
    kept = finished[finished["replication"].isin(survived["replication"].unique())]
    pd.testing.assert_frame_equal(survived, kept.reset_index(drop=True))
    assert run(sim.load(file), tmp_path / "unbroken").equals(finished)


def test_a_manifest_is_enough_to_run_it_again(make_scenario: MakeScenario, tmp_path: Path) -> None:
    first = sim.run(make_scenario(), out=tmp_path / "a", figures=False)
    again = sim.run(sim.load(tmp_path / "a" / "manifest.json"), out=tmp_path / "b", figures=False)
    pd.testing.assert_frame_equal(first.events(), again.events())


def test_snapshots_hold_what_was_believed(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(record={"snapshots": [1, 7]})
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    (part,) = result.run.parts()
    snapshots: dict[str, Any] = result.run.snapshots(part)
    frame = pd.DataFrame({key: snapshots[key] for key in ("lppm", "user", "index")})
    assert frame[frame["lppm"] == "PEB-LH"]["index"].tolist() == [1] * 3 + [7] * 3
    assert frame[frame["lppm"] == "SP-Exp"]["index"].tolist() == [1] * 3
    assert snapshots["profile"].sum(axis=1) == pytest.approx(1)
    assert snapshots["profile"].shape == (9, 20)
