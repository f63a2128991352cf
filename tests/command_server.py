"""Run programs in real processes without importing the package each time.

A server process imports the package once and forks a process for each program, with its own folder, environment,
streams, session and exit code. The server does not import libraries that read files of the current folder when they are
imported (numba, matplotlib): the program does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import sim
from tests.support import until

COMMAND = "sim.cli:main"
DASK = "dask.__main__:main"

_SERVER = """
import importlib, json, os, signal, sys

sys.path.pop(0)  # as the installed command starts: without the current folder on its path
import sim.cli.output.components, sim.cli.output.cost, sim.cli.output.result, sim.cli.progress
import sim.execution.progress_bar, sim.execution.run, sim.scenario.load
from sim.cli import main

for name in sys.argv[1:]:
    importlib.import_module(name)
assert not {"numba", "matplotlib"} & sys.modules.keys()


def run(request):
    if request["session"]:
        os.setsid()
        os.environ.clear()
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [folder for folder in folders if folder and folder not in sys.path]
    for number, path in enumerate(request["streams"]):
        os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes ignore it
    sys.argv = request["words"]
    module, _, function = request["program"].partition(":")
    program = getattr(importlib.import_module(module), function)
    if request["session"]:
        program()  # exits as Python does
        sys.exit()
    code = 0
    try:
        program()
    except SystemExit as ended:
        code = ended.code
    sys.stdout.flush()
    os._exit(code)  # without the interpreter's shutdown, which takes longer than the command


for line in sys.stdin:
    request = json.loads(line)
    if "wait" in request:
        pid, status = os.waitpid(request["wait"], request["options"])
        answer = os.waitstatus_to_exitcode(status) if pid else None
    else:
        answer = os.fork()
        if answer == 0:
            run(request)
    print(json.dumps(answer), flush=True)
"""


class ServedProcess:
    """A process in its own session, forked by a server."""

    def __init__(self, server: CommandServer, pid: int, errors: Path) -> None:
        self.pid = pid
        self._server, self._errors = server, errors
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        if self.returncode is None:
            self.returncode = self._server.wait(self.pid, os.WNOHANG)
        return self.returncode

    def wait(self) -> str:
        """Wait until the process has ended, and return its stderr."""
        until(lambda: self.poll() is not None)
        return self._errors.read_text()

    def kill_group(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to all processes of the session, as a terminal does."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def end(self) -> None:
        """Kill all processes of the session."""
        self.kill_group()
        self.wait()


class CommandServer:
    """Runs programs, each in a process forked from one that has imported the package."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder
        self._started = 0

    def run(
        self, *words: str, folder: Path, program: str = COMMAND, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in a folder, without input, with changes to the environment of the server."""
        streams = [self._folder / "out", self._folder / "err"]
        for stream in streams:
            stream.write_text("")
        pid = self._start(words, folder, environment, [os.devnull, *map(str, streams)], program)
        code = self.wait(pid)
        assert code is not None
        return subprocess.CompletedProcess(words, code, *(stream.read_text() for stream in streams))

    def run_on_terminal(self, *words: str, folder: Path, typed: str) -> tuple[int, str]:
        """Run a command on a pseudo-terminal with keyboard input, and return its exit code and the screen."""
        master, slave = os.openpty()
        try:
            os.write(master, typed.encode())
            pid = self._start(words, folder, {}, [os.ttyname(slave)] * 3)
            screen, code = b"", None
            while code is None:
                code = self.wait(pid, os.WNOHANG)
                while select.select([master], [], [], 0 if code is not None else 0.01)[0]:
                    screen += os.read(master, 65536)
            return code, screen.decode()
        finally:
            os.close(master)
            os.close(slave)

    @contextmanager
    def running(
        self, *words: str, folder: Path, program: str = COMMAND, environment: Mapping[str, str] | None = None
    ) -> Iterator[ServedProcess]:
        """Start a program with the current environment and changes to it; kill its session at the end of the block."""
        self._started += 1
        errors = self._folder / f"err-{self._started}"
        streams = [os.devnull, os.devnull, str(errors)]
        pid = self._start(words, folder, {**os.environ, **(environment or {})}, streams, program, session=True)
        process = ServedProcess(self, pid, errors)
        try:
            yield process
        finally:
            process.end()

    def wait(self, pid: int, options: int = 0) -> int | None:
        """Wait for a process and return its exit code; with WNOHANG None while it runs."""
        return self._ask({"wait": pid, "options": options})

    def _start(
        self,
        words: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        streams: list[str],
        program: str = COMMAND,
        *,
        session: bool = False,
    ) -> int:
        request = {
            "program": program,
            "words": [program.partition(":")[0], *words],
            "folder": str(folder),
            "environment": environment,
            "streams": streams,
            "session": session,
        }
        pid = self._ask(request)
        assert pid is not None
        return pid

    def _ask(self, request: Mapping[str, object]) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def command_server(folder: Path, *preload: str, **environment: str) -> Iterator[CommandServer]:
    """Start a server that uses a folder for its streams; its commands inherit the environment."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, *preload],
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
