"""The command `check-component`: contract checks of a custom component."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import done, lppm_sim, refused

DESIGN = """
import numpy as np
from sim.lppm.channels.matrix import MatrixChannel


class Star:
    def __init__(self, *, world, lie=0.5, whole=True):
        if not 0 <= lie <= 1:
            raise ValueError(f"lie must be in [0, 1], got {lie}")
        self.n, self.lie, self.whole = world.n_cells, lie, whole

    def __call__(self, prior):
        if not self.whole:
            prior[:] = prior / 2
        return MatrixChannel((1 - self.lie) * np.eye(self.n) + self.lie / self.n)
"""


@pytest.fixture
def own_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "own_design_for_the_command_line"
    (tmp_path / f"{name}.py").write_text(DESIGN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return f"{name}:Star"


def test_check_component(own_design: str) -> None:
    *lines, last = done("check-component", own_design, "--set", "lie=0.25").splitlines()
    assert [line.split(None, 1)[0] for line in lines] == ["ok"] * 9
    assert last == f"{own_design}: 9 of 9 checks passed"
    assert done("check-component", own_design, "--as", "design").splitlines()[-1] == last


def test_failed_check_exits_with_one(own_design: str) -> None:
    result = lppm_sim("check-component", own_design, "--set", "whole=false")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    failed = next(place for place, line in enumerate(lines) if line.startswith("fail "))
    assert "`prior`" in lines[failed + 1]
    assert lines[-1] == f"{own_design}: 8 of 9 checks passed"
    result = lppm_sim("check-component", own_design, "--set", "lie=7")
    assert result.exit_code == 1
    assert "lie must be in [0, 1], got 7" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["no_such_module:X"], ["'no_such_module'"]),
        (["{own}x"], ["did you mean 'Star'?"]),
        (["plain"], ["'plain'", "did you mean 'cloaking'?", "module:Class"]),
        (["{own}", "--as", "desing"], ["'desing'", "'mobility'"]),
        (["{own}", "--set", "lie"], ["--set: found 'lie'", "[invalid-setting]"]),
        (["{own}", "--set", "=1"], ["--set: found '=1'", "[invalid-setting]"]),
        (["{own}", "--set", "lie=[1"], ["'[1'"]),
    ],
)
def test_invalid_requests_are_rejected(own_design: str, arguments: list[str], parts: list[str]) -> None:
    message = refused("check-component", *(argument.format(own=own_design) for argument in arguments))
    assert all(part in message for part in parts)
