"""Run the code blocks of a page one after another in the current folder, as a reader would.

Python blocks share their variables. A block with a caption is written to the file of that name. Commands `lppm-sim` and
`python FILE` of shell blocks run in this process. YAML blocks are validated.

`python -m tests.docs.page_session` serves requests, a page and a folder per line: each page runs in a process forked
from one that has imported the package.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import re
import runpy
import shlex
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import yaml

from tests.docs.blocks import Block, blocks

BASE = """
world: {grid: {kind: rectangle, rows: 6, cols: 5, width_km: 5, height_km: 6}, roads: lattice}
users: {count: 2, queries: 700, mobility: {kind: favourites, places: 4, visits_per_day: 20}}
training: {others: {kind: others, count: 3, queries: 8}}
lppms: [SP-Exp, PEB-Exp, PEB-LH]
attacks: [sporadic, markov]
"""
"""The scenario that a fragment of YAML is completed with."""

SHELL = ("bash", "console")
SHOWN = ("text", "csv", "json", "toml", "output", "bibtex", "html", "mermaid")
"""Languages that are shown and not executed."""


class PageError(Exception):
    """A block that does not work."""


class Session:
    """The state of a reader who follows a page."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self) -> None:
        """Run all blocks; raises PageError with the place of the one that fails."""
        for block in blocks(self.page):
            try:
                self._run(block)
            except (Exception, SystemExit) as error:
                place = f"{self.page.name}:{block.line}"
                raise PageError(f"{place}: {type(error).__name__}: {error}\n{block.text}") from error

    def _run(self, block: Block) -> None:
        if block.caption:
            Path(block.caption).parent.mkdir(parents=True, exist_ok=True)
            Path(block.caption).write_text(block.text, encoding="utf-8")
        if "not run" in block.markers or block.language in SHOWN or not _installed(block.markers.get("needs", "")):
            return
        if block.language == "python":
            if not block.caption:
                exec(compile(block.text, f"{self.page.name}:{block.line}", "exec"), self.names)
        elif block.language == "yaml":
            _validate(block)
        elif block.language in SHELL:
            self._run_commands(block)
        else:
            raise PageError(f"unknown language {block.language!r}: mark the block or use one of python, yaml, bash")

    def _run_commands(self, block: Block) -> None:
        lines = [line.removeprefix("$ ") for line in re.sub(r"\\\n\s*", "", block.text).split("\n")]
        commands = [words for line in lines if (words := shlex.split(line, comments=True))]
        codes = [0] * (len(commands) - 1) + [int(block.markers.get("exit code", "0"))]
        for words, expected in zip(commands, codes, strict=True):
            code = _command(words, shlex.split(block.markers.get("run with", "")))
            if code != expected:
                raise PageError(f"{shlex.join(words)}: exit code {code}, expected {expected}")


def _installed(modules: str) -> bool:
    """Return whether all modules, separated by commas, are installed."""
    return all(importlib.util.find_spec(name.strip()) for name in modules.split(",") if name.strip())


def _command(words: list[str], extra: list[str]) -> int:
    """Run a command and return its exit code."""
    if ">" in words:
        words, target = words[: words.index(">")], words[-1]
        with Path(target).open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            return _command(words, extra)
    if "<" in words:
        words, source = words[: words.index("<")], words[-1]
        with Path(source).open(encoding="utf-8") as file, _standard_input(file):
            return _command(words, extra)
    program, *arguments = words
    try:
        if program == "lppm-sim":
            from sim.cli import main

            main([*arguments, *_run_arguments(arguments, extra)], prog_name="lppm-sim")
        elif program == "python":
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            raise PageError(f"{program} is not run here: mark the block with `% not run: REASON`")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


@contextlib.contextmanager
def _standard_input(file: TextIO) -> Iterator[None]:
    """Read the standard input from a file."""
    before, sys.stdin = sys.stdin, file
    try:
        yield
    finally:
        sys.stdin = before


def _run_arguments(arguments: list[str], extra: list[str]) -> list[str]:
    """Return further arguments of a run: those of the marker, one worker, which starts no processes, and no figures."""
    if arguments[0] != "run":
        return []
    return [*extra, "--no-figures", *([] if "--workers" in arguments else ["--workers", "1"])]


def _validate(block: Block) -> None:
    """Validate a scenario, or a part of one."""
    import sim

    text = block.text
    content = yaml.safe_load(text)
    if not (isinstance(content, dict) and {"users", "lppms"} <= content.keys()):
        scenario = yaml.safe_load(BASE)
        if path := block.markers.get("within"):
            *parents, last = path.split(".")
            place = scenario
            for name in parents:
                place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
            place[last] = content
        else:
            scenario |= content
        text = yaml.safe_dump(scenario, sort_keys=False)
    file = Path("block.yaml")
    file.write_text(text, encoding="utf-8")
    sim.load(file)
    file.unlink()


def _serve() -> None:
    """Answer each request, a line of JSON with a page and a folder, with a line of JSON: the problem, or null."""
    for module in (
        "sim.cli.output.result",
        "sim.execution.run",
        "sim.plots.of_run",
        "sim.plots.for_print",
        "duckdb",
        "polars",
    ):
        importlib.import_module(module)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(_in_child(**request))
        os.waitpid(child, 0)
        problem = Path(request["output"]).read_text(encoding="utf-8")
        print(json.dumps(problem or None), flush=True)


def _in_child(page: str, folder: str, output: str) -> int:
    """Run a page in this process; write the problem, if any, and the end of the screen to a file."""
    os.chdir(folder)
    sys.path.insert(0, folder)
    screen = Path(f"{output}.screen")
    handle = os.open(screen, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout, sys.stderr = open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
    problem = ""
    try:
        Session(Path(page)).run()
    except PageError as error:
        problem = str(error)
    except BaseException:
        problem = traceback.format_exc()
    if problem:
        problem += "\n" + screen.read_text(encoding="utf-8", errors="replace")[-3000:]
    Path(output).write_text(problem, encoding="utf-8")
    return 0


if __name__ == "__main__":
    _serve()
