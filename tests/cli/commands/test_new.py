"""The command `new`: a scenario that can be run, never over a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import done, refused


def test_a_new_scenario_can_be_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert done("new") == "wrote scenario.yaml; now: lppm-sim run scenario.yaml\n"
    quick = ["users.count=2", "users.queries=5", "replications=1", "training.others.count=3"]
    out = done("run", "scenario.yaml", "--no-figures", *(word for setting in quick for word in ("--set", setting)))
    assert "PEB-Exp" in out
    done("new", "other.yaml")
    assert Path("other.yaml").read_bytes() == Path("scenario.yaml").read_bytes()


def test_new_never_overwrites(small: Path) -> None:
    before = small.read_bytes()
    assert "small.yaml is there already" in refused("new", small)
    assert small.read_bytes() == before
    assert "the folder no/where does not exist" in refused("new", "no/where/x.yaml")
    assert "nothing was written: " in refused("new", f"{'x' * 300}.yaml")
