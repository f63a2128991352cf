"""The command line as a process: exit codes, Ctrl-C, SIGTERM."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sim
from tests.support import INTERRUPTIBLE, ending, until


def process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sim.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_exit_codes_of_the_process(small: Path, a_run: Path) -> None:
    wrong = process("run", "gone.yaml")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("gone.yaml: ")
    assert wrong.stderr.endswith("[file-not-found]\n")
    next((a_run / "events").iterdir()).write_bytes(b"torn")
    failed = process("summarize", str(a_run))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Traceback" not in wrong.stderr + failed.stderr
    right = process("new", "right.yaml")
    assert (right.returncode, right.stdout, right.stderr) == (
        0,
        "wrote right.yaml; next: lppm-sim run right.yaml\n",
        "",
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_run_and_keeps_finished_chunks(number: signal.Signals, code: int, small: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE, "run", "small.yaml", "-o", "stopped", "--set", "replications=200"]
    with ending(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as running:
        until(lambda: list(Path("stopped").glob("events/*.parquet")))
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (code, "")
    assert re.search(r"\ninterrupted; \d+ of \d+ chunks .* stopped; ", err)
    assert err.endswith("resume with: lppm-sim run small.yaml -o stopped --set replications=200\n")
    assert "Traceback" not in err
    assert len(sim.Result.open("stopped").events()) >= 2 * 3 * 12 * 2
