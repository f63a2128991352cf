"""The estimated cost printed by `check`."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from typing import Any

import pytest

from sim.cli.output.cost import print_cost
from sim.execution.cost.estimate import Cost
from sim.execution.cost.overhead import Times
from sim.world.grids.san_francisco import SanFranciscoParameters
from tests.support import MakeScenario

Capture = pytest.CaptureFixture[str]


def test_the_cost(make_scenario: MakeScenario, capsys: Capture) -> None:
    scenario = make_scenario(replications=4)
    counts: dict[str, Any] = {"points": 3, "users": 7, "simulations": 24, "queries": 12345, "rows": 2_000_000}
    times = Times(start_s=2.0, simulation_s=590.0, end_s=8.0, chunks=100)
    cost = Cost(**counts, seconds=600.0, times=times, log_bytes=46_000_000, peak_bytes=345_000_000)
    print_cost(
        scenario,
        replace(cost, locations=(scenario.build_locations().summary(), SanFranciscoParameters().build().summary())),
        workers=2,
    )
    lines = [line.split(None, 1) for line in capsys.readouterr().out.splitlines()]
    assert ["cells", "250 (25 rows x 10 columns) of 1,200 m (east-west) x 1,116 m (north-south)"] in lines
    assert {line[0]: line[1] for line in lines if line[0] not in ("event", "cells")} == {
        "scenario": f"small is valid (digest {scenario.digest[:8]}, seed 3)",
        "points": "3 x 4 replications",
        "users": "7",
        "queries": "12,345 in 24 simulations",
        "memory": "about 345 MB per worker process",
        "CPU": "time  about 10 min on one core, with start-up, tables and figures (measured on a few users)",
        "duration": "about 5 min with 2 worker processes, each on a free core",
    }
    assert ["event", "log  2,000,000 rows, about 46.0 MB"] in lines


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "not measured"), (0.2, "0 s"), (89, "89 s"), (100, "2 min"), (7200, "2.0 h")]
)
def test_durations(seconds: float | None, text: str, make_scenario: MakeScenario, capsys: Capture) -> None:
    print_cost(make_scenario(), Cost(points=1, users=1, simulations=1, queries=1, rows=1, seconds=seconds))
    assert text in capsys.readouterr().out


def test_cost_reports_rows_outside_the_region(make_scenario: MakeScenario, capsys: Capture) -> None:
    read = {"users": {"rows": 12_000, "rows_outside": 1_500}, "training.rich": {"rows": 5, "rows_outside": 0}}
    cost = Cost(points=1, users=2, simulations=1, queries=3, rows=3, seconds=None, readings=read)
    print_cost(make_scenario(), cost)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split()[:6] == ["note", "users:", "1,500", "of", "12,000", "rows"]
    assert sum("note" in line for line in lines) == 1


def test_cost_with_a_stopping_rule_has_two_bounds(make_scenario: MakeScenario, capsys: Capture) -> None:
    scenario = make_scenario(replications={"until_half_width_km": 0.02, "at_most": 40})
    least = Cost(points=3, users=7, simulations=30, queries=1000, rows=2000, seconds=2.0, log_bytes=46_000)
    most = Cost(
        points=3,
        users=7,
        simulations=240,
        queries=8000,
        rows=16000,
        seconds=16.0,
        log_bytes=368_000,
        least=least,
        exact=("SP",),
    )
    print_cost(scenario, most)
    out = capsys.readouterr().out
    assert "3 x 5 to 40 replications" in out
    assert "± 0.02 km\n" in out
    assert "exact  SP: " in out
    assert "queries  1,000 to 8,000 in 30 to 240 simulations\n" in out
    assert "2,000 to 16,000 rows, about 0.0 MB to 0.4 MB\n" in out
    assert (
        "CPU time  about 2 s to 16 s on one core, with start-up, tables and figures (measured on a few users)\n" in out
    )


def test_partial_cost_reports_missing_parts(make_scenario: MakeScenario, capsys: Capture) -> None:
    counts: dict[str, Any] = {"points": 1, "users": 7, "simulations": 2, "queries": 1000, "rows": 2000}
    missing = ("SP-Opt (not within 2.5 s)",)
    cost = Cost(**counts, seconds=16.0, peak_bytes=1_234_567_890, approximate=True, unmeasured=missing, incomplete=True)
    print_cost(make_scenario(), cost)
    out = capsys.readouterr().out
    assert "queries  about 1,000 in 2 simulations\n" in out
    assert "event log  about 2,000 rows, about 0.0 MB\n" in out
    assert "memory  about 1.2 GB " in out
    assert "CPU time  at least 16 s on one core, " in out
    assert "note  not measured: SP-Opt (not within 2.5 s)\n" in out
    assert "--limit" not in out
    print_cost(make_scenario(), dataclasses.replace(cost, timed_out=True))
    assert "--limit SECONDS" in capsys.readouterr().out
    nothing = counts | {"users": 0, "queries": 0, "rows": 0}
    print_cost(make_scenario(), Cost(**nothing, seconds=None, unmeasured=("world",)))
    out = capsys.readouterr().out
    assert "users  not counted\n" in out
    assert "queries  not counted in 2 simulations\n" in out
    assert "time  not measured\n" in out


def test_cost_warns_if_memory_is_insufficient(
    make_scenario: MakeScenario, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = Cost(points=1, users=2, simulations=1, queries=1, rows=1, seconds=1.0, peak_bytes=3 * 10**9)
    monkeypatch.setattr("sim.cli.output.cost.installed_bytes", lambda: 2 * 10**9)
    print_cost(make_scenario(), cost)
    assert "about 3.0 GB " in (shown := capsys.readouterr().out)
    assert re.search(r"note  .*\(2\.0 GB\): reduce users, queries or cells", shown)
    print_cost(make_scenario(), replace(cost, least_bytes=2_500_000_000))
    assert "fewer users or queries do not help" in capsys.readouterr().out
    monkeypatch.setattr("sim.cli.output.cost.installed_bytes", lambda: 4 * 10**9)
    print_cost(make_scenario(), cost)
    assert "note" not in capsys.readouterr().out
