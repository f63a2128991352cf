"""What the command line says to wrong scenarios and wrong words, and the commands that help to write right ones."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

import sim
from sim.cli import main
from sim.components.custom import listing
from sim.components.kinds import Custom
from sim.scenario import models
from sim.scenario.reading.source import MAX_BYTES, read
from sim.scenario.reading.validation import Spec
from tests.support import QUERIES, ROOT, SMALL, done, lppm_sim, refused

SHIPPED = [*sorted((ROOT / "scenarios").rglob("*.yaml")), ROOT / "sim" / "scenario" / "template.yaml"]
# Wrong scenarios -------------------------------------------------------------------------------------------------

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
    ("content", "words"),
    [
        (b"", "x.yaml:1:1: the file is empty"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not a text file: found a NUL byte"),
        (b"name: caf\xe9\n", "x.yaml:1:10: not UTF-8 text: found byte 0xe9"),
        (SMALL.encode("utf-16"), "x.yaml:1:1: the file is UTF-16 or UTF-32 text: save it as UTF-8"),
        (b"#" * (MAX_BYTES + 1), "too large for a scenario"),
        (b"name: a\nname: b\n", "x.yaml:2:1: name: this key is given twice: first in line 1, column 1"),
        (b"- a\n- b\n", "x.yaml:1:1: a scenario is a mapping"),
        (b"users: [\n", "not valid YAML"),
        (b"users: {\tcount: 3\n", "x.yaml:"),
    ],
)
def test_what_is_no_scenario_is_refused(small: Path, content: bytes, words: str) -> None:
    Path("x.yaml").write_bytes(content)
    for command in (("run", "x.yaml"), ("check", "x.yaml"), ("traces", "x.yaml", "-o", "t.csv")):
        assert words in refused(*command)
    assert sorted(path.name for path in Path().iterdir()) == ["small.yaml", "x.yaml"]


def test_a_missing_scenario_suggests_another(small: Path) -> None:
    assert refused("run", "smal.yaml") == "smal.yaml: there is no such file (did you mean 'small.yaml'?)\n"
    assert refused("run", ".") == ".: this is a folder, but a scenario is a YAML file\n"


def test_a_missing_trace_file_is_told_with_its_place(small: Path) -> None:
    text = SMALL.replace("kind: favourites, places: 4", "kind: replay, file: gone.csv")
    Path("x.yaml").write_text(text.replace("{others: {kind: others, count: 8, queries: 30}}", "{none: nothing}"))
    assert refused("run", "x.yaml") == (
        "x.yaml:6:63: users.mobility.file: file 'gone.csv' does not exist (looked for gone.csv)\n"
    )


REPLAYED = ("--set", "training={}", "--set", "users={mobility: {kind: replay, file: t.csv}}")


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


# Commands that help ----------------------------------------------------------------------------------------------


def test_check_counts_and_times_without_writing(small: Path) -> None:
    study = sim.load(small)
    timed, untimed = done("check", small, "--limit", "600"), done("check", small, "--no-time")
    assert f"small is valid (digest {study.digest[:8]}, seed 3)" in timed
    assert f"{QUERIES} in 5 simulations" in timed
    assert f"{2 * QUERIES} rows" in timed
    assert re.search(r"time  about \d+ s \(measured on a few users\)$", timed.strip())
    assert untimed.strip().endswith("time  not measured")
    assert timed.splitlines()[:-1] == untimed.splitlines()[:-1]
    assert [path.name for path in Path().iterdir()] == ["small.yaml"]


def test_every_shipped_scenario_can_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for path in SHIPPED:
        if "data:" not in path.read_text():
            done("check", path, "--no-time", "--set", "users.count=2")


def test_a_new_scenario_can_be_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert done("new") == "wrote scenario.yaml; now: lppm-sim run scenario.yaml\n"
    quick = ["users.count=2", "users.queries=5", "replications=1", "training.others.count=3"]
    out = done("run", "scenario.yaml", "--no-figures", *(word for setting in quick for word in ("--set", setting)))
    assert "PEB-Exp" in out
    done("new", "other.yaml")
    assert Path("other.yaml").read_bytes() == Path("scenario.yaml").read_bytes()


def test_new_never_overwrites(small: Path) -> None:
    before = small.read_bytes()
    assert "small.yaml is there already" in refused("new", small)
    assert small.read_bytes() == before
    assert "the folder no/where does not exist" in refused("new", "no/where/x.yaml")
    assert "nothing was written: " in refused("new", f"{'x' * 300}.yaml")


def known_kinds(model: type[Spec] = Spec) -> set[str]:
    """Return every kind that a model of a scenario allows."""
    found = set()
    for child in model.__subclasses__():
        if child.__module__.startswith("sim.") and "kind" in child.model_fields:
            kind = child.model_fields["kind"].annotation
            found |= {"module:Class"} if issubclass(child, Custom) else {*texts(kind)}
        found |= known_kinds(child)
    return found


def texts(annotation: Any) -> list[str]:
    return [annotation] if isinstance(annotation, str) else [t for arg in get_args(annotation) for t in texts(arg)]


def test_list_shows_every_kind_with_a_line() -> None:
    lines = {line.split()[0]: line.split()[1:] for line in done("list").splitlines() if line.startswith(" ")}
    assert lines.keys() == known_kinds()
    assert {"taxis", "estimated_profile", "PEB-Exp", "sporadic-trained", "graphml", "own_past"} < lines.keys()
    assert all(len(words) > 3 for words in lines.values())


def test_list_of_one_family() -> None:
    for family, (place, kinds) in listing().items():
        heading, *lines = done("list", family).splitlines()
        assert heading == f"{family}  ({place})"
        assert [line.split()[0] for line in lines] == list(kinds)
    said = refused("list", "desing")
    assert "no family 'desing'. Did you mean 'design'? Families: grid, roads, distance, mobility" in said
    assert "Did you mean" not in refused("list", "horse")


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    content = json.loads(done("schema"))
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_scenarios_fit_the_schema(path: Path, schema: jsonschema.Draft202012Validator) -> None:
    assert [error.message for error in schema.iter_errors(read(path).data)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"lppms": []},
        {"lppms": ["SP-Epx"]},
        {"replications": 0},
        {"replications": "3"},
        {"sede": 1},
        {"users": {"mobility": "favorites", "queries": 3}},
        {"users": {"mobility": {"kind": "favourites", "place": 3}, "queries": 3}},
        {"world": {"grid": {"kind": "rectangle", "rows": 4}}},
        {"lppms": [{"name": "x", "belief": "fixed_profile"}]},
        {"attacks": [{"kind": "sporadic", "knows": "everything"}]},
    ],
)
def test_wrong_scenarios_do_not_fit_the_schema(
    change: dict[str, Any], schema: jsonschema.Draft202012Validator, small: Path
) -> None:
    data = read(small).data
    assert list(schema.iter_errors(data)) == []
    assert list(schema.iter_errors(data | change)) != []
    with pytest.raises(ValueError, match="validation error"):
        models.Scenario.model_validate(data | change)


DESIGN = """
import numpy as np
from sim.lppm.channel import MatrixChannel


