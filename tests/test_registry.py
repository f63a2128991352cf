"""One's own modules: where they are looked for, what is said when they fail, and the examples of the documentation."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from sim import registry
from sim.checks import check
from sim.registry import ComponentError, construct, resolve, search_in

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
MODULE = "own_module_for_registry"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return the current folder, the scenario's, another's and one of the environment, all empty."""
    found = {name: tmp_path / name for name in ("here", "scenario", "other", "environment")}
    for folder in found.values():
        folder.mkdir()
    monkeypatch.chdir(found["here"])
    monkeypatch.setattr(sys, "path", [str(found["environment"]), *sys.path])
    monkeypatch.setattr(registry._Search, "beside", None)
    monkeypatch.setattr(registry._Search, "added", frozenset())
    monkeypatch.setitem(sys.modules, MODULE, types.ModuleType(MODULE))
    monkeypatch.delitem(sys.modules, MODULE)
    return found


def write(folder: Path) -> None:
    (folder / f"{MODULE}.py").write_text(f"class X:\n    where = {folder.name!r}\n")


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_current_folder_comes_first_then_the_scenarios_then_the_environment(
    first: int, folders: dict[str, Path]
) -> None:
    order = ["here", "scenario", "environment"]
    for name in order[first:]:
        write(folders[name])
    search_in(folders["scenario"])
    assert resolve(f"{MODULE}:X").where == order[first]


def test_no_folder_is_put_in_twice_and_one_of_an_earlier_scenario_is_taken_out(folders: dict[str, Path]) -> None:
    before = list(sys.path)
    write(folders["here"])
    for name in ("other", "scenario", "scenario", "here"):
        search_in(folders[name])
        for _ in range(2):
            resolve(f"{MODULE}:X")
        first = list(dict.fromkeys([str(folders["here"]), str(folders[name])]))
        assert sys.path == [*first, *(path for path in before if path not in first)]


def test_a_folder_of_the_environment_stays_in_it(folders: dict[str, Path]) -> None:
    write(folders["here"])
    for name in ("environment", "scenario"):
        search_in(folders[name])
        resolve(f"{MODULE}:X")
    assert str(folders["environment"]) in sys.path


def test_a_missing_module_says_where_it_was_looked_for(folders: dict[str, Path]) -> None:
    search_in(folders["scenario"])
    words = f"(looked in {folders['here']}, {folders['scenario']} and the environment)"
    with pytest.raises(ComponentError, match=re.escape(words)):
        resolve(f"{MODULE}:X")


def test_a_namesake_beside_another_scenario_is_not_taken_for_it(folders: dict[str, Path]) -> None:
    write(folders["scenario"])
    write(folders["other"])
    search_in(folders["scenario"])
    assert resolve(f"{MODULE}:X").where == "scenario"
    search_in(folders["other"])
    with pytest.raises(ComponentError, match=f"another module '{MODULE}' is loaded"):
        resolve(f"{MODULE}:X")


def test_a_constructor_that_raises_is_told_with_the_scenarios_own_parameters(folders: dict[str, Path]) -> None:
    text = "class X:\n    def __init__(self, **given):\n        raise ValueError('matrix must sum to 1')\n"
    (folders["here"] / f"{MODULE}.py").write_text(text)
    with pytest.raises(ComponentError) as caught:
        construct(f"{MODULE}:X", world=object(), size=2, label="a")
    assert str(caught.value) == f"{MODULE}:X raised ValueError when made with size=2, label='a': matrix must sum to 1"
    with pytest.raises(ComponentError, match="raised ValueError when made without parameters: matrix must"):
        construct(f"{MODULE}:X", world=object())


BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def test_the_page_has_its_examples() -> None:
    assert [re.findall(r"^class (\w+)", block, flags=re.MULTILINE) for block in BLOCKS] == [
        ["Rounding"],
        ["RemappedRounding"],
        ["SilentAtHome"],
    ]
    assert "uses_prior" not in BLOCKS[1]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_examples_of_the_page_keep_the_contracts(block: str, folders: dict[str, Path]) -> None:
    (folders["here"] / f"{MODULE}.py").write_text(block)
    (name,) = re.findall(r"^class (\w+)", block, flags=re.MULTILINE)
    outcomes = check(f"{MODULE}:{name}", parameters={"size": 2})
    assert len(outcomes) == 6
    assert [outcome.problem for outcome in outcomes] == [None] * 6
