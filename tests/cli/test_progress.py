"""Progress is printed as lines of text on stderr, or as a bar on a terminal; nothing goes to stdout."""

from __future__ import annotations

import io
import re
import sys

import pytest

from sim.cli.progress import BytesBar
from sim.execution.progress_bar import Bar

Capture = pytest.CaptureFixture[str]


def test_progress_is_plain_lines_on_stderr(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.execution.progress_bar.LINE_EVERY_S", 0.0)
    with Bar("[b]x") as bar:
        bar.start(1250, chunks=3)
        bar.end_chunk()
        for _ in range(1250):
            bar.advance(1)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 14
    form = r"\[b\]x: 1/3 chunks, [\d,]+/1,250 queries, [\d,]+ queries/s, ([1-9][\d,]* s left|finishing .*)"
    assert all(re.fullmatch(form, line) for line in lines)
    assert [line.split()[3].split("/")[0] for line in lines[-2:]] == ["1,200", "1,250"]
    assert lines[-1].endswith(" queries/s, finishing the last 2 chunks")


def test_the_last_line_states_that_nothing_is_left(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.execution.progress_bar.LINE_EVERY_S", 0.0)
    with Bar("x") as bar:
        bar.start(100, chunks=1)
        bar.advance(100)
        bar.end_chunk()
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(", ")[2] for line in lines] == ["finishing the last chunk", "0 s left"]


def test_quick_run_prints_no_progress(capsys: Capture) -> None:
    for queries in (0, 300):
        with Bar("x") as bar:
            bar.start(queries)
            for _ in range(queries):
                bar.advance(1)
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal_is_a_bar(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with Bar("[b]x") as bar:
        bar.start(250)
        bar.advance(250)
    out, err = capsys.readouterr()
    assert out == ""
    assert "[b]x" in err
    assert "250/250" in err


def test_more_queries_than_were_announced_raise_the_total(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.execution.progress_bar.LINE_EVERY_S", 0.0)
    with Bar("x") as bar:
        for queries in (200, 100):
            bar.start(queries)
            bar.advance(queries)
    assert [line.split()[3] for line in capsys.readouterr().err.splitlines()] == ["200/200", "300/300"]


def test_progress_of_bytes_on_a_pipe_is_printed_as_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sim.cli.progress.LINE_EVERY_S", 0.0)
    with BytesBar("gowalla") as bar:
        bar(50_000_000, 200_000_000)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gowalla: 50/200 MB, ")
    monkeypatch.setattr("sim.cli.progress.LINE_EVERY_S", 1000.0)
    with BytesBar("gowalla") as bar:
        bar(50, 200)
    assert capsys.readouterr() == ("", "")


def test_progress_of_bytes_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", screen)
    with BytesBar("cabs [red]") as bar:
        bar(50_000_000, 200_000_000)
        bar(200_000_000, 200_000_000)
    assert "200.0/200.0 MB" in screen.getvalue()
    assert "cabs [red]" in screen.getvalue()
