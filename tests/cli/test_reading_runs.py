"""Commands that read a run: what is no run is refused, a damaged one fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import lppm_sim, refused


@pytest.mark.parametrize("command", ["export", "summarize", "plot"])
def test_what_is_no_run_is_refused(command: str, small: Path) -> None:
    Path("empty").mkdir()
    assert "nowhere does not exist. A run directory is what `lppm-sim run` makes" in refused(command, "nowhere")
    assert "small.yaml is a file, not a run directory" in refused(command, small)
    assert "empty is no run directory: it has no manifest.json and no events" in refused(command, "empty")
    assert sorted(path.name for path in Path().rglob("*")) == ["empty", "small.yaml"]


@pytest.mark.parametrize("command", ["export", "summarize", "plot"])
def test_work_that_fails_ends_with_one(command: str, a_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(a_run.parent)
    part = next((a_run / "events").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    result = lppm_sim(command, a_run)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"{part.name} cannot be read: " in result.stderr
    assert f"`lppm-sim run SCENARIO -o {a_run}` simulates it again, and nothing else." in result.stderr
