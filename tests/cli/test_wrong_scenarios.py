"""Invalid scenarios and settings: every fault is reported with its place, and nothing is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sim.scenario.reading.source import MAX_BYTES
from tests.support import SMALL, refused

FAULTS = """\
sede: 3
replications: "4"
world:
  grid: {kind: rectangel, rows: 4}
  privacy_distance: road
users:
  mobility: {kind: favourites, places: 0, explore: 2}
  queries: 10
  queries: 20
training: {past: own_past}
lppms:
  - SP-Epx
  - {kind: SP-Exp, design: {epsilon_per_km: 1, quality_budget_km: 2}}
  - {kind: SP-Exp, training: pats}
attacks: sporadic
"""


REPLAYED = ("--set", "training={}", "--set", "users={mobility: {kind: replay, file: t.csv}}")


def test_all_faults_are_reported_together_with_their_places(small: Path) -> None:
    Path("wrong.yaml").write_text(FAULTS)
    faults = {}
    for line in refused("run", "wrong.yaml").splitlines():
        match = re.fullmatch(r"wrong\.yaml:(\d+:\d+): ([\w.]+): (.+)", line)
        assert match, line
        faults[match[2]] = (match[1], match[3])
    lines = FAULTS.splitlines()
    where = {
        "sede": (1, "sede"),
        "replications": (2, '"4"'),
        "world.grid.kind": (4, "rectangel"),
        "world.privacy_distance": (5, "road"),
        "users.mobility.places": (7, "0"),
        "users.mobility.explore": (7, "2"),
        "users.queries": (9, "queries"),
        "training.past": (10, "own_past"),
        "lppms.0": (12, "SP-Epx"),
        "lppms.1.design": (13, "design"),
        "lppms.2": (14, "{"),
        "lppms.2.training": (14, "pats"),
        "attacks": (15, "sporadic"),
    }
    assert {path: place for path, (place, _) in faults.items()} == {
        path: f"{line}:{lines[line - 1].index(word) + 1}" for path, (line, word) in where.items()
    }
    hints = {
        "sede": "did you mean 'seed'?",
        "replications": "quotes",
        "world.grid.kind": "did you mean 'rectangle'?",
        "lppms.0": "did you mean 'SP-Exp'?",
        "lppms.2.training": "did you mean 'past'?",
        "attacks": "'sporadic'",
    }
    assert {path for path, hint in hints.items() if hint not in faults[path][1]} == set()


@pytest.mark.parametrize(
    ("content", "place", "code"),
    [
        (b"", "x.yaml:1:1: ", "empty-file"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "x.yaml:3:1: ", "not-utf8"),
        (b"name: caf\xe9\n", "x.yaml:1:10: ", "not-utf8"),
        (SMALL.encode("utf-16"), "x.yaml:1:1: ", "not-utf8"),
        (b"#" * (MAX_BYTES + 1), "x.yaml: ", "too-large"),
        (b"name: a\nname: b\n", "x.yaml:2:1: name: ", "duplicate-key"),
        (b"- a\n- b\n", "x.yaml:1:1: ", "wrong-type"),
        (b"users: [\n", "x.yaml:2:1: ", "invalid-yaml"),
        (b"users: {\tcount: 3\n", "x.yaml:", "invalid-yaml"),
    ],
)
def test_invalid_scenario_files_are_refused(small: Path, content: bytes, place: str, code: str) -> None:
    Path("x.yaml").write_bytes(content)
    for command in (("run", "x.yaml"), ("check", "x.yaml"), ("traces", "x.yaml", "-o", "t.csv")):
        (line,) = [line for line in refused(*command).splitlines() if f"[{code}]" in line]
        assert line.startswith(place)
    assert sorted(path.name for path in Path().iterdir()) == ["small.yaml", "x.yaml"]


def test_a_missing_scenario_suggests_another(small: Path) -> None:
    assert refused("run", "smal.yaml").endswith(" (did you mean 'small.yaml'?) [file-not-found]\n")
    assert refused("run", ".").endswith(" [is-a-folder]\n")


def test_missing_trace_file_is_reported_with_its_place(small: Path) -> None:
    text = SMALL.replace("kind: favourites, places: 4", "kind: replay, file: gone.csv")
    Path("x.yaml").write_text(text.replace("{others: {kind: others, count: 8, queries: 30}}", "{none: nothing}"))
    message = refused("run", "x.yaml")
    assert message.startswith("x.yaml:6:63: users.mobility.file: ")
    assert "'gone.csv'" in message


@pytest.mark.parametrize("table", ["", "a,b\n1,2\n", "user,time,cell\nann,0,99\n", "user,time,cell\nann,x,3\n", "\x00"])
def test_invalid_trace_file_is_rejected(small: Path, table: str) -> None:
    Path("t.csv").write_text(table)
    message = refused("run", small, "-o", "run", *REPLAYED)
    assert re.match(r"users(\.mobility)?: .*t\.csv", message)
    assert not Path("run/manifest.json").exists()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--set", "seed"], ["--set: ", "'seed'", "path=value"]),
        (["--set", "sed=3"], ["--set sed: ", "did you mean 'seed'?"]),
        (["--set", "users.count=[1"], ["--set users.count: ", "'[1'"]),
        (["--set", "users.count=many"], ["--set users.count: users.count: ", "'many'"]),
        (["--seed", "-1"], ["--set seed: seed: ", "at least 0", "found -1"]),
        (["--seed", "many"], ["--seed", "'many'"]),
        (["--colour", "red"], ["--colour"]),
    ],
)
def test_invalid_settings_are_rejected(small: Path, arguments: list[str], parts: list[str]) -> None:
    message = refused("check", small, *arguments)
    assert all(part in message for part in parts)
