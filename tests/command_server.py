"""Run commands in real processes without paying for the imports each time.

A server process imports the package once and forks for each command: a fresh process with its own folder, environment,
streams and exit code. Libraries that read files of the current folder when they are imported (numba, matplotlib) are
not imported by the server, but by the command.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sim

_SERVER = """
import json, os, sys

sys.path.pop(0)  # as the installed command starts: without the current folder on its path
import sim.cli.output.components, sim.cli.output.cost, sim.cli.output.result, sim.cli.progress
import sim.execution.progress_bar, sim.execution.run, sim.scenario.load
from sim.cli import main

assert not {"numba", "matplotlib"} & sys.modules.keys()
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        for number, path in enumerate(request["streams"]):
            os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT), number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
        try:
            main(request["words"])
        except SystemExit as ended:
            code = ended.code
        sys.stdout.flush()
        os._exit(code)  # without the interpreter's shutdown, which takes longer than the command
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class CommandServer:
    """Runs commands one after the other, each in a process forked from one that has imported the package."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder

    def run(self, *words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder, without input."""
        streams = [self._folder / "out", self._folder / "err"]
        for stream in streams:
            stream.write_text("")
        self._send(words, folder, environment, [os.devnull, *map(str, streams)])
        code = int(self._answer())
        return subprocess.CompletedProcess(words, code, *(stream.read_text() for stream in streams))

    def run_on_terminal(self, *words: str, folder: Path, typed: str) -> tuple[int, str]:
        """Run a command on a pseudo-terminal with something typed in, and return its exit code and the screen."""
        master, slave = os.openpty()
        try:
            os.write(master, typed.encode())
            self._send(words, folder, {}, [os.ttyname(slave)] * 3)
            assert self._process.stdout is not None
            answer, screen, ended = self._process.stdout.fileno(), b"", False
            while not ended:
                ended = answer in select.select([master, answer], [], [])[0]
                while select.select([master], [], [], 0)[0]:
                    screen += os.read(master, 65536)
            return int(self._answer()), screen.decode()
        finally:
            os.close(master)
            os.close(slave)

    def _send(self, words: tuple[str, ...], folder: Path, environment: dict[str, str], streams: list[str]) -> None:
        assert self._process.stdin is not None
        request = {"words": words, "folder": str(folder), "environment": environment, "streams": streams}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def command_server(folder: Path, **environment: str) -> Iterator[CommandServer]:
    """Start a server that uses a folder for its streams; its commands inherit the environment."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        cwd=folder,
        env=inherited | {"PYTHONPATH": str(Path(sim.__file__).parents[1])} | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield CommandServer(process, folder)
        finally:
            process.kill()
