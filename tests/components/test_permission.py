"""Scenario files and manifests cannot run code without permission from outside the file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import sim
from sim.components.permission import VARIABLE, CodeAccess, CodeNotAllowed
from sim.errors import InputError
from sim.plots import write_figures
from sim.plots.style import METADATA
from sim.scenario.reading.faults import ScenarioError
from tests.command_server import CommandServer, command_server
from tests.support import raises_code

EVIL = """
import pathlib

pathlib.Path(__file__).with_name("pwned").touch()
from sim.lppm.designs.identity import Identity
from sim.mobility.demand.every_visit import EveryVisit


class Design(Identity):
    def __init__(self, *, world):
        super().__init__(n_cells=world.n_cells)


class Demand(EveryVisit):
    def __init__(self, **given):
        super().__init__()


def function(**given):
    return Demand()
"""

PLAIN: dict[str, Any] = {
    "name": "plain",
    "replications": 1,
    "world": {"grid": {"kind": "rectangle", "rows": 3, "cols": 3, "width_km": 3, "height_km": 3}},
    "users": {"count": 2, "queries": 5, "mobility": "favourites"},
    "lppms": ["SP-Exp"],
    "attacks": ["sporadic"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the current folder, which contains hostile modules, without permission to import them."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    (tmp_path / "evil_parts.py").write_text(EVIL)
    package = tmp_path / "evil_package"
    package.mkdir()
    for name in ("__init__", "inner"):
        (package / f"{name}.py").write_text(EVIL)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("evil"):
            del sys.modules[name]


def write(folder: Path, content: dict[str, Any] | str, name: str = "hostile.yaml") -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


def pwned(folder: Path) -> list[Path]:
    return list(folder.rglob("pwned*"))


def design(kind: Any, **keys: Any) -> dict[str, Any]:
    return {"lppms": [{"name": "x", "belief": "fixed_profile", "design": {"kind": kind, **keys}}]}


def users(**keys: Any) -> dict[str, Any]:
    return {"users": PLAIN["users"] | keys}


KINDS = [
    "os:system",
    "posix:system",
    "os.path:join",
    "subprocess:Popen",
    "subprocess:run",
    "builtins:eval",
    "builtins:exec",
    "importlib:import_module",
    "runpy:run_path",
    "pickle:loads",
    "ctypes:CDLL",
    "webbrowser:open",
    "pip:main",
    "pytest:main",
    "evil_parts:Design",
    "evil_parts:Demand",
    "evil_parts:function",
    "evil_parts:no_such_class",
    "evil_parts:__builtins__",
    "evil_parts:__class__",
    "evil_parts:pathlib",
    "evil_package:Design",
    "evil_package.inner:Design",
    "evil_package.inner:function",
    "..evil_parts:Design",
    ".evil_parts:Design",
    "./evil_parts:Design",
    "evil_parts.py:Design",
    "/tmp/evil_parts:Design",
    "evil_parts:Design:extra",
    "evil_parts:Design.mro",
    "evil_parts:Design()",
    "sim.cli:main",
    "sim.components.custom:construct",
    "console_scripts:lppm-sim",
    "lppm_sim.components:evil",
    "evil_parts :Design",
    "evil_parts:Design\x00",
    "evіl_parts:Design",  # a Cyrillic letter
]
FAMILIES: dict[str, Any] = {
    "demand": lambda kind: users(demand={"kind": kind, "command": "touch pwned"}),
    "design": design,
    "belief": lambda kind: {"lppms": [{"name": "x", "belief": {"kind": kind}, "design": "exponential"}]},
    "attack": lambda kind: {"attacks": [{"kind": kind, "name": "x"}]},
    "mobility": lambda kind: users(mobility={"kind": kind}),
    "training": lambda kind: {"training": {"t": {"kind": "others", "count": 2, "mobility": {"kind": kind}}}},
}
FORMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "short form": (users(demand="evil_parts:Demand"), []),
    "demand of a training set": ({"training": {"t": {"kind": "others", "demand": "evil_parts:Demand"}}}, []),
    "assumed design": ({"attacks": [{"kind": "sporadic", "name": "x", "assumes": "evil_parts:Design"}]}, []),
    "sweep of a component": ({"sweep": {"lppms.*.design": ["exponential", {"kind": "evil_parts:Design"}]}}, []),
    "sweep of a short form": ({"sweep": {"users.demand": ["every_visit", "evil_parts:Demand"]}}, []),
    "sweep of a list": ({"sweep": {"attacks": [["sporadic"], [{"kind": "evil_parts:Demand", "name": "x"}]]}}, []),
    "two sweeps": ({"sweep": {"seed": [1, 2], "lppms.0.design": ["evil_parts:Design"]}}, []),
    "setting of a component": ({}, ["lppms.0.design={kind: 'evil_parts:Design'}"]),
    "setting of a kind": ({}, ["users.demand=evil_parts:Demand"]),
    "setting of a sweep": ({}, ["sweep.lppms.*.design=[evil_parts:Design]"]),
}
TEXTS: dict[str, str] = {
    "python object": "users: !!python/object/apply:os.system ['touch pwned']\n",
    "python name": "users: {demand: !!python/name:os.system }\n",
    "python module": "lppms: [!!python/module:evil_parts ]\n",
    "local tag": "users: {demand: !evil_parts:Demand {}}\n",
    "merge key": "base: &b {kind: 'evil_parts:Demand'}\nusers: {demand: {<<: *b}, mobility: favourites}\nlppms: [X]\n",
}


def require_rejection(folder: Path, file: Path, settings: list[str]) -> None:
    """Load and run a hostile file in this process; both must be rejected without importing anything."""
    try:
        scenario = sim.load(file, settings=settings)
    except ScenarioError:
        pass
    else:
        assert scenario.place.code.allowed is None
        with pytest.raises((CodeNotAllowed, ScenarioError)):
            sim.run(scenario, out=folder / "run", figures=False)
        with pytest.raises(CodeNotAllowed):
            sim.run(scenario, out=folder / "run", figures=False, allow_code=False)
    assert not pwned(folder)
    assert not any(name.startswith("evil") for name in sys.modules)
    assert not (folder / "run").exists()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_any_family_is_imported_without_permission(kind: str, family: str, folder: Path) -> None:
    file = write(folder, PLAIN | FAMILIES[family](kind))
    require_rejection(folder, file, [])


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_component_is_imported_without_permission(form: str, folder: Path) -> None:
    content, settings = FORMS[form]
    file = write(folder, PLAIN | content)
    require_rejection(folder, file, settings)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_yaml_tags_and_merge_keys_run_no_code(text: str, folder: Path) -> None:
    require_rejection(folder, write(folder, text), [])


@pytest.mark.parametrize("kind", KINDS)
def test_with_permission_only_components_of_the_family_are_accepted(kind: str, folder: Path) -> None:
    """Only the classes named Design are designs; `Demand` is a class of another family."""
    file = write(folder, PLAIN | design(kind))
    if kind in ("evil_parts:Design", "evil_package:Design", "evil_package.inner:Design"):
        result = sim.run(sim.load(file, allow_code=True), out=folder / "run", figures=False)
        assert result.events()["output"].equals(result.events()["cell"].astype("int64"))
        return
    with pytest.raises(InputError):
        sim.run(sim.load(file, allow_code=True), out=folder / "run", figures=False)


def manifest(folder: Path, beside: Path) -> Path:
    """Return a valid manifest with a custom component in its scenario and the folder of its module."""
    run = sim.run(sim.load(write(folder, PLAIN, "plain.yaml")), out=folder / "downloaded", figures=False).run
    named = json.loads(sim.load(write(folder, PLAIN | design("evil_parts:Design"))).canonical())
    run.write_manifest(run.manifest().updated(scenario=named, folder=str(beside)))
    return run.path / "manifest.json"


def test_manifest_requires_permission_and_its_folder_is_not_searched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = manifest(folder, folder)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    require_rejection(folder, file, [])
    with raises_code(InputError, "class-not-importable") as error:
        sim.run(sim.load(file, allow_code=True), out=folder / "run", figures=False)
    assert "ModuleNotFoundError" in str(error.value)
    assert not pwned(folder)
    sim.run(sim.load(file, allow_code=folder), out=folder / "run", figures=False)
    assert pwned(folder), "the folder was permitted"


def test_permission_holds_for_one_scenario(folder: Path) -> None:
    file = write(folder, PLAIN | design("evil_parts:Design"))
    sim.run(sim.load(file, allow_code=True), out=folder / "first", figures=False)
    with pytest.raises(CodeNotAllowed):
        sim.run(sim.load(file), out=folder / "second", figures=False)


@pytest.mark.parametrize(("value", "allowed"), [("1", True), ("yes", True), ("0", None), ("", None), ("no", None)])
def test_environment_variable_decides_if_the_caller_does_not(
    value: str, allowed: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert CodeAccess().granted().allowed is allowed
    assert CodeAccess().granted(False).granted().allowed is False


def test_environment_variable_may_contain_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, os.pathsep.join([str(folder), str(folder / "evil_package")]))
    assert CodeAccess().granted().only == (folder, folder / "evil_package")
    monkeypatch.setenv(VARIABLE, str(folder / "missing"))
    with raises_code(InputError, "folder-not-found") as error:
        CodeAccess().granted()
    assert str(folder / "missing") in str(error.value)


# -- command line ---------------------------------------------------------------------------------------------


PACKAGE = str(Path(sim.__file__).parents[1])


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    """Return a server that runs commands without permission and, by default, without numba."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        with command_server(tmp_path_factory.mktemp("commands"), LPPM_SIM_KERNELS="plain") as server:
            yield server


