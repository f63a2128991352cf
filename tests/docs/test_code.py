"""All code of the documentation runs: Python, commands and scenarios of each page, in the order of the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sim.inference import kernels
from tests.docs.blocks import is_notebook
from tests.support import ROOT

PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts]
CODE = [page for page in PAGES if not is_notebook(page)]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT / "docs").with_suffix(""))


@pytest.fixture(scope="module")
def problem_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], str | None]]:
    """Return a function that runs the code of a page in an empty folder and returns the problem, if any."""
    environment = os.environ | {kernels.VARIABLE: "plain", "MPLBACKEND": "agg", "COLUMNS": "120"}
    command = [sys.executable, "-m", "tests.docs.page_session"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:

        def run(page: Path) -> str | None:
            folder = tmp_path_factory.mktemp(page.stem)
            (folder / "scenarios").symlink_to(ROOT / "scenarios")
            request = {"page": str(page), "folder": str(folder), "output": str(folder.with_suffix(".problem"))}
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            problem: str | None = json.loads(server.stdout.readline())
            return problem

        try:
            yield run
        finally:
            server.kill()


@pytest.mark.parametrize("page", CODE, ids=_name)
def test_code_of_a_page_runs(page: Path, problem_in: Callable[[Path], str | None]) -> None:
    if problem := problem_in(page):
        pytest.fail(problem, pytrace=False)
