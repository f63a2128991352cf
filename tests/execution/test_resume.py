"""Going on with a run: nothing is simulated twice, nothing is mixed, a kill loses nothing that was finished."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import types
from pathlib import Path

import pandas as pd
import pytest

import sim
from sim.components.permission import CodeAccess
from sim.errors import UserError
from sim.execution.cost.estimate import estimate
from sim.execution.inputs import default_directory
from sim.scenario.models import Scenario
from sim.storage.run_directory import RunDirectory
from tests.support import MakeScenario, ending, files, until
from tests.support import log_of as run


def test_a_second_run_goes_on_and_ends_with_the_same_bytes(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=3)
    run(scenario, tmp_path / "whole")
    run(scenario, tmp_path / "broken")
    part = sorted((tmp_path / "broken" / "events").iterdir())[1]
    part.write_bytes(part.read_bytes()[:500])
    sorted((tmp_path / "broken" / "events").iterdir())[2].unlink()
    counted: list[tuple[int, int]] = []

    class Count:
        def start(self, queries: int, *, chunks: int, skipped: int) -> None:
            counted.append((queries, skipped))

        def advance(self, queries: int) -> None: ...

        def end_chunk(self) -> None: ...

    sim.run(scenario, out=tmp_path / "broken", progress=Count(), figures=False, chunk_queries=1)
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
    before = RunDirectory(tmp_path / "run")
    before.write_manifest(before.manifest().updated(lppm_sim="0.0.1"))
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
    scenario = make_scenario(lppms=[OWN]).at(
        own_constant.parent, None, CodeAccess(allowed=True, beside=own_constant.parent)
    )
    assert run(scenario, tmp_path / "run")["output"].eq(7).all()
    own_constant.write_text(DESIGN + "# changed")
    with pytest.raises(UserError) as caught:
        run(scenario, tmp_path / "run")
    said = str(caught.value)
    assert "\n  own_constant:Constant (own_constant.py) has changed since this run was made\n" in said
    assert not re.search("[0-9a-f]{64}", said)
    assert "another scenario" not in said


def test_a_changed_component_has_another_folder_by_default(make_scenario: MakeScenario, own_constant: Path) -> None:
    scenario = make_scenario(lppms=[OWN]).at(
        own_constant.parent, None, CodeAccess(allowed=True, beside=own_constant.parent)
    )
    first = sim.run(scenario, figures=False)
    assert sim.run(scenario, figures=False).run.path == first.run.path == default_directory(scenario)
    # Another length, or the bytecode of the same second would be taken for the new source.
    own_constant.write_text(DESIGN.replace("np.full(n, cell)", "np.full(n, cell + 1)"))
    with pytest.raises(UserError, match=r"own_constant\.py has changed since it was imported: restart Python"):
        sim.run(scenario, figures=False)
    del sys.modules["own_constant"]
    second = sim.run(scenario, figures=False)
    assert second.run.path != first.run.path
    assert second.manifest.digest != first.manifest.digest
    assert second.run.path.name == f"small-{second.manifest.digest[:8]}"
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

    monkeypatch.setattr("sim.execution.inputs.points", costly)
    scenario = make_scenario(sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]}, lppms=["SP-Exp"])
    assert default_directory(scenario) == Path("outputs", f"small-{scenario.digest[:8]}")


def test_a_module_beside_the_scenario_is_found_by_run_and_by_check(
    make_scenario: MakeScenario, tmp_path: Path, own_constant: Path
) -> None:
    scenario = make_scenario(lppms=[OWN]).at(
        own_constant.parent, None, CodeAccess(allowed=True, beside=own_constant.parent)
    )
    assert estimate(scenario).queries == 75
    sys.modules.pop("own_constant", None)  # estimated in a child process, where there is one
    assert run(scenario, tmp_path / "run")["output"].eq(7).all()
    assert sys.path[:2] == [str(Path.cwd()), str(own_constant.parent)]
    assert sys.path.count(str(own_constant.parent)) == 1


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
    words = ["run", str(file), "-o", str(out), "--no-figures", "--chunk-queries", "1"]
    command = [sys.executable, "-m", "sim.cli", *words]
    with ending(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)) as process:
        until(lambda: len(list(out.glob("events/*.parquet"))) >= 3)
        os.kill(process.pid, signal.SIGKILL)
    result = sim.Result.open(out)
    assert not result.manifest.finished
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


def test_a_part_of_a_run_with_other_input_files_is_not_read(tmp_path: Path, make_scenario: MakeScenario) -> None:
    """Both runs have parts of the same names, which do not depend on what is in the files."""
    users = {"mobility": {"kind": "replay", "file": "t.csv"}}
    scenario = make_scenario(users=users, training={}, lppms=["SP-Exp"]).at(tmp_path, None)
    for name, cell in (("one", 1), ("other", 2)):
        rows = "".join(f"a,{time},{cell + time % 3}\n" for time in range(9))
        (tmp_path / "t.csv").write_text("user,time,cell\n" + rows)
        sim.run(scenario, out=tmp_path / name, figures=False)
    (part,) = (tmp_path / "one" / "events").glob("*.parquet")
    (tmp_path / "other" / "events" / part.name).write_bytes(part.read_bytes())
    with pytest.raises(UserError, match="belongs to another run"):
        sim.Result.open(tmp_path / "other").summary()