@pytest.mark.parametrize("arguments", [["list"], ["list", "design"], ["schema"], ["check", "hostile.yaml"]])
def test_check_list_and_schema_never_import(arguments: list[str], folder: Path, commands: CommandServer) -> None:
    write(folder, PLAIN | design("evil_parts:Design"))
    ended = commands.run(*arguments, folder=folder)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not pwned(folder)
    if arguments[0] == "check":
        assert f"evil_parts:Design  ({folder / 'evil_parts.py'})" in ended.stdout
        assert "--allow-code" in ended.stdout


@pytest.mark.parametrize("arguments", [["run", "hostile.yaml"], ["watch", "hostile.yaml", "--once"]])
def test_without_a_terminal_the_error_recommends_the_flag(
    arguments: list[str], folder: Path, commands: CommandServer
) -> None:
    write(folder, PLAIN | design("evil_parts:Design"))
    ended = commands.run(*arguments, folder=folder)
    assert ended.returncode == 2
    assert f"evil_parts:Design  ({folder / 'evil_parts.py'})" in ended.stderr
    assert "--allow-code" in ended.stderr
    assert not pwned(folder)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--allow-code", "hostile.yaml"],
        ["run", "hostile.yaml", "--allow-code"],
        ["run", "hostile.yaml", "--allow-code", "."],
        ["run", "--allow-code=.", "hostile.yaml"],
    ],
)
def test_flag_accepts_an_optional_folder(arguments: list[str], folder: Path, commands: CommandServer) -> None:
    write(folder, PLAIN | design("evil_parts:Design"))
    ended = commands.run(*arguments, "--no-figures", "-o", "run", folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert (folder / "run" / "manifest.json").exists()


def test_empty_folder_name_does_not_grant_permission(folder: Path, commands: CommandServer) -> None:
    write(folder, PLAIN | design("evil_parts:Design"))
    for arguments in (["--allow-code", "", "hostile.yaml"], ["--allow-code=", "hostile.yaml"]):
        ended = commands.run("run", *arguments, folder=folder)
        assert ended.returncode == 2
        assert "found ''" in ended.stderr
    other = folder / "evil_package"
    ended = commands.run("run", "hostile.yaml", folder=folder, LPPM_SIM_ALLOW_CODE=f"{other}{os.pathsep}")
    assert ended.returncode == 2
    assert "evil_package only" in ended.stderr
    assert "'evil_parts'" in ended.stderr
    assert not pwned(folder)


def test_workers_do_not_import_from_the_current_folder(folder: Path, commands: CommandServer) -> None:
    """A worker starts as ``python -c``, which by default searches the current folder first."""
    for name in ("multiprocessing", "numpy", "pickle"):
        (folder / f"{name}.py").write_text("import pathlib; pathlib.Path(__file__).with_name('pwned').touch()\n")
    write(folder, PLAIN | {"replications": 2, "lppms": ["PEB-Exp"]})
    arguments = ("run", "hostile.yaml", "--workers", "2", "--no-figures", "--chunk-queries", "1")
    ended = commands.run(*arguments, folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert not pwned(folder)


def test_numba_settings_file_in_the_current_folder_is_rejected(folder: Path, commands: CommandServer) -> None:
    write(folder, PLAIN)
    (folder / ".numba_config.yaml").write_text("cache_dir: planted\n")
    ended = commands.run("check", "hostile.yaml", folder=folder, LPPM_SIM_KERNELS="numba")
    assert ended.returncode == 2
    assert ".numba_config.yaml" in ended.stderr
    assert not (folder / "planted").exists()
    assert commands.run("check", "hostile.yaml", folder=folder, LPPM_SIM_KERNELS="plain").returncode == 0


def test_matplotlibrc_in_the_current_folder_does_not_change_figures(
    folder: Path, commands: CommandServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = sim.run(sim.load(write(folder, PLAIN)), out=folder / "run", figures=False)
    (folder / "matplotlibrc").write_text("text.usetex: True\nfont.size: 40\n")
    ended = commands.run("plot", "run", folder=folder)
    assert ended.returncode == 0, ended.stderr
    drawn = {path.name: path.read_bytes() for path in (folder / "run" / "figures").glob("*.png")}
    monkeypatch.setattr("sim.plots.style.METADATA", {"png": METADATA["png"]})
    expected = {path.name: path.read_bytes() for path in map(Path, map(str, write_figures(result)))}
    assert drawn == expected
    assert "tradeoff.png" in drawn


def test_closed_output_pipe_is_not_reported_as_a_component_error(folder: Path, commands: CommandServer) -> None:
    write(folder, PLAIN)
    assert commands.run("run", "hostile.yaml", "-o", "run", "--no-figures", folder=folder).returncode == 0
    command = f"{sys.executable} -P -m sim.cli summarize run 2>err | true; cat err"
    environment = os.environ | {"PYTHONPATH": PACKAGE}
    ended = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert "component" not in ended.stdout


def test_flag_for_another_folder_does_not_grant_permission(folder: Path, commands: CommandServer) -> None:
    write(folder, PLAIN | design("evil_parts:Design"))
    ended = commands.run("run", "hostile.yaml", "--allow-code", "evil_package", folder=folder)
    assert ended.returncode == 2
    assert "evil_package only" in ended.stderr
    assert "'evil_parts'" in ended.stderr
    assert not pwned(folder)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2), ("\n", 2)])
def test_user_is_prompted_once_on_a_terminal(answer: str, code: int, folder: Path, commands: CommandServer) -> None:
    write(folder, PLAIN | design("evil_parts:Design"))
    arguments = ("run", "hostile.yaml", "--no-figures", "-o", "run")
    ended, screen = commands.run_on_terminal(*arguments, folder=folder, typed=answer)
    assert ended == code, screen
    assert len(re.findall("Do you trust this code", screen)) == 1
    assert str(folder / "evil_parts.py") in screen.replace("\r\n", "")
    assert bool(pwned(folder)) == (code == 0)
