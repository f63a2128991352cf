"""Loading scenario files: all faults are reported together, each with line and column."""

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
from tests.support import BASE, assert_fault, assert_faults, faults, raises_code

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SHIPPED = sorted(SCENARIOS.glob("*.yaml"))

Write = Callable[..., Path]


@pytest.fixture
def road_files(tmp_path: Path) -> Path:
    """Return a data folder with empty files of the names that shipped scenarios use."""
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
    assert any("What to look at" in line for line in lines if line.startswith("#")), "explains the expected results"


def test_the_expected_scenarios_are_shipped() -> None:
    names = {path.stem for path in SHIPPED}
    assert names >= {"sporadic_checkins", "taxi_5min", "commuters", "san_francisco_roads", "replay_csv"}


def template(tmp_path: Path) -> Path:
    """Return a copy of the template."""
    path = tmp_path / "mine.yaml"
    path.write_text(files("sim.scenario").joinpath("template.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    return path


def test_the_template_loads_and_its_commented_defaults_are_the_defaults(tmp_path: Path) -> None:
    path = template(tmp_path)
    scenario = load(path)
    assert scenario.record == Scenario.model_fields["record"].default
    assert scenario.markov_restart == "never"


def test_the_json_schema_accepts_valid_scenarios(tmp_path: Path) -> None:
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
def test_the_default_name_is_the_file_stem(file: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text(BASE)
    assert load(path).name == name
    path.write_text(f"{BASE}\nname: explicit")
    assert load(path).name == "explicit"


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


def test_all_faults_are_reported_together_each_at_its_line_and_column(write: Write) -> None:
    path = write(MANY_FAULTS)
    folder = path.parent
    assert_faults(
        faults(path),
        ("2:1: seed [duplicate-key]", "line 1, column 1"),
        ("3:1: replicatons [unknown-key]",
         "did you mean 'replications'", f"allowed: {', '.join(Scenario.model_fields)}"),
        ("4:15: replications [out-of-range]", "at least 1", "found 0"),
        ("5:17: markov_restart [unknown-value]", "one of never, daily", "text 'no'"),
        ("7:16: world.grid.kind [unknown-kind]", "'rectangel' (did you mean 'rectangle'?)",
         "allowed: rectangle, region, san_francisco"),
        ("8:29: world.roads.nodes", "'nodes.csv'", str(folder / "nodes.csv")),
        ("8:47: world.roads.edges", "'edges.csv'", str(folder / "edges.csv")),
        ("10:10: users.count [wrong-type]", "a whole number", "text '3'; remove the quotes"),
        ("14:14: users.mobility.explore [out-of-range]", "at most 1", "found 1.5"),
        ("17:8: training.own [no-past]", "`past_queries`, `past_days` or `past_share`"),
        ("19:30: lppms.0.training [unknown-training-set]", "'otherz' (did you mean 'others'?)", "allowed: others, own"),
        ("20:5: lppms.1 [duplicate-name]", "'SP-Exp'", "lppms.0", "`name`"),
        ("21:5: lppms.2.design [missing-key]", "name, belief and design"),
        ("22:48: lppms.2.belief.initial [unknown-value]", "'unifrom' (did you mean 'uniform'?)",
         "one of training, uniform"),
        ("23:21: attacks.1 [wrong-type]", "a mapping", "the list ['markov']"),
        ("25:9: sweep.seed [wrong-type]", "a list", "found 5; write [5]"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"users": "{count: 2, mobility: markov}"}, ("users [missing-duration]", "`queries`")),
        ({"users": "{queries: 2, mobility: taxis}"}, ("users.mobility [no-roads]", "taxis", "`roads: lattice`")),
        ({"world": "{quality_distance: road}"}, ("world.quality_distance [no-roads]", "no roads")),
        (
            {"training": "{t: {kind: others, mobility: commuters, queries: 3}}"},
            ("training.t.mobility [no-roads]", "commuters"),
        ),
        ({"training": "{p: other_user}"}, ("training.p [no-past]", "none")),
        (
            {"training": "{p: own_past}", "users": "{queries: 5, past_queries: null, mobility: markov}"},
            ("training.p [no-past]", "none"),
        ),
        (
            {"training": "{p: {kind: own_past, queries: 9}}",
             "users": "{queries: 5, past_queries: 8, mobility: markov}"},
            ("training.p.queries [out-of-range]", "9", "at most", "8", "`past_queries`"),
        ),
        (
            {"training": "{p: {kind: own_past, days: 2.5}}", "users": "{days: 5, past_days: 2, mobility: markov}"},
            ("training.p.days [out-of-range]", "2.5", "at most", "`past_days`"),
        ),
        (
            {"users": "{days: 5, past_queries: 2, mobility: markov}"},
            ("users [exclusive-keys]", "`past_queries`", "`days`", "`past_days`"),
        ),
        ({"users": "{queries: 5, past_queries: 2, past_days: 2, mobility: markov}"},
         ("users [exclusive-keys]", "`past_queries`")),
        (
            {"users": "{count: 100000, queries: 1000000, mobility: markov}"},
            ("users [too-many-queries]", "100,000,000,000", "at most 10,000,000,000", "`count`", "`queries`"),
        ),
        (
            {"attacks": "[{kind: sporadic, training: others}]"},
            ("attacks.0", "'others'", "`training`", "`knows: training`"),
        ),
        (
            {"training": "{a: {kind: others, count: 2}, b: {kind: own_and_others, others: aa}}"},
            ("training.b.others [unknown-training-set]", "'aa' (did you mean 'a'?)", "allowed: a, b"),
        ),
        (
            {"training": "{a: {kind: others, count: 2}, b: {kind: own_and_others, own: c, others: a}}"},
            ("training.b.own [unknown-training-set]", "'c'", "allowed: a, b"),
        ),
        (
            {"training": "{b: {kind: own_and_others, others: b}}"},
            ("training.b.others [wrong-training-set]", "'b' of kind own_and_others", "own_past or own_test"),
        ),
        (
            {"training": "{a: {kind: own_test}, b: {kind: own_and_others, others: a}}"},
            ("training.b.others [wrong-training-set]", "'a' of kind own_test", "data of other people"),
        ),
        (
            {"training": "{a: {kind: own_and_others, others: c}, b: {kind: own_and_others, own: a, others: c},"
             " c: {kind: others, count: 2}}"},
            ("training.b.own [wrong-training-set]", "'a' of kind own_and_others", "combines no others"),
        ),
        ({"training": "{p: other_users}"}, ("training.p [no-past]", "other_users", "none")),
        (
            {"attacks": "[{kind: markov-trained, training: none}]"},
            ("attacks.0.training [unknown-training-set]", "'none'", "allowed: others"),
        ),
        (
            {"attacks": "[{kind: markov-trained, training: none}]", "training": None},
            ("attacks.0.training [unknown-training-set]", "'none'"),
        ),
        ({"lppms": "[{kind: SP-LH, design: {alpha: 1}}]"},
         ("lppms.0.design.alpha [unknown-key]", "did you mean 'reveal_probability'")),
        ({"lppms": "[{kind: SP-Exp, design: {Eps: 1}}]"},
         ("lppms.0.design.Eps [unknown-key]", "did you mean 'epsilon_per_km'")),
        ({"lppms": "[{kind: SP-Exp, design: {q_max: 1}}]"},
         ("lppms.0.design.q_max [unknown-key]", "did you mean 'quality_budget_km'")),
        ({"lppms": "[{kind: SP-Exp, design: {alpha: 1}}]"}, ("lppms.0.design.alpha [unknown-key]",)),
        ({"lppms": "[{kind: PEB-Exp, belief: {gamma: 1}}]"},
         ("lppms.0.belief.gamma [unknown-key]", "did you mean 'fading'")),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {forget: {half_life: 1}}}]"},
            ("lppms.0.belief.forget.half_life [unknown-key]", "did you mean 'half_life_days'"),
        ),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {forget: never}}]"},
            ("lppms.0.belief.forget [wrong-type]", "text 'never'", "must be a mapping (key: value) or none"),
        ),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {forget: {window: 3, half_life_days: 2}}}]"},
            ("lppms.0.belief.forget",),
        ),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {regularise: {}, fading: 1}}]"},
            ("lppms.0.belief", "`fading`", "`regularise`"),
        ),
        (
            {"lppms": "[{kind: PEB-Exp, belief: {forget: {adaptive: false}}}]"},
            ("lppms.0.belief.forget", "`half_life_queries`", "`half_life_days`", "`window`"),
        ),
        (
            {"shifts": "[{kind: relocat, at_query: 3}]"},
            ("shifts.0.kind [unknown-kind]", "'relocat'", "did you mean 'relocate'"),
        ),
        (
            {"shifts": "[relocate]"},
            ("shifts.0", "text 'relocate'"),
        ),
        ({"shifts": "[3]"}, ("shifts.0", "3")),
        ({"shifts": "[{kind: relocate, at: 3}]"}, ("shifts.0.at [unknown-key]",)),
        ({"shifts": "[{kind: relocate}]"}, ("shifts.0", "`at_query`", "`at_day`")),
        ({"shifts": "[{kind: relocate, at_query: 3, at_day: 1}]"}, ("shifts.0", "`at_query`")),
        ({"shifts": "[{kind: relocate, at_query: 1}]"}, ("shifts.0.at_query [out-of-range]", "1", "at least 2")),
        (
            {"shifts": "[{kind: relocate, at_query: 7}]"},
            ("shifts.0.at_query [shift-after-end]", "7", "at most", "6", "`queries`"),
        ),
        (
            {"shifts": "[{kind: adopt, at_query: 3, users: [a], share: 0.5}]"},
            ("shifts.0", "`users`", "`share`"),
        ),
        (
            {"shifts": "[{kind: adopt, at_query: 3, for_days: 2, for_queries: 5}]"},
            ("shifts.0", "`for_queries`", "`for_days`"),
        ),
        (
            {"shifts": "[{kind: holiday, at_query: 3}]"},
            ("shifts.0", "`for_queries`", "`for_days`"),
        ),
        (
            {"shifts": "[{kind: rate, at_query: 3, factor: 2, over_queries: 5}]"},
            ("shifts.0.over_queries [unknown-key]",),
        ),
        (
            {"shifts": "[{kind: close_roads, at_day: 3, share: 0.1}]"},
            ("shifts.0 [no-roads]", "no roads", "`roads: lattice`"),
        ),
        (
            {"shifts": "[{kind: close_roads, at_query: 3, share: 0.1}]"},
            ("shifts.0.at_query [unknown-key]",),
        ),
        (
            {"shifts": "[{kind: close_roads, at_day: 3}]"},
            ("shifts.0", "`share`", "`cells`"),
        ),
        (
            {"shifts": "[{kind: relocate, at_query: 3}, {kind: relocate, at_query: 4}]"},
            ("shifts.1 [duplicate-name]", "'relocate'", "shifts.0", "`name`"),
        ),
        (
            {"attacks": "[{kind: sporadic, knows: whole_tset}]"},
            ("attacks.0.knows [unknown-value]", "text 'whole_tset'", "did you mean 'whole_test'"),
        ),
        ({"repeats": "3"}, ("repeats [unknown-key]", "did you mean 'replications'")),
        ({"population": "{}"}, ("population [unknown-key]", "did you mean 'users'")),
        ({"world": "'grid:3'"}, ("world [wrong-type]", "text 'grid:3'", "put a space after the ':'")),
        ({"attacks": "[markov, {kind: sporadic, name: markov}]"}, ("attacks.1 [duplicate-name]", "'markov'")),
        (
            {"lppms": "[{kind: PEB-Exp, belief: fixed_profile}]"},
            ("lppms.0", "'fixed_profile'"),
        ),
        (
            {"lppms": "[{kind: SP-Exp, design: {epsilon_per_km: 1, quality_budget_km: 1}}]"},
            ("lppms.0.design", "`epsilon_per_km`", "`quality_budget_km`"),
        ),
        ({"name": "a/b"}, ("name [invalid-name]",)),
        ({"training": "{zürich: nothing}"}, ("training.zürich [invalid-name]",)),
        ({"lppms": "[]"}, ("lppms [wrong-length]", "0", "1 or more", "must be a list")),
        ({"world": "{grid: {kind: rectangle, rows: 20000, cols: 20000, width_km: 1, height_km: 1}}"}, ("world.grid",)),
        ({"users": "{queries: 5, mobility: {kind: commuters, jitter_h: 13}}"},
         ("users.mobility.jitter_h [out-of-range]", "at most 12")),
        ({"replications": "1000000", "sweep": "{seed: [1, 2]}"}, ("replications [too-many-simulations]",)),
        (
            {"replications": "{until_half_width_km: 1, at_most: 1000000}", "sweep": "{seed: [1, 2]}"},
            ("replications [too-many-simulations]",),
        ),
        (
            {"replications": "{until_half_width_km: 1, at_most: 3}"},
            ("replications [out-of-range]", "3", "`at_least`", "5", "`at_most`"),
        ),
        (
            {"replications": "{until_half_with_km: 1, at_most: 30}"},
            ("replications.until_half_with_km [unknown-key]", "did you mean 'until_half_width_km'"),
        ),
        (
            {"replications": "{until_half_width_km: 1, at_most: many}"},
            ("replications.at_most [wrong-type]", "text 'many'", "must be a whole number"),
        ),
        ({"replications": "many"}, ("replications [wrong-type]", "text 'many'")),
        (
            {"users": "{queries: 5, mobility: {kind: 'mine:Mine', n: [1, .nan]}}"},
            ("users.mobility", "`n`"),
        ),
        (
            {"users": "{queries: 5, mobility: {kind: 'mine.Mine:'}}"},
            ("users.mobility.kind [invalid-name]", "text 'mine.Mine:'"),
        ),
    ],
)  # fmt: skip
def test_inconsistent_parts_are_refused(changes: dict[str, str], fault: tuple[str, ...], write: Write) -> None:
    path = fault[0].split(" ")[0]
    code = fault[0].partition(" ")[2].strip("[]")
    own = [
        actual
        for actual in faults(write(**changes))
        if actual.path == path and (actual.code == code if code else actual.code != "no-roads")
    ]
    assert_fault(own[0], *fault)


