"""From a file to a scenario: every fault at once, each at its line and column; sweeps and settings are checked too."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sim
from sim.components.files import VARIABLE
from sim.scenario.load import schema
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import ScenarioError
from sim.scenario.reading.source import read
from sim.scenario.sweep import points
from sim.storage.load import load
from tests.support import BASE, faults

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SHIPPED = sorted(SCENARIOS.glob("*.yaml"))

Write = Callable[..., Path]


@pytest.fixture
def road_files(tmp_path: Path) -> Path:
    """Return a data folder with the files that shipped scenarios name; only their names matter here."""
    for name in ("sf_road_nodes.csv.gz", "sf_road_edges.csv.gz"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_scenario_loads(path: Path, road_files: Path) -> None:
    scenario = load(path, data=road_files)
    assert scenario.name == path.stem
    assert scenario.description
    assert points(scenario)
    lines = path.read_text().splitlines()
    assert any("What to look at" in line for line in lines if line.startswith("#")), "says what it shows"


def test_all_the_scenarios_of_the_project_ship() -> None:
    names = {path.stem for path in SHIPPED}
    assert names >= {"sporadic_checkins", "taxi_5min", "commuters", "san_francisco_roads", "replay_csv"}


def template(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(files("sim.scenario").joinpath("template.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    return path


def test_the_template_loads_and_its_commented_defaults_are_the_defaults(tmp_path: Path) -> None:
    path = template(tmp_path)
    scenario = load(path)
    assert scenario.record == Scenario.model_fields["record"].default
    assert scenario.markov_restart == "never"


def test_the_json_schema_accepts_what_loads(tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schema()))
    for path in [*SHIPPED, template(tmp_path)]:
        assert [error.message for error in validator.iter_errors(read(path).data)] == [], path.name
    data = read(SHIPPED[0]).data
    assert not validator.is_valid(data | {"replicatons": 3})
    assert not validator.is_valid(data | {"lppms": ["SP-Ex"]})
    assert not validator.is_valid(data | {"lppms": [{"name": "a"}]})
    assert not validator.is_valid(data | {"lppms": [{"kind": "SP-Exp", "desing": {}}]})


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("checkins.yaml", "checkins"),
        ("my run é.yaml", "my-run--"),
        ("_.yaml", "scenario"),
        (f"{'x' * 90}.yml", "x" * 60),
    ],
)
def test_the_name_is_the_files_unless_said(file: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text(BASE)
    assert load(path).name == name
    path.write_text(f"{BASE}\nname: said")
    assert load(path).name == "said"


# ------------------------------------------------------------------------------------------------ faults

MANY_FAULTS = """\
seed: 1
seed: 2
replicatons: 2
replications: 0
markov_restart: no
world:
  grid: {kind: rectangel, rows: 3}
  roads: {kind: csv, nodes: nodes.csv, edges: edges.csv}
users:
  count: "3"
  queries: 5
  mobility:
    kind: favourites
    explore: 1.5
training:
  others: others
  own: own_past
lppms:
  - {kind: SP-Exp, training: otherz}
  - SP-Exp
  - name: mine
    belief: {kind: estimated_profile, initial: unifrom}
attacks: [sporadic, [markov]]
sweep:
  seed: 5
