"""The command `check`: counts and run time, without writing files."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import sim
from sim.execution.cost.estimate import Cost
from tests.support import QUERIES, ROOT, done

SHIPPED = [*sorted((ROOT / "scenarios").rglob("*.yaml")), ROOT / "sim" / "scenario" / "template.yaml"]


def test_check_counts_and_times_without_writing(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sim.execution.cost.estimate._bytes_here", lambda: 300_000_000
    )  # the memory of the test process grows
    study = sim.load(small)
    timed, untimed = done("check", small, "--limit", "600"), done("check", small, "--no-time")
    assert f"small is valid (digest {study.digest[:8]}, seed 3)" in timed
    assert f"{QUERIES} in 5 simulations" in timed
    assert f"{2 * QUERIES} rows" in timed
    assert re.search(r"CPU time  about \d+ \w+ on one core, .*\n  duration  about \d+ \w+ with \d+ worker", timed)
    assert untimed.strip().endswith("CPU time  not measured")
    assert timed.splitlines()[:-2] == untimed.splitlines()[:-1]
    assert "with 1 worker process on a free core" in done("check", small, "--limit", "600", "--workers", "1")
    assert [path.name for path in Path().iterdir()] == ["small.yaml"]


def test_compiling_does_not_shorten_the_measurement(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: passed_s, process_time=lambda: passed_s)
    monkeypatch.setattr(sys.modules["sim.cli.commands.check"], "time", clock)

    def compile_kernels() -> bool:
        nonlocal passed_s
        passed_s += 20.0
        return True

    limits: list[tuple[float, float]] = []

    def estimate(*_: object, limit_s: float, started_s: float, **__: object) -> Cost:
        limits.append((limit_s, started_s))
        return Cost(points=1, users=1, simulations=1, queries=1, rows=1, seconds=None)

    monkeypatch.setattr("sim.cli.kernels.load_kernels", compile_kernels)
    monkeypatch.setattr("sim.execution.cost.search.estimate_with_search", estimate)
    done("check", small)
    done("check", small, "--limit", "3")
    assert limits == [(10.0, 0.0), (3.0, 20.0)], "CPU time of the start, without that of compiling"


def test_every_shipped_scenario_can_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for path in SHIPPED:
        if "data:" not in path.read_text():
            done("check", path, "--no-time", "--set", "users.count=2")
