"""Commands that read a run reject other folders, and fail on damaged runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import lppm_sim, refused


@pytest.mark.parametrize("command", ["export", "summarize", "plot"])
def test_other_folders_are_rejected(command: str, small: Path) -> None:
    Path("empty").mkdir()
    assert refused(command, "nowhere").endswith("[run-not-found]\n")
    assert refused(command, small).endswith("[not-a-run]\n")
    assert "no manifest.json and no events" in refused(command, "empty")
    assert sorted(path.name for path in Path().rglob("*")) == ["empty", "small.yaml"]


@pytest.mark.parametrize("command", ["export", "summarize", "plot"])
def test_damaged_run_exits_with_one(command: str, a_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(a_run.parent)
    part = next((a_run / "events").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    result = lppm_sim(command, a_run)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert part.name in result.stderr
    assert f"`lppm-sim run SCENARIO -o {a_run}` " in result.stderr
    assert result.stderr.endswith("[damaged-part]\n")