"""


def test_all_faults_come_at_once_each_at_its_line_and_column(write: Write) -> None:
    path = write(MANY_FAULTS)
    folder = path.parent
    assert faults(path) == [
        "2:1: seed: this key is given twice: first in line 1, column 1",
        "3:1: replicatons: unknown key (did you mean 'replications'?); allowed: name, description, seed, "
        "replications, names, markov_restart, world, users, shifts, training, lppms, attacks, sweep, record",
        "4:15: replications: must be at least 1, found 0",
        "5:17: markov_restart: must be one of never, daily, found text 'no'",
        "7:16: world.grid.kind: unknown kind, found 'rectangel' (did you mean 'rectangle'?); "
        "allowed: rectangle, region, san_francisco",
        f"8:29: world.roads.nodes: file 'nodes.csv' does not exist (looked for {folder / 'nodes.csv'})",
        f"8:47: world.roads.edges: file 'edges.csv' does not exist (looked for {folder / 'edges.csv'})",
        "10:10: users.count: must be a whole number, found text '3'; remove the quotes",
        "14:14: users.mobility.explore: must be at most 1, found 1.5",
        "17:8: training.own: own_past needs users with a past, found none: add `past_queries`, `past_days` or "
        "`past_share` to users",
        "19:30: lppms.0.training: no such training set, found 'otherz' (did you mean 'others'?); allowed: others, own",
        "20:5: lppms.1: two of the lppms are called 'SP-Exp' (also lppms.0); give one another `name`",
        "21:5: lppms.2.design: this key is required, but missing; required here: name, belief and design",
        "22:48: lppms.2.belief.initial: found text 'unifrom' (did you mean 'uniform'?), must be one of training, "
        "uniform",
        "23:21: attacks.1: must be a mapping (key: value), found the list ['markov']",
        "25:9: sweep.seed: must be a list, found 5; write [5]",
    ]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"users": "{count: 2, mobility: markov}"}, "users: synthetic users live for ever: say how many `queries`"),
        ({"users": "{queries: 2, mobility: taxis}"}, "users.mobility: taxis live on roads, found no roads"),
        ({"world": "{quality_distance: road}"}, "world.quality_distance: road distance needs roads, found no roads"),
        (
            {"training": "{t: {kind: others, mobility: commuters, queries: 3}}"},
            "training.t.mobility: commuters live on roads, found no roads",
        ),
        ({"training": "{p: other_user}"}, "training.p: other_user needs users with a past, found none"),
        (
            {"training": "{p: own_past}", "users": "{queries: 5, past_queries: null, mobility: markov}"},
            "training.p: own_past needs users with a past, found none",
        ),
        (
            {"training": "{p: {kind: own_past, queries: 9}}",
             "users": "{queries: 5, past_queries: 8, mobility: markov}"},
            "training.p.queries: must be at most the users' `past_queries`, which is 8, found 9",
        ),
        (
            {"training": "{p: {kind: own_past, days: 2.5}}", "users": "{days: 5, past_days: 2, mobility: markov}"},
            "training.p.days: must be at most the users' `past_days`, which is 2, found 2.5",
        ),
        (
            {"users": "{days: 5, past_queries: 2, mobility: markov}"},
            "users: `days` are counted from the end of `past_days`, found them with `past_queries`",
        ),
        ({"users": "{queries: 5, past_queries: 2, past_days: 2, mobility: markov}"}, "users: `past_queries` and"),
        (
            {"users": "{count: 1000, queries: 1000000, mobility: markov}"},
            "users: `count` users x `queries` must be at most 100,000,000, found 1,000,000,000",
        ),
        (
            {"attacks": "[{kind: sporadic, training: others}]"},
            "attacks.0: `training` is for an adversary with `knows: training`, found 'others' with `knows: test`",
        ),
        (
            {"attacks": "[{kind: markov-trained, training: none}]"},
            "attacks.0.training: no such training set, found 'none'; allowed: others",
        ),
        (
            {"attacks": "[{kind: markov-trained, training: none}]", "training": None},
            "attacks.0.training: no such training set, found 'none'; none is defined",
        ),
        ({"lppms": "[{kind: SP-LH, design: {alpha: 1}}]"}, "alpha: unknown key (did you mean 'reveal_probability'?)"),
        ({"lppms": "[{kind: SP-Exp, design: {Eps: 1}}]"}, "Eps: unknown key (did you mean 'epsilon_per_km'?)"),
        ({"lppms": "[{kind: SP-Exp, design: {q_max: 1}}]"}, "q_max: unknown key (did you mean 'quality_budget_km'?)"),
        ({"lppms": "[{kind: SP-Exp, design: {alpha: 1}}]"}, "alpha: unknown key; allowed: kind, epsilon_per_km"),
        ({"lppms": "[{kind: PEB-Exp, belief: {gamma: 1}}]"}, "gamma: unknown key (did you mean 'fading'?)"),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {forget: {half_life: 1}}}]"},
            "lppms.0.belief.forget.half_life: unknown key (did you mean 'half_life_days'?)",
        ),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {forget: never}}]"},
            "lppms.0.belief.forget: must be a mapping (key: value) or none, found text 'never'",
        ),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {forget: {window: 3, half_life_days: 2}}}]"},
            "lppms.0.belief.forget: found `half_life_days` and `window`, allowed is one of them",
        ),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {regularise: {}, fading: 1}}]"},
            "lppms.0.belief: found `fading` with `regularise`, whose prior takes their place: leave out one or",
        ),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {forget: {adaptive: false}}}]"},
            "lppms.0.belief.forget: nothing is forgotten: say `half_life_queries`, `half_life_days`, `window` or",
        ),
        (
            {"shifts": "[{kind: relocat, at_query: 3}]"},
            "shifts.0.kind: unknown kind, found 'relocat' (did you mean 'relocate'?); allowed: adopt, close_roads,",
        ),
        (
            {"shifts": "[relocate]"},
            "shifts.0: a shift is a mapping, such as {kind: relocate, at_query: 301}, found text 'relocate'",
        ),
        ({"shifts": "[3]"}, "shifts.0: a shift is a mapping, such as {kind: relocate, at_query: 301}, found 3"),
        ({"shifts": "[{kind: relocate, at: 3}]"}, "shifts.0.at: unknown key"),
        ({"shifts": "[{kind: relocate}]"}, "shifts.0: say when: allowed is one of `at_query` and `at_day`, found none"),
        ({"shifts": "[{kind: relocate, at_query: 3, at_day: 1}]"}, "shifts.0: say when: allowed is one of `at_query`"),
        ({"shifts": "[{kind: relocate, at_query: 1}]"}, "shifts.0.at_query: must be at least 2, found 1"),
        (
            {"shifts": "[{kind: relocate, at_query: 7}]"},
            "shifts.0.at_query: must be at most the users' `queries`, which is 6, found 7",
        ),
        (
            {"shifts": "[{kind: adopt, at_query: 3, users: [a], share: 0.5}]"},
            "shifts.0: `users` and `share` exclude each other: found both, allowed is one",
        ),
        (
            {"shifts": "[{kind: adopt, at_query: 3, for_days: 2, for_queries: 5}]"},
            "shifts.0: `for_queries` and `for_days` exclude each other: found both, allowed is one",
        ),
        (
            {"shifts": "[{kind: holiday, at_query: 3}]"},
            "shifts.0: a holiday ends: say `for_queries` or `for_days`, found neither",
        ),
        (
            {"shifts": "[{kind: rate, at_query: 3, factor: 2, over_queries: 5}]"},
            "shifts.0.over_queries: unknown key",
        ),
        (
            {"shifts": "[{kind: close_roads, at_day: 3, share: 0.1}]"},
            "shifts.0: close_roads needs roads, found no roads: add for example `roads: lattice` to the world",
        ),
        (
            {"shifts": "[{kind: close_roads, at_query: 3, share: 0.1}]"},
            "shifts.0.at_query: unknown key",
        ),
        (
            {"shifts": "[{kind: close_roads, at_day: 3}]"},
            "shifts.0: say which roads: allowed is one of `share` and `cells`, found none",
        ),
        (
            {"shifts": "[{kind: relocate, at_query: 3}, {kind: relocate, at_query: 4}]"},
            "shifts.1: two of the shifts are called 'relocate' (also shifts.0); give one another `name`",
        ),
        (
            {"attacks": "[{kind: sporadic, knows: whole_tset}]"},
            "attacks.0.knows: found text 'whole_tset' (did you mean 'whole_test'?), must be one of test, whole_test",
        ),
        ({"repeats": "3"}, "repeats: unknown key (did you mean 'replications'?)"),
        ({"population": "{}"}, "population: unknown key (did you mean 'users'?)"),
        ({"world": "'grid:3'"}, "must be a mapping (key: value), found text 'grid:3'; put a space after the ':'"),
        ({"attacks": "[markov, {kind: sporadic, name: markov}]"}, "attacks.1: two of the attacks are called 'markov'"),
        (
            {"lppms": "[{kind: PEB-Exp, belief: fixed_profile}]"},
            "lppms.0: PEB-Exp stands for the belief estimated_profile, found 'fixed_profile'",
        ),
        (
            {"lppms": "[{kind: SP-Exp, design: {epsilon_per_km: 1, quality_budget_km: 1}}]"},
            "lppms.0.design: `epsilon_per_km` and `quality_budget_km` exclude each other",
        ),
        ({"name": "a/b"}, "name: must be letters a to z, digits, spaces and _ . + -, with a letter or digit first"),
        ({"training": "{zürich: nothing}"}, "training.zürich: must be letters a to z, digits"),
        ({"lppms": "[]"}, "lppms: must be a list of 1 or more, found 0"),
        ({"world": "{grid: {kind: rectangle, rows: 200, cols: 200, width_km: 1, height_km: 1}}"}, "world.grid: a grid"),
        ({"users": "{queries: 5, mobility: {kind: commuters, jitter_h: 13}}"}, "mobility.jitter_h: must be at most 12"),
        ({"replications": "1000000", "sweep": "{seed: [1, 2]}"}, "replications: replications x combinations of the"),
        (
            {"replications": "{until_half_width_km: 1, at_most: 1000000}", "sweep": "{seed: [1, 2]}"},
            "replications: replications x combinations of the",
        ),
        (
            {"replications": "{until_half_width_km: 1, at_most: 3}"},
            "replications: `at_most` must not be below `at_least`, which is 5 unless said, found 3",
        ),
        (
            {"replications": "{until_half_with_km: 1, at_most: 30}"},
            "replications.until_half_with_km: unknown key (did you mean 'until_half_width_km'?)",
        ),
        (
            {"replications": "{until_half_width_km: 1, at_most: many}"},
            "replications.at_most: must be a whole number, found text 'many'",
        ),
        ({"replications": "many"}, "replications: must be a whole number or a mapping (key: value), found text 'many'"),
        (
            {"users": "{queries: 5, mobility: {kind: 'mine:Mine', n: [1, .nan]}}"},
            "users.mobility: `n` must hold finite numbers",
        ),
        (
            {"users": "{queries: 5, mobility: {kind: 'mine.Mine:'}}"},
            "users.mobility.kind: must be module:Class, as in my_module:MyClass, found text 'mine.Mine:'",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_said(changes: dict[str, str], fault: str, write: Write) -> None:
    assert any(fault in found for found in faults(write(**changes)))


@pytest.mark.parametrize(
    ("training", "fault"),
    [
        ("{others: others}", "training.others: the users are replayed: say who the others are, found no `mobility`"),
        ("{others: {kind: others, mobility: markov}}", "training.others: synthetic people live for ever"),
    ],
)
def test_other_people_of_a_replay_must_be_said(training: str, fault: str, write: Write, tmp_path: Path) -> None:
    (tmp_path / "t.csv").touch()
    path = write(users="{mobility: {kind: replay, file: t.csv}}", training=training)
    assert fault in faults(path)[0]
    for fine in ("{kind: others, mobility: markov, days: 1}", "{kind: others, mobility: {kind: replay, file: t.csv}}"):
        load(write(users="{mobility: {kind: replay, file: t.csv}}", training=f"{{others: {fine}}}"))


def test_a_missing_file_is_named_with_the_place_where_it_was_looked_for(write: Write, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    path = write(users="{mobility: {kind: replay, file: folder.csv}}", training=None)
    assert faults(path) == [
        f"4:40: users.mobility.file: file 'folder.csv' is a folder (looked for {tmp_path / 'folder.csv'})"
    ]


# ------------------------------------------------------------------------------------------------ shifts

SHIFTS = """[
  {kind: relocate, at_query: 3, over_queries: 2, weight: 0.5}, {kind: relocate, name: job, what: work, at_day: 0.5},
  {kind: new_places, at_query: 3, share: 0.5}, {kind: adopt, of: user-002, what: trace, at_query: 4, users: [user-001]},
  {kind: holiday, at_query: 3, for_queries: 2, away_km: 2, spread_km: 1}, {kind: rate, factor: 2, at_query: 2},
  {kind: close_roads, share: 0.1, at_day: 0.1}, {kind: close_roads, name: bridge, cells: [3], at_day: 0.1},
  {kind: reverse_roads, share: 1, at_day: 0.1, for_days: 0.2}]"""


def test_shifts_are_read_as_the_schema_says(write: Write) -> None:
    world = "{grid: {kind: rectangle, rows: 4, cols: 5, width_km: 5, height_km: 4}, roads: lattice}"
    path = write(world=world, shifts=SHIFTS)
    found = load(path).shifts
    assert [shift.name for shift in found] == [
        "relocate", "job", "new_places", "adopt", "holiday", "rate", "close_roads", "bridge", "reverse_roads",
    ]  # fmt: skip
    data = dict(read(path).data)
    jsonschema.validate(data, json.loads(schema()))
    for wrong in (
        {"kind": "relocate", "at_query": 1},
        {"kind": "move", "at_query": 3},
        {"kind": "rate", "at_query": 3},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(data | {"shifts": [wrong]}, json.loads(schema()))


def test_when_a_life_shifts_can_be_swept_and_set(write: Write) -> None:
    shifts = "[{kind: relocate, name: move, at_query: 3}]"
    swept = points(load(write(shifts=shifts, sweep="{shifts.move.at_query: [3, 5]}")))
    assert [point.scenario.shifts[0].at_query for point in swept] == [3, 5]
    assert len({point.setting for point in swept}) == 2
    assert load(write(shifts=shifts), settings=["shifts.*.weight=0.5"]).model_dump()["shifts"][0]["weight"] == 0.5
    kinds = points(
        load(write(shifts="[{kind: relocate, at_query: 3}]", sweep="{shifts.0.kind: [relocate, new_places]}"))
    )
    assert [point.scenario.shifts[0].name for point in kinds] == ["relocate", "new_places"]
    late = faults(write(shifts=shifts, sweep="{shifts.0.at_query: [3, 9]}"))
    assert len(late) == 1
    assert "must be at most the users' `queries`, which is 6, found 9" in late[0]


# ------------------------------------------------------------------------------------------------ files


def test_data_files_lie_in_the_data_folder(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data sets"
    folder.mkdir()
    (folder / "t.csv").touch()
    path = write(users='{mobility: {kind: replay, file: "data:t.csv"}}', training=None)
    scenario = load(path, data=folder)
    assert scenario.files() == ["data:t.csv"]
    assert scenario.locate("data:t.csv") == folder / "t.csv"
    monkeypatch.setenv(VARIABLE, str(folder))
    assert load(path).locate("data:t.csv") == folder / "t.csv"
    (other := tmp_path / "other").mkdir()
    assert faults(path, data=other) == [
        f"4:40: users.mobility.file: file 'data:t.csv' does not exist (looked for {other / 't.csv'})"
    ]


def test_without_a_data_folder_the_way_out_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    path = write(users='{mobility: {kind: replay, file: "data:t.csv"}}', training=None)
    assert faults(path) == [
        "4:40: users.mobility.file: 'data:t.csv' lies in the folder of real data sets, which is not known: "
        f"give it with --data DIR or set {VARIABLE}"
    ]


def test_files_are_relative_to_the_scenario_not_to_where_one_stands(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").touch()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    path = write(users="{mobility: {kind: replay, file: t.csv}}", training=None)
    monkeypatch.chdir(elsewhere)
    assert load(path).locate("t.csv") == tmp_path / "t.csv"


# ------------------------------------------------------------------------------------------------ manifest


def test_a_manifest_gives_the_scenario_of_its_run(write: Write, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,time,cell\n" + "".join(f"a,{t},{t % 7}\n" for t in range(12)))
    path = write(
        users="{mobility: {kind: replay, file: t.csv}, past_queries: 6}",
        training="{z first: own_past, a second: nothing}",
        lppms="[{kind: SP-Exp, design: {epsilon_per_km: 2}}]",
        sweep="{users.queries: [2, 3], seed: [1, 2]}",
    )
    scenario = load(path)
    sim.run(scenario, out=tmp_path / "run", figures=False)
    again = load(tmp_path / "run" / "manifest.json")
    assert again.canonical() == scenario.canonical()
    assert again.locate("t.csv").samefile(tmp_path / "t.csv")
    # A JSON object is written in the order of its keys: neither the first training set nor the points may depend on it.
    assert [lppm.training for lppm in again.lppms] == ["z first"]
    assert [point.values for point in points(again)] == [point.values for point in points(scenario)]
    changed = load(tmp_path / "run" / "manifest.json", settings=["lppms.0.design.epsilon_per_km=3"])
    assert changed.digest != scenario.digest


@pytest.mark.parametrize("content", ["", "{", "[]", '{"folder": "."}', '{"scenario": 3, "folder": "."}', "\ufffd"])
def test_what_is_no_manifest_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with pytest.raises(ScenarioError, match=r"manifest\.json: this is no manifest of a run"):
        load(path)
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        load(tmp_path / "nowhere" / "manifest.json")


def test_loading_changes_nothing_that_was_loaded_before(write: Write) -> None:
    path = write()
    before: Any = load(path).model_dump()
    load(path, settings=["seed=9", "lppms.*.design.remap=false"])
    assert load(path).model_dump() == before
