"""Custom components: where modules are searched, which classes are accepted, and the examples of the documentation."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from sim.components import imports
from sim.components.imports import ComponentError, construct, load_class, resolve
from sim.components.permission import CodeAccess, CodeNotAllowed
from sim.components.registry import METHODS

MODULE = "own_module_for_registry"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return the current folder, the scenario's, another's and one of the environment, all empty."""
    found = {name: tmp_path / name for name in ("here", "scenario", "other", "environment")}
    for folder in found.values():
        folder.mkdir()
    monkeypatch.chdir(found["here"])
    monkeypatch.setattr(sys, "path", [str(found["environment"]), *sys.path])
    monkeypatch.setattr(imports.importer, "_added", frozenset())
    monkeypatch.setitem(sys.modules, MODULE, types.ModuleType(MODULE))
    monkeypatch.delitem(sys.modules, MODULE)
    return found


def write(folder: Path) -> None:
    (folder / f"{MODULE}.py").write_text(f"class X:\n    where = {folder.name!r}\n")


def load_x(beside: Path | None = None) -> Any:
    return load_class(f"{MODULE}:X", CodeAccess(allowed=True, beside=beside))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_current_folder_comes_first_then_the_scenarios_then_the_environment(
    first: int, folders: dict[str, Path]
) -> None:
    order = ["here", "scenario", "environment"]
    for name in order[first:]:
        write(folders[name])
    assert load_x(folders["scenario"]).where == order[first]


def test_no_folder_is_put_in_twice_and_one_of_an_earlier_scenario_is_taken_out(folders: dict[str, Path]) -> None:
    before = list(sys.path)
    write(folders["here"])
    for name in ("other", "scenario", "scenario", "here"):
        for _ in range(2):
            load_x(folders[name])
        first = list(dict.fromkeys([str(folders["here"]), str(folders[name])]))
        assert sys.path == [*first, *(path for path in before if path not in first)]


def test_a_folder_of_the_environment_stays_in_it(folders: dict[str, Path]) -> None:
    write(folders["here"])
    for name in ("environment", "scenario"):
        load_x(folders[name])
    assert str(folders["environment"]) in sys.path


def test_a_missing_module_says_where_it_was_looked_for(folders: dict[str, Path]) -> None:
    words = f"(looked in {folders['here']}, {folders['scenario']} and the environment)"
    with pytest.raises(ComponentError, match=re.escape(words)):
        load_x(folders["scenario"])


def test_a_namesake_beside_another_scenario_is_not_taken_for_it(folders: dict[str, Path]) -> None:
    write(folders["scenario"])
    write(folders["other"])
    assert load_x(folders["scenario"]).where == "scenario"
    with pytest.raises(ComponentError, match=f"another module '{MODULE}' is loaded"):
        load_x(folders["other"])


def test_a_constructor_that_raises_is_told_with_the_scenarios_own_parameters(folders: dict[str, Path]) -> None:
    text = "class X:\n    def __init__(self, **given):\n        raise ValueError('matrix must sum to 1')\n"
    text += "    def queries(self, visits, rng): ...\n"
    access = CodeAccess(allowed=True)
    (folders["here"] / f"{MODULE}.py").write_text(text)
    with pytest.raises(ComponentError) as caught:
        construct(f"{MODULE}:X", "demand", access, world=object(), size=2, label="a")
    assert str(caught.value) == f"{MODULE}:X raised ValueError when made with size=2, label='a': matrix must sum to 1"
    with pytest.raises(ComponentError, match="raised ValueError when made without parameters: matrix must"):
        construct(f"{MODULE}:X", "demand", access, world=object())


COMPLETE = {
    "mobility": "def users(self, count): ...\n    def visits(self, user, rng): ...",
    "demand": "def queries(self, visits, rng): ...",
    "belief": "def prior(self, time_s): ...\n    def observe(self, time_s, likelihood): ...",
    "design": "def __call__(self, prior): ...",
    "attack": "def observe(self, report): ...",
}


@pytest.mark.parametrize("family", METHODS)
def test_a_class_must_have_the_methods_of_its_family(family: str, folders: dict[str, Path]) -> None:
    text = f"class X:\n    {COMPLETE[family]}\nclass Y(X): ...\nclass Z: ...\nclass W:\n"
    text += "".join(f"    {method} = None\n" for method in METHODS[family])
    (folders["here"] / f"{MODULE}.py").write_text(text)
    access = CodeAccess(allowed=True)
    for accepted in ("X", "Y"):
        assert resolve(f"{MODULE}:{accepted}", family, access).__name__ == accepted
    for refused in ("Z", "W"):
        missing = ", ".join(METHODS[family])
        with pytest.raises(ComponentError, match=f"{refused} does not define {re.escape(missing)}"):
            resolve(f"{MODULE}:{refused}", family, access)


REFUSED = {
    "function": ("def X(**given): ...", "must be a class, found a function"),
    "builtin function": ("from os import system as X", "must be a class, found a function"),
    "value": ("X = 3", "must be a class, found a value of type int"),
    "instance": ("class Y:\n    def queries(self, visits, rng): ...\nX = Y()", "found a value of type Y"),
    "module": ("import os as X", "must be a class, found a value of type module"),
    "class of the standard library": ("from subprocess import Popen as X", "found subprocess.Popen"),
    "class of Python": ("X = dict", "found builtins.dict"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_only_classes_outside_the_standard_library_are_components(case: str, folders: dict[str, Path]) -> None:
    text, words = REFUSED[case]
    (folders["here"] / f"{MODULE}.py").write_text(text)
    with pytest.raises(ComponentError, match=re.escape(words)):
        load_x()


@pytest.mark.parametrize("name", ["os:system", "os.path:join", "subprocess:Popen", "builtins:eval", "sys:exit"])
def test_the_standard_library_is_refused_with_permission_too(name: str) -> None:
    with pytest.raises(ComponentError, match="standard library"):
        load_class(name, CodeAccess(allowed=True))


@pytest.mark.parametrize("allowed", [None, False])
def test_nothing_is_imported_without_permission(allowed: bool | None, folders: dict[str, Path]) -> None:
    write(folders["here"])
    with pytest.raises(CodeNotAllowed, match=re.escape(str(folders["here"] / f"{MODULE}.py"))):
        load_class(f"{MODULE}:X", CodeAccess(allowed=allowed))
    assert MODULE not in sys.modules


def test_a_permission_for_a_folder_is_for_that_folder_alone(folders: dict[str, Path]) -> None:
    for name in ("here", "scenario", "environment"):
        write(folders[name])
    access = CodeAccess(beside=folders["scenario"]).granted(folders["other"])
    with pytest.raises(ComponentError, match=re.escape(f"permits modules in {folders['other']} only")):
        load_class(f"{MODULE}:X", access)
    (folders["other"] / MODULE).mkdir()  # without __init__.py: Python would take the installed one instead
    with pytest.raises(ComponentError, match=re.escape(f"permits modules in {folders['other']} only")):
        load_class(f"{MODULE}:X", access)
    write(folders["other"])
    assert load_class(f"{MODULE}:X", access).where == "other"
