"""Resume a run: finished chunks are not repeated, runs are not mixed, and a kill loses no finished chunk."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pandas as pd
import pytest

import sim
from sim.components.imports import ComponentError
from sim.components.permission import CodeAccess
from sim.errors import UserError
from sim.execution.cost.estimate import estimate
from sim.execution.inputs import default_directory
from sim.scenario.models import Scenario
from sim.storage.errors import DamagedRun
from sim.storage.run_directory import RunDirectory
from tests.command_server import CommandServer
from tests.execution.gated import CHUNKS, Gate, Gated
from tests.support import MakeScenario, files, raises_code, until
from tests.support import log_of as run


def test_a_second_run_resumes_and_ends_with_the_same_bytes(make_scenario: MakeScenario, tmp_path: Path) -> None:
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
    with raises_code(UserError, "run-differs") as error:
        run(make_scenario(seed=5), tmp_path / "run")
    assert "\n  scenario.seed: 3 in the directory, 5 now\n" in str(error.value)
    assert files(tmp_path / "run") == before


def test_more_replications_are_added_to_existing_ones(make_scenario: MakeScenario, tmp_path: Path) -> None:
    few = run(make_scenario(replications=2), tmp_path / "run")
    many = run(make_scenario(replications=3), tmp_path / "run")
    pd.testing.assert_frame_equal(few, many[many["replication"] < 2].reset_index(drop=True))
    assert sorted(many["replication"].unique()) == [0, 1, 2]
    before = files(tmp_path / "run")
    with raises_code(UserError, "fewer-replications") as error:
        run(make_scenario(replications=1), tmp_path / "run")
    assert "3 replications in the directory, 1 requested" in str(error.value)
    assert files(tmp_path / "run") == before


def test_fewer_replications_do_not_hide_another_difference(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run(make_scenario(replications=2), tmp_path / "run")
    with raises_code(UserError, "run-differs") as error:
        run(make_scenario(replications=1, seed=5), tmp_path / "run")
    assert len(str(error.value).splitlines()) == 3, "the seed is the only difference"
    part = max((tmp_path / "run" / "events").iterdir())
    part.rename(part.with_name("0000-0001-0123456789.parquet"))
    with raises_code(UserError, "foreign-part") as foreign:
        run(make_scenario(replications=1), tmp_path / "run")
    assert "0000-0001-0123456789.parquet" in str(foreign.value)


def test_parts_of_another_run_are_refused(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run(make_scenario(), tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    with raises_code(UserError, "foreign-part"):
        run(make_scenario(seed=5), tmp_path / "run")


def test_a_run_of_another_version_is_refused(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run(make_scenario(), tmp_path / "run")
    before = RunDirectory(tmp_path / "run")
    before.write_manifest(before.manifest().updated(lppm_sim="0.0.1"))
    with raises_code(UserError, "run-differs") as error:
        run(make_scenario(), tmp_path / "run")
    assert "lppm-sim: 0.0.1 in the directory, " in str(error.value)


DESIGN = """
import numpy as np
from sim.lppm.channels.matrix import MatrixChannel


class Constant:
    def __init__(self, *, world, cell):
        n = world.n_cells
        self.channel = MatrixChannel(np.eye(n)[np.full(n, cell)])

    def __call__(self, prior):
        return self.channel
"""


CUSTOM = {"name": "constant", "belief": "fixed_profile", "design": {"kind": "custom_constant:Constant", "cell": 7}}


@pytest.fixture
def custom_constant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a custom component next to a scenario, outside the current folder and `sys.path`."""
    beside, here = tmp_path / "beside", tmp_path / "here"
    beside.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", list(sys.path))
    # Set before it is deleted, so that an import in a test is removed afterwards.
    monkeypatch.setitem(sys.modules, "custom_constant", types.ModuleType("custom_constant"))
    monkeypatch.delitem(sys.modules, "custom_constant")
    (beside / "custom_constant.py").write_text(DESIGN)
    return beside / "custom_constant.py"


def test_a_changed_custom_component_is_detected(
    make_scenario: MakeScenario, tmp_path: Path, custom_constant: Path
) -> None:
    scenario = make_scenario(lppms=[CUSTOM]).at(
        custom_constant.parent, None, CodeAccess(allowed=True, beside=custom_constant.parent)
    )
    assert run(scenario, tmp_path / "run")["output"].eq(7).all()
    custom_constant.write_text(DESIGN + "# changed")
    with raises_code(UserError, "run-differs") as caught:
        run(scenario, tmp_path / "run")
    message = str(caught.value)
    assert "\n  custom_constant:Constant (custom_constant.py) has changed " in message
    assert not re.search("[0-9a-f]{64}", message)
    assert "another scenario" not in message


def test_a_changed_component_has_another_folder_by_default(make_scenario: MakeScenario, custom_constant: Path) -> None:
    scenario = make_scenario(lppms=[CUSTOM]).at(
        custom_constant.parent, None, CodeAccess(allowed=True, beside=custom_constant.parent)
    )
    first = sim.run(scenario, figures=False)
    assert sim.run(scenario, figures=False).run.path == first.run.path == default_directory(scenario)
    # Of another length: otherwise Python would use the bytecode of the same second.
    custom_constant.write_text(DESIGN.replace("np.full(n, cell)", "np.full(n, cell + 1)"))
    with pytest.raises(ComponentError) as error:
        sim.run(scenario, figures=False)
    assert "custom_constant.py" in str(error.value)
    del sys.modules["custom_constant"]
    second = sim.run(scenario, figures=False)
    assert second.run.path != first.run.path
    assert second.manifest.digest != first.manifest.digest
    assert second.run.path.name == f"small-{second.manifest.digest[:8]}"
    assert first.events()["output"].eq(7).all()
    assert second.events()["output"].eq(8).all()