@pytest.mark.parametrize(
    ("training", "fault"),
    [
        ("{others: others}", ("training.others [missing-mobility]", "`mobility`")),
        ("{others: {kind: others, mobility: markov}}", ("training.others [missing-duration]", "`queries` or `days`")),
    ],
)
def test_other_people_of_a_replay_need_a_mobility_and_a_length(
    training: str, fault: tuple[str, ...], write: Write, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").touch()
    path = write(users="{mobility: {kind: replay, file: t.csv}}", training=training)
    assert_fault(faults(path)[0], *fault)
    for fine in ("{kind: others, mobility: markov, days: 1}", "{kind: others, mobility: {kind: replay, file: t.csv}}"):
        load(write(users="{mobility: {kind: replay, file: t.csv}}", training=f"{{others: {fine}}}"))


def test_a_missing_file_is_reported_with_its_full_path(write: Write, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    path = write(users="{mobility: {kind: replay, file: folder.csv}}", training=None)
    (fault,) = faults(path)
    assert_fault(fault, "4:40: users.mobility.file", "'folder.csv'", "is a folder", str(tmp_path / "folder.csv"))


# ------------------------------------------------------------------------------------------------ shifts

SHIFTS = """[
  {kind: relocate, at_query: 3, over_queries: 2, weight: 0.5}, {kind: relocate, name: job, what: work, at_day: 0.5},
  {kind: new_places, at_query: 3, share: 0.5}, {kind: adopt, of: user-002, what: trace, at_query: 4, users: [user-001]},
  {kind: holiday, at_query: 3, for_queries: 2, away_km: 2, spread_km: 1}, {kind: rate, factor: 2, at_query: 2},
  {kind: close_roads, share: 0.1, at_day: 0.1}, {kind: close_roads, name: bridge, cells: [3], at_day: 0.1},
  {kind: reverse_roads, share: 1, at_day: 0.1, for_days: 0.2}]"""


def test_shifts_are_read_according_to_the_schema(write: Write) -> None:
    world = "{grid: {kind: rectangle, rows: 4, cols: 5, width_km: 5, height_km: 4}, roads: lattice}"
    path = write(world=world, shifts=SHIFTS)
    assert [shift.name for shift in load(path).shifts] == [
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


def test_the_start_of_a_shift_can_be_swept_and_set(write: Write) -> None:
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
    assert_faults(late, ("7:32: shifts.0.at_query [shift-after-end]", "`queries`, which is 6", "found 9"))


# ------------------------------------------------------------------------------------------------ files


def test_data_files_are_read_from_the_data_folder(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert_faults(faults(path, data=other), ("4:40: users.mobility.file", "'data:t.csv'", str(other / "t.csv")))


def test_a_missing_data_folder_is_reported_with_the_remedies(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    path = write(users='{mobility: {kind: replay, file: "data:t.csv"}}', training=None)
    assert_faults(faults(path), ("4:40: users.mobility.file", "'data:t.csv'", "--data DIR", VARIABLE))


def test_file_names_are_relative_to_the_scenario(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").touch()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    path = write(users="{mobility: {kind: replay, file: t.csv}}", training=None)
    monkeypatch.chdir(elsewhere)
    assert load(path).locate("t.csv") == tmp_path / "t.csv"


# ------------------------------------------------------------------------------------------------ manifest


def test_a_manifest_contains_the_scenario_of_its_run(write: Write, tmp_path: Path) -> None:
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
    # The keys of a manifest are sorted: neither the first training set nor the points may depend on their order.
    assert [lppm.training for lppm in again.lppms] == ["z first"]
    assert [point.values for point in points(again)] == [point.values for point in points(scenario)]
    changed = load(tmp_path / "run" / "manifest.json", settings=["lppms.0.design.epsilon_per_km=3"])
    assert changed.digest != scenario.digest


@pytest.mark.parametrize("content", ["", "{", "[]", '{"folder": "."}', '{"scenario": 3, "folder": "."}', "\ufffd"])
def test_an_invalid_manifest_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with raises_code(ScenarioError, "damaged-manifest") as error:
        load(path)
    assert str(path) in str(error.value)
    with raises_code(ScenarioError, "file-error") as error:
        load(tmp_path / "nowhere" / "manifest.json")
    assert "No such file" in str(error.value)


def test_loading_does_not_change_earlier_results(write: Write) -> None:
    path = write()
    before: Any = load(path).model_dump()
    load(path, settings=["seed=9", "lppms.*.design.remap=false"])
    assert load(path).model_dump() == before
