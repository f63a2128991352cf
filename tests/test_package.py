"""Metadata of the package agree with each other and with the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_versions_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    changelog = (ROOT / "CHANGELOG.md").read_text()
    released = re.search(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", changelog, re.MULTILINE)
    assert released is not None
    assert citation["version"] == PROJECT["version"] == released[1]
    assert citation["date-released"] == released[2]


def test_public_ci_runs_the_supported_python_versions() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    versions = workflow["jobs"]["ci"]["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: "
    classified = [
        name.removeprefix(prefix) for name in PROJECT["classifiers"] if re.fullmatch(rf"{prefix}3\.\d+", name)
    ]
    assert versions == classified
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert any(step.get("run") == ".ci/run" for step in workflow["jobs"]["ci"]["steps"])
