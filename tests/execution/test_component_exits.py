"""Component code that would end the program fails its chunk or its command, and nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sim
from sim.cli import main
from sim.execution.failures import FailedChunks
from sim.scenario.models import Scenario
from sim.simulation.interrupts import ComponentExit
from tests.support import ROOT, MakeScenario, lppm_sim, raises_code

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")

LEAVING = '''
import os
import sys

from sim.lppm.designs.identity import Identity
from sim.mobility.synthetic.favourites import Favourites


class Leave(BaseException):
    """Exception that `except Exception` does not catch."""


def leave(how):
    if how == "exit":
        sys.exit(0)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "generator":
        raise GeneratorExit
    if how == "custom":
        raise Leave("bye")
    if how == "os exit":
        os._exit(0)


class Leaving(Identity):
    uses_prior = True

    def __init__(self, *, world, how, when="call"):
        super().__init__(n_cells=world.n_cells)
        self.how, self.when = how, when
        if when == "made":
            leave(how)

    def __call__(self, prior):
        if self.when == "call":
            leave(self.how)
        return super().__call__(prior)
'''

ERRORS = {
    "exit": "SystemExit: 0",
    "interrupt": "KeyboardInterrupt",
    "generator": "GeneratorExit",
    "custom": "Leave: bye",
}


@pytest.fixture
def leaving(make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scenario]:
    """Return a function that makes a scenario with a design that ends the program in some way."""
    name = f"leaving_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(LEAVING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.setenv("LPPM_SIM_ALLOW_CODE", str(tmp_path))

    def make(how: str, when: str = "call", **changes: Any) -> Scenario:
        design = {"kind": f"{name}:Leaving", "how": how, "when": when}
        leaving = {"name": "leaving", "belief": "fixed_profile", "design": design}
        users = {"count": 2, "queries": 4, "mobility": "favourites"}
        return make_scenario(**({"lppms": [leaving], "attacks": ["sporadic"], "users": users} | changes)).at(
            tmp_path, None
        )

    return make


def write(scenario: Scenario, path: Path) -> Path:
    path.write_text(scenario.model_dump_json(exclude_unset=True))
    return path


@pytest.mark.parametrize("where", [{}, {"workers": 2}, {"dask": "local", "workers": 2}])
def test_code_that_would_end_the_program_fails_only_its_chunk(
    where: dict[str, Any], leaving: Callable[..., Scenario], tmp_path: Path
) -> None:
    hows = ["nothing", *ERRORS, "nothing else"]
    scenario = leaving("nothing", sweep={"lppms.leaving.design.how": hows})
    with pytest.raises(FailedChunks) as caught:
        sim.run(scenario, out=tmp_path / "run", figures=False, **where)
    failures = {failure["values"]["lppms.leaving.design.how"]: failure for failure in caught.value.failures}
    assert {how: failure["error"] for how, failure in failures.items()} == ERRORS
    assert all("in leave" in failure["traceback"] for failure in failures.values())
    assert set(sim.Result.open(tmp_path / "run").events()["point"]) == {0, len(hows) - 1}


def test_a_worker_that_exits_is_replaced(leaving: Callable[..., Scenario], tmp_path: Path) -> None:
    scenario = leaving("nothing", sweep={"lppms.leaving.design.how": ["nothing", "os exit"]})
    with pytest.raises(FailedChunks) as caught:
        sim.run(scenario, out=tmp_path / "run", figures=False, workers=2)
    assert [failure["error"] for failure in caught.value.failures] == ["its worker died 3 times (exit code 0)"]
    assert set(sim.Result.open(tmp_path / "run").events()["point"]) == {0}


@pytest.mark.parametrize("how", ERRORS)
def test_an_exit_during_construction_is_reported_with_its_place(
    how: str, leaving: Callable[..., Scenario], tmp_path: Path
) -> None:
    scenario = leaving(how, when="made")
    with raises_code(ComponentExit, "component-exit") as error:
        sim.run(scenario, out=tmp_path / "run", figures=False)
    assert re.search(r"leaving_\d+\.py', line \d+, in leave raised ", str(error.value))
    file = write(scenario, tmp_path / "study.json")
    for result in (lppm_sim("run", file, "-o", "run"), lppm_sim("check", file, "--limit", "60")):
        assert result.exit_code == 2
        assert "in leave raised" in result.stderr


@pytest.mark.parametrize("how", ERRORS)
def test_an_exit_during_use_fails_the_command(how: str, leaving: Callable[..., Scenario], tmp_path: Path) -> None:
    file = write(leaving(how), tmp_path / "study.json")
    checked = lppm_sim("check", file, "--limit", "60")
    assert checked.exit_code == 2
    assert "lppms.leaving: " in checked.stderr
    assert "in leave raised" in checked.stderr
    ended = lppm_sim("run", file, "-o", "run", "--no-figures")
    assert ended.exit_code == 1
    assert f"replication 0, leaving: {ERRORS[how]}" in ended.stderr
    chunk = ended.stderr.split("--chunk ")[1].split()[0]
    alone = CliRunner().invoke(main, ["run", str(file), "-o", "run", "--chunk", chunk])
    assert isinstance(alone.exception, RuntimeError), "its traceback is shown"
    assert alone.exit_code == 1


@pytest.mark.parametrize("when", ["call", "made"])
def test_check_component_reports_an_exit(when: str, leaving: Callable[..., Scenario]) -> None:
    kind = leaving("exit").model_dump(mode="json")["lppms"][0]["design"]["kind"]
    result = lppm_sim("check-component", kind, "--as", "design", "--set", "how=exit", "--set", f"when={when}")
    assert result.exit_code == 1
    assert "raised SystemExit(0)" in " ".join((result.stdout + result.stderr).split())