class Star:
    def __init__(self, *, world, lie=0.5, whole=True):
        if not 0 <= lie <= 1:
            raise ValueError(f"lie must be in [0, 1], got {lie}")
        self.n, self.lie, self.whole = world.grid.n_cells, lie, whole

    def __call__(self, prior):
        if not self.whole:
            prior[:] = prior / 2
        return MatrixChannel((1 - self.lie) * np.eye(self.n) + self.lie / self.n)
"""


@pytest.fixture
def own_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "own_design_for_the_command_line"
    (tmp_path / f"{name}.py").write_text(DESIGN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return f"{name}:Star"


def test_check_component(own_design: str) -> None:
    *lines, last = done("check-component", own_design, "--set", "lie=0.25").splitlines()
    assert [line.split(None, 1)[0] for line in lines] == ["ok"] * 7
    assert last == f"{own_design}: 7 of 7 checks passed"
    assert done("check-component", own_design, "--as", "design").splitlines()[-1] == last


def test_a_component_that_fails_ends_with_one(own_design: str) -> None:
    result = lppm_sim("check-component", own_design, "--set", "whole=false")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[-3:] == [
        "fail The same prior gives the same channel, and is not changed",
        "     the prior was changed",
        f"{own_design}: 6 of 7 checks passed",
    ]
    result = lppm_sim("check-component", own_design, "--set", "lie=7")
    assert result.exit_code == 1
    assert "lie must be in [0, 1], got 7" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no_such_module:X"], "module 'no_such_module' cannot be imported"),
        (["{own}x"], "(did you mean 'Star'?)"),
        (["plain"], "is named module:Class, found 'plain'"),
        (["{own}", "--as", "desing"], "'desing' is not one of 'mobility'"),
        (["{own}", "--set", "lie"], "--set: found 'lie', expected name=value"),
        (["{own}", "--set", "=1"], "--set: found '=1', expected name=value"),
        (["{own}", "--set", "lie=[1"], "the value '[1' cannot be read"),
    ],
)
def test_a_component_that_is_asked_for_wrongly(own_design: str, words: list[str], said: str) -> None:
    assert said in refused("check-component", *(word.format(own=own_design) for word in words))


def test_an_unknown_command_suggests_the_nearest() -> None:
    assert "No such command 'rnu'. Did you mean 'run'? Commands: run, watch, check, new, list," in refused("rnu")
    assert "Did you mean" not in refused("horse")
    assert "Missing argument 'SCENARIO'" in refused("run")


def test_help_and_version() -> None:
    assert done("--version") == "lppm-sim 0.1.0\n"
    text = done("--help")
    named = re.findall(r"^  ([a-z-]+)  ", text.split("Commands:")[1], re.MULTILINE)
    assert named == [name for name, command in main.commands.items() if not command.hidden]
    for name in named:
        assert done(name, "-h").startswith(f"Usage: main {name} ")


def test_the_former_command_bench_names_its_replacement() -> None:
    assert "bench" not in refused("rnu")
    for words in ((), ("--quick", "-o", "x.json"), ("row", "--costs", "--cells", "9")):
        assert "run `make bench` in a copy of the repository" in refused("bench", *words)