def test_a_changed_file_is_reported_and_has_another_folder_by_default(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "traces.csv"
    file.write_text("user,time,cell\n" + "".join(f"a,{i},{i % 3}\n" for i in range(9)))
    users = {"mobility": {"kind": "replay", "file": "traces.csv"}}
    scenario = make_scenario(users=users, training={"no data": "nothing"}, lppms=["SP-Exp"]).at(tmp_path, None)
    first = sim.run(scenario, figures=False)
    file.write_text(file.read_text() + "a,9,0\n")
    with raises_code(UserError, "run-differs") as error:
        sim.run(scenario, out=first.run.path, figures=False)
    assert "\n  traces.csv has changed " in str(error.value)
    second = sim.run(scenario, figures=False)
    assert second.run.path != first.run.path
    assert (len(first.events()), len(second.events())) == (2 * 9, 2 * 10)


def test_files_of_a_sweep_change_the_default_folder(make_scenario: MakeScenario, tmp_path: Path) -> None:
    replay = {"kind": "replay", "file": "one.csv"}
    swept = {"users.mobility.file": ["one.csv", "two.csv"]}
    scenario = make_scenario(users={"mobility": replay}, training={}, sweep=swept).at(tmp_path, None)
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("user,time,cell\na,1,1\n")
    before = default_directory(scenario)
    (tmp_path / "two.csv").write_text("user,time,cell\na,1,2\n")
    assert default_directory(scenario) != before


def test_the_default_folder_of_a_scenario_without_files_needs_no_points(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def costly(_: Scenario) -> None:
        raise AssertionError("points were built")

    monkeypatch.setattr("sim.execution.inputs.points", costly)
    scenario = make_scenario(sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]}, lppms=["SP-Exp"])
    assert default_directory(scenario) == Path("outputs", f"small-{scenario.digest[:8]}")


def test_a_module_next_to_the_scenario_is_imported_by_run_and_by_check(
    make_scenario: MakeScenario, tmp_path: Path, custom_constant: Path
) -> None:
    scenario = make_scenario(lppms=[CUSTOM]).at(
        custom_constant.parent, None, CodeAccess(allowed=True, beside=custom_constant.parent)
    )
    assert estimate(scenario).queries == 75
    sys.modules.pop("custom_constant", None)  # not imported if the estimate runs in a child process
    assert run(scenario, tmp_path / "run")["output"].eq(7).all()
    assert sys.path[:2] == [str(Path.cwd()), str(custom_constant.parent)]
    assert sys.path.count(str(custom_constant.parent)) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("plain_kernels")
def test_a_killed_run_is_readable_and_can_be_finished(gated: Gated, commands: CommandServer, tmp_path: Path) -> None:
    out, gate = tmp_path / "run", Gate(tmp_path / "gate", tmp_path / "run")
    with commands.running(*gated.command, folder=tmp_path, environment=gate.environment):
        until(lambda: gate.waiting() == 1)
    gate.open()
    result = sim.Result.open(out)
    assert not result.manifest.finished
    survived = result.events()
    rows = 2 * 2 * 5
    assert rows <= len(survived) < CHUNKS * rows
    finished = run(gated.scenario, out)
    assert len(finished) == CHUNKS * rows
    kept = finished[finished["replication"].isin(survived["replication"].unique())]
    pd.testing.assert_frame_equal(survived, kept.reset_index(drop=True))
    assert files(out) == files(gated.whole)


def test_a_run_can_be_repeated_from_its_manifest(make_scenario: MakeScenario, tmp_path: Path) -> None:
    first = sim.run(make_scenario(), out=tmp_path / "a", figures=False)
    again = sim.run(sim.load(tmp_path / "a" / "manifest.json"), out=tmp_path / "b", figures=False)
    pd.testing.assert_frame_equal(first.events(), again.events())


def test_a_part_of_a_run_with_other_input_files_is_rejected(tmp_path: Path, make_scenario: MakeScenario) -> None:
    """Both runs have parts of the same names, which do not depend on the content of the files."""
    users = {"mobility": {"kind": "replay", "file": "t.csv"}}
    scenario = make_scenario(users=users, training={}, lppms=["SP-Exp"]).at(tmp_path, None)
    for name, cell in (("one", 1), ("other", 2)):
        rows = "".join(f"a,{time},{cell + time % 3}\n" for time in range(9))
        (tmp_path / "t.csv").write_text("user,time,cell\n" + rows)
        sim.run(scenario, out=tmp_path / name, figures=False)
    (part,) = (tmp_path / "one" / "events").glob("*.parquet")
    (tmp_path / "other" / "events" / part.name).write_bytes(part.read_bytes())
    with pytest.raises(DamagedRun) as error:
        sim.Result.open(tmp_path / "other").summary()
    assert part.name in str(error.value)
