"""Public names of `sim`: complete, documented, typed, and imported on first use."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import sim

NAMES = [name for name in sim.__all__ if name != "__version__"]


def test_every_name_can_be_imported() -> None:
    for name in NAMES:
        assert getattr(sim, name) is not None


def test_names_of_editors_and_of_the_interpreter_agree() -> None:
    tree = ast.parse(Path(str(sim.__file__)).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    static = {
        alias.name: f"{node.module}" for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert static == sim._MODULE_OF
    assert sorted(NAMES) == sorted(static)


def test_dir_lists_every_name() -> None:
    assert set(sim.__all__) <= set(dir(sim))


def test_import_is_cheap() -> None:
    code = "import sim, sys; assert not {'numpy', 'pandas', 'pydantic', 'matplotlib'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = sim.nothing_like_this


def test_version_is_that_of_the_distribution() -> None:
    assert sim.__version__ == importlib.metadata.version("lppm-sim")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(sim, name))


@pytest.mark.parametrize(
    "name", [name for name in NAMES if inspect.isfunction(getattr(sim, name)) and name != "stream"]
)
def test_every_function_describes_its_parameters(name: str) -> None:
    function = getattr(sim, name)
    documentation = inspect.getdoc(function) or ""
    assert "Parameters\n-----" in documentation
    assert "Returns\n-----" in documentation
    for parameter in inspect.signature(function).parameters:
        assert parameter in documentation
