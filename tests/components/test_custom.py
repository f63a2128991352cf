"""Custom components: the search path of modules, the accepted classes, and the examples of the documentation."""

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
from tests.support import raises_code

MODULE = "custom_module_for_registry"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return empty folders: the current one, that of the scenario, another one and one of the environment."""
    folders = {name: tmp_path / name for name in ("here", "scenario", "other", "environment")}
    for folder in folders.values():
        folder.mkdir()
    monkeypatch.chdir(folders["here"])
    monkeypatch.setattr(sys, "path", [str(folders["environment"]), *sys.path])
    monkeypatch.setattr(imports.importer, "_added", frozenset())
    monkeypatch.setitem(sys.modules, MODULE, types.ModuleType(MODULE))
    monkeypatch.delitem(sys.modules, MODULE)
    return folders


def write(folder: Path) -> None:
    (folder / f"{MODULE}.py").write_text(f"class X:\n    where = {folder.name!r}\n")


def load_x(beside: Path | None = None) -> Any:
    return load_class(f"{MODULE}:X", CodeAccess(allowed=True, beside=beside))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_search_order_is_current_folder_scenario_folder_environment(first: int, folders: dict[str, Path]) -> None:
    order = ["here", "scenario", "environment"]
    for name in order[first:]:
        write(folders[name])
    assert load_x(folders["scenario"]).where == order[first]


def test_sys_path_has_each_folder_once_and_none_of_an_earlier_scenario(folders: dict[str, Path]) -> None:
    before = list(sys.path)
    write(folders["here"])
    for name in ("other", "scenario", "scenario", "here"):
        for _ in range(2):
            load_x(folders[name])
        first = list(dict.fromkeys([str(folders["here"]), str(folders[name])]))
        assert sys.path == [*first, *(path for path in before if path not in first)]


def test_folder_of_the_environment_stays_on_sys_path(folders: dict[str, Path]) -> None:
    write(folders["here"])
    for name in ("environment", "scenario"):
        load_x(folders[name])
    assert str(folders["environment"]) in sys.path


def test_missing_module_is_reported_with_the_searched_folders(folders: dict[str, Path]) -> None:
    with raises_code(ComponentError, "class-not-importable") as error:
        load_x(folders["scenario"])
    assert f"{folders['here']}, {folders['scenario']}" in str(error.value)


def test_module_of_the_same_name_in_another_folder_is_a_conflict(folders: dict[str, Path]) -> None:
    write(folders["scenario"])
    write(folders["other"])
    assert load_x(folders["scenario"]).where == "scenario"
    with raises_code(ComponentError, "module-name-conflict") as error:
        load_x(folders["other"])
    for name in ("scenario", "other"):
        assert str(folders[name] / f"{MODULE}.py") in str(error.value)


def test_failing_constructor_is_reported_with_the_parameters_of_the_scenario(folders: dict[str, Path]) -> None:
    text = "class X:\n    def __init__(self, **given):\n        raise ValueError('matrix must sum to 1')\n"
    text += "    def queries(self, visits, rng): ...\n"
    access = CodeAccess(allowed=True)
    (folders["here"] / f"{MODULE}.py").write_text(text)
    with raises_code(ComponentError, "component-failed") as error:
        construct(f"{MODULE}:X", "demand", access, world=object(), size=2, label="a")
    assert re.fullmatch(rf"{MODULE}:X raised ValueError .* size=2, label='a': matrix must sum to 1", str(error.value))
    with raises_code(ComponentError, "component-failed") as error:
        construct(f"{MODULE}:X", "demand", access, world=object())
    assert "world" not in str(error.value)


COMPLETE = {
    "mobility": "def users(self, count): ...\n    def visits(self, user, rng): ...",
    "demand": "def queries(self, visits, rng): ...",
    "belief": "def prior(self, time_s): ...\n    def observe(self, time_s, likelihood): ...",
    "design": "def __call__(self, prior): ...",
    "lppm": "def channel(self, time_s): ...\n    def observe(self, report): ...",
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
    for rejected in ("Z", "W"):
        with raises_code(ComponentError, "missing-method") as error:
            resolve(f"{MODULE}:{rejected}", family, access)
        assert str(error.value).endswith(f"{rejected} does not define {', '.join(METHODS[family])}")


REJECTED = {
    "function": ("def X(**given): ...", "not-a-class", "function"),
    "builtin function": ("from os import system as X", "not-a-class", "function"),
    "value": ("X = 3", "not-a-class", "int"),
    "instance": ("class Y:\n    def queries(self, visits, rng): ...\nX = Y()", "not-a-class", "Y"),
    "module": ("import os as X", "not-a-class", "module"),
    "class of the standard library": (
        "from subprocess import Popen as X",
        "standard-library-class",
        "subprocess.Popen",
    ),
    "class of Python": ("X = dict", "standard-library-class", "builtins.dict"),
    "other name": ("class Y: ...", "unknown-class", "'X'"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_only_classes_outside_the_standard_library_are_components(case: str, folders: dict[str, Path]) -> None:
    text, code, value = REJECTED[case]
    (folders["here"] / f"{MODULE}.py").write_text(text)
    with raises_code(ComponentError, code) as error:
        load_x()
    assert value in str(error.value)


@pytest.mark.parametrize("name", ["os:system", "os.path:join", "subprocess:Popen", "builtins:eval", "sys:exit"])
def test_standard_library_is_rejected_even_with_permission(name: str) -> None:
    with raises_code(ComponentError, "standard-library-class") as error:
        load_class(name, CodeAccess(allowed=True))
    assert name in str(error.value)


@pytest.mark.parametrize("allowed", [None, False])
def test_nothing_is_imported_without_permission(allowed: bool | None, folders: dict[str, Path]) -> None:
    write(folders["here"])
    with raises_code(CodeNotAllowed, "code-not-allowed") as error:
        load_class(f"{MODULE}:X", CodeAccess(allowed=allowed))
    assert str(folders["here"] / f"{MODULE}.py") in str(error.value)
    assert MODULE not in sys.modules


def test_permission_for_a_folder_holds_for_that_folder_alone(folders: dict[str, Path]) -> None:
    for name in ("here", "scenario", "environment"):
        write(folders[name])
    access = CodeAccess(beside=folders["scenario"]).granted(folders["other"])
    with raises_code(ComponentError, "code-not-allowed") as error:
        load_class(f"{MODULE}:X", access)
    assert f"{folders['other']} only" in str(error.value)
    (folders["other"] / MODULE).mkdir()  # without __init__.py: Python would import the installed module instead
    with raises_code(ComponentError, "code-not-allowed"):
        load_class(f"{MODULE}:X", access)
    write(folders["other"])
    assert load_class(f"{MODULE}:X", access).where == "other"
