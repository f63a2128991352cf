"""Limits of the test suite: each test has a time limit, and no Hypothesis example has a deadline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

from tests.support import ROOT

STUCK = """
import threading

import pytest


@pytest.fixture(scope="module")
def never():
    threading.Event().wait()


@pytest.mark.timeout(1)
def test_in_a_fixture(never):
    pass


@pytest.mark.timeout(1)
def test_in_the_test():
    threading.Thread(target=threading.Event().wait, name="another thread", daemon=True).start()
    threading.Event().wait()


def test_after():
    pass
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGALRM")
@pytest.mark.parametrize("processes", [[], ["-n", "1", "--dist", "worksteal"]])
def test_a_hanging_test_fails_with_all_stacks_and_the_others_run(processes: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_stuck.py").write_text(STUCK)
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *processes, str(tmp_path / "test_stuck.py")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert "1 failed, 1 passed, 1 error" in result.stdout, result.stdout + result.stderr
    assert result.stdout.count("Failed: Timeout (>1.0s) from pytest-timeout") >= 2
    assert "Stack of another thread" in result.stdout


def test_every_test_has_a_time_limit(request: pytest.FixtureRequest) -> None:
    assert float(request.config.getini("timeout")) == 300
    assert float(str(request.config.getini("faulthandler_timeout"))) > 300
    assert request.config.getini("faulthandler_exit_on_timeout") is True


def test_no_hypothesis_example_has_a_deadline() -> None:
    assert hypothesis.settings.default is not None
    assert hypothesis.settings.default.deadline is None
    assert hypothesis.settings(max_examples=5).deadline is None
