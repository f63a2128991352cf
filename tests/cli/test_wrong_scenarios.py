"""Wrong scenarios and settings: every fault is reported with its place, and nothing is written."""

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


def test_all_faults_come_at_once_each_with_its_place(small: Path) -> None:
    Path("wrong.yaml").write_text(FAULTS)
    found = {}
    for line in refused("run", "wrong.yaml").splitlines():
        match = re.fullmatch(r"wrong\.yaml:(\d+:\d+): ([\w.]+): (.+)", line)
        assert match, line
        found[match[2]] = (match[1], match[3])
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
    assert {path: place for path, (place, _) in found.items()} == {
        path: f"{line}:{lines[line - 1].index(word) + 1}" for path, (line, word) in where.items()
    }
    hints = {
        "sede": "did you mean 'seed'?",
        "replications": "remove the quotes",
        "world.grid.kind": "did you mean 'rectangle'?",
        "lppms.0": "did you mean 'SP-Exp'?",
        "lppms.2.training": "did you mean 'past'?",
        "attacks": "must be a list, found text 'sporadic'",
    }
    assert {path for path, words in hints.items() if words not in found[path][1]} == set()


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


def test_a_missing_trace_file_is_told_with_its_place(small: Path) -> None:
    text = SMALL.replace("kind: favourites, places: 4", "kind: replay, file: gone.csv")
    Path("x.yaml").write_text(text.replace("{others: {kind: others, count: 8, queries: 30}}", "{none: nothing}"))
    message = refused("run", "x.yaml")
    assert message.startswith("x.yaml:6:63: users.mobility.file: ")
    assert "'gone.csv'" in message


@pytest.mark.parametrize("table", ["", "a,b\n1,2\n", "user,time,cell\nann,0,99\n", "user,time,cell\nann,x,3\n", "\x00"])
def test_a_trace_file_that_makes_no_sense_is_refused(small: Path, table: str) -> None:
    Path("t.csv").write_text(table)
    said = refused("run", small, "-o", "run", *REPLAYED)
    assert re.match(r"users(\.mobility)?: .*t\.csv", said)
    assert not Path("run/manifest.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "seed"], "--set: found 'seed', expected path=value"),
        (["--set", "sed=3"], "the scenario has no 'sed' (did you mean 'seed'?)"),
        (["--set", "users.count=[1"], "--set users.count: the value '[1' cannot be read"),
        (["--set", "users.count=many"], "--set users.count: users.count: must be a whole number, found text 'many'"),
        (["--seed", "-1"], "--set seed: seed: must be at least 0, found -1"),
        (["--seed", "many"], "'many' is not a valid integer"),
        (["--colour", "red"], "No such option"),
    ],
)
def test_wrong_settings_are_refused(small: Path, words: list[str], said: str) -> None:
    assert said in refused("check", small, *words)
