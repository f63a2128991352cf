"""All commands: help, version, unknown and removed commands."""

from __future__ import annotations

import re

import sim
from sim.cli import main
from tests.support import done, refused


def test_unknown_command_suggests_the_nearest() -> None:
    assert "'rnu'. Did you mean 'run'? Commands: run, watch, check, audit, choose, new, list," in refused("rnu")
    assert "Did you mean" not in refused("zebra")
    assert "Missing argument 'SCENARIO'" in refused("run")


def test_help_and_version() -> None:
    assert done("--version") == f"lppm-sim {sim.__version__}\n"
    text = done("--help")
    names = re.findall(r"^  ([a-z-]+)  ", text.split("Commands:")[1], re.MULTILINE)
    assert names == [name for name, command in main.commands.items() if not command.hidden]
    for name in names:
        assert done(name, "-h").startswith(f"Usage: main {name} ")


def test_removed_command_bench_names_its_replacement() -> None:
    assert "bench" not in refused("rnu")
    for arguments in ((), ("--quick", "-o", "x.json"), ("row", "--costs", "--cells", "9")):
        assert "`make bench`" in refused("bench", *arguments)
