"""A finished run, created by the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import Result

from tests.support import SMALL, lppm_sim


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Return the directory of a finished run and the result of the command."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.yaml").write_text(SMALL)
    return folder / "run", lppm_sim("run", folder / "small.yaml", "-o", folder / "run", "--no-figures")


@pytest.fixture
def a_run(finished: tuple[Path, Result], tmp_path: Path) -> Path:
    """Return a modifiable copy of a finished run."""
    return Path(shutil.copytree(finished[0], tmp_path / "run"))
