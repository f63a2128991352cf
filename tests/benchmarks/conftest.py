"""Fixture that runs the processes of the benchmark without imports."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import memory, sweeps
from sim.inference import kernels
from tests.command_server import COMMAND, CommandServer, command_server


@pytest.fixture(scope="session")
def benchmark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    """Return a server of processes that have imported the benchmark, and use NumPy."""
    modules = ("benchmarks.memory", "benchmarks.sweeps", "tests.benchmarks.served")
    settings = {kernels.VARIABLE: "plain"}
    with command_server(tmp_path_factory.mktemp("commands"), *modules, **settings) as server:
        yield server


@pytest.fixture
def served(benchmark_server: CommandServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of the benchmark from the server."""

    def run(words: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        _, option, target, *arguments = words
        program = COMMAND if option == "-m" else f"{target.split()[1]}:main"
        ended = benchmark_server.run(*arguments, folder=tmp_path, program=program)
        ended.check_returncode()
        return ended

    for module in (memory, sweeps):
        monkeypatch.setattr(module.subprocess, "run", run)
