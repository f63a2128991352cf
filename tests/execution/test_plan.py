"""Plan of a run: points of a sweep, simulations that they share, and ids derived from content."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.execution.blocks import ChunkSize
from sim.execution.plan import Chunk, Plan, tasks
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import ScenarioError
from sim.scenario.sweep import models, points
from sim.storage.errors import RequestError
from sim.storage.load import load
from tests.support import MakeScenario, plan, raises_code

EPSILON = "lppms.*.design.epsilon_per_km"


def epsilons(scenario: Scenario) -> list[Any]:
    return [getattr(lppm.design, "epsilon_per_km", "none") for lppm in scenario.lppms]


def content(chunk: Chunk) -> str:
    """Return the part of an id that depends on the content, without the number of the point."""
    return chunk.id.split("-", 1)[1]


def test_without_a_sweep_the_scenario_is_its_only_point(make_scenario: MakeScenario) -> None:
    scenario = make_scenario()
    (point,) = points(scenario)
    assert (point.index, point.values) == (0, {})
    assert point.scenario.canonical() == scenario.canonical()


def test_several_paths_multiply(make_scenario: MakeScenario) -> None:
    swept = points(make_scenario(sweep={"users.count": [1, 2], "seed": [7, 8, 9]}))
    assert [point.index for point in swept] == list(range(6))
    seeds_and_counts = [(point.scenario.seed, point.scenario.users.count) for point in swept]
    assert seeds_and_counts == [(7, 1), (7, 2), (8, 1), (8, 2), (9, 1), (9, 2)]
    assert [point.values for point in swept] == [{"seed": s, "users.count": c} for s, c in seeds_and_counts]
    assert all(point.scenario.sweep == {} for point in swept)


def test_the_order_of_paths_does_not_change_the_numbers_of_points(make_scenario: MakeScenario) -> None:
    sweep: dict[str, Any] = {"users.count": [1, 2], "seed": [7, 8]}
    one, two = make_scenario(sweep=sweep), make_scenario(sweep=dict(reversed(sweep.items())))
    assert one.digest == two.digest
    assert [chunk.id for chunk in plan(one)] == [chunk.id for chunk in plan(two)]
    assert [point.values for point in points(one)] == [point.values for point in points(two)]


def test_a_wildcard_sets_all_lppms_with_the_parameter(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=["SP-Exp", "SP-LH", "MK-Exp"], sweep={EPSILON: [0.5, 2]})
    assert [epsilons(point.scenario) for point in points(scenario)] == [[0.5, "none", 0.5], [2, "none", 2]]


@pytest.mark.parametrize(
    ("sweep", "read", "expected"),
    [
        ({"world.grid.rows": [2, 3]}, lambda s: s.world.grid.rows, [2, 3]),
        ({"world.roads": [None, "lattice"]}, lambda s: s.world.roads and s.world.roads.kind, [None, "lattice"]),
        ({"users.demand": ["poisson", {"kind": "periodic"}]}, lambda s: s.users.demand.kind, ["poisson", "periodic"]),
        ({"training": [{"a": "nothing"}, {"b": "others"}]}, lambda s: [*s.training], [["a"], ["b"]]),
        ({"lppms.0": ["MK-LH", "SP-LH"]}, lambda s: s.lppms[0].name, ["MK-LH", "SP-LH"]),
        ({"lppms.SP-Exp.design.remap": [True, False]}, lambda s: s.lppms[0].design.remap, [True, False]),
        ({"lppms": [["SP-Exp"], ["MK-LH", "LH"]]}, lambda s: [lppm.name for lppm in s.lppms][-1], ["SP-Exp", "LH"]),
        ({"attacks": [[], ["markov"]]}, lambda s: len(s.attacks), [0, 1]),
        ({"attacks.0.belief": ["markov_filter"]}, lambda s: s.attacks[0].belief.kind, ["markov_filter"]),
        ({"record.expected": [False, True]}, lambda s: s.record.expected, [False, True]),
        ({"markov_restart": ["daily"]}, lambda s: s.restart_s, [86_400]),
    ],
)  # fmt: skip
def test_any_value_can_be_swept(
    sweep: dict[str, Any], read: Callable[[Scenario], Any], expected: list[Any], make_scenario: MakeScenario
) -> None:
    attacks = [{"name": "sporadic", "belief": "fixed_profile"}]
    swept = points(make_scenario(sweep=sweep, attacks=attacks))
    assert [read(point.scenario) for point in swept] == expected


@pytest.mark.parametrize("written", ["SP-Exp", {"kind": "SP-Exp", "design": {"remap": False}}])
def test_a_swept_short_name_sets_belief_and_design(written: Any, make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=[written], sweep={"lppms.0.kind": ["SP-Exp", "PEB-Exp", "MK-LH"]})
    lppms = [point.scenario.lppms[0] for point in points(scenario)]
    assert [(lppm.name, lppm.belief.kind, lppm.design.kind) for lppm in lppms] == [
        ("SP-Exp", "fixed_profile", "exponential"),
        ("PEB-Exp", "estimated_profile", "exponential"),
        ("MK-LH", "markov_filter", "location_hiding"),
    ]
    assert len({getattr(lppm.design, "remap", None) for lppm in lppms}) == 1, "explicit values stay"


def test_a_swept_short_attack_sets_its_knowledge(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(sweep={"attacks.1.kind": ["markov", "sporadic-trained"]})
    attacks = [point.scenario.attacks[1] for point in points(scenario)]
    assert [(attack.name, attack.knows) for attack in attacks] == [("markov", "test"), ("sporadic-trained", "training")]


def test_a_whole_component_and_a_part_of_it_can_both_be_swept(make_scenario: MakeScenario) -> None:
    sweep = {"lppms.0.design.remap": [True, False], "lppms.0.design": ["exponential", {"kind": "location_hiding"}]}
    lppm = {"name": "a", "belief": "fixed_profile", "design": "exponential"}
    designs = [point.scenario.lppms[0].design for point in points(make_scenario(lppms=[lppm], sweep=sweep))]
    assert [(design.kind, getattr(design, "remap", None)) for design in designs] == [
        ("exponential", True),
        ("exponential", False),
        ("location_hiding", True),
        ("location_hiding", False),
    ]


def test_an_unknown_path_is_refused_in_python_too(make_scenario: MakeScenario) -> None:
    with pytest.raises(ScenarioError) as error:
        points(make_scenario(sweep={"lppms.*.design.epsilon": [1]}))
    assert "'epsilon'" in str(error.value)
    assert "'epsilon_per_km'" in str(error.value)


def test_points_have_the_folders_of_the_scenario(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(sweep={"seed": [1, 2]}).at(tmp_path, tmp_path / "data")
    assert [point.scenario.place for point in points(scenario)] == [scenario.place] * 2
    assert scenario.place[:2] == (tmp_path, tmp_path / "data")


def test_points_of_a_file_equal_those_of_its_data(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(sweep={"lppms.0.kind": ["SP-Exp", "MK-Exp"], "users.demand": ["every_visit", "poisson"]})
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(scenario.model_dump(mode="json", exclude_unset=True)))
    assert [p.scenario.canonical() for p in points(load(path))] == [p.scenario.canonical() for p in points(scenario)]


# ------------------------------------------------------------------------------------------------ chunks


def test_chunks_are_ordered_by_replication_then_by_point(make_scenario: MakeScenario) -> None:
    chunks = plan(make_scenario(replications=2, sweep={"seed": [1, 2]}))
    assert [(chunk.replications.start, chunk.point.index) for chunk in chunks] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(chunk.lppms == ("SP-Exp", "PEB-LH") for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 4


def test_replications_can_be_swept(make_scenario: MakeScenario) -> None:
    chunks = plan(make_scenario(sweep={"replications": [1, 3]}))
    assert [(chunk.point.index, chunk.replications.start) for chunk in chunks] == [(0, 0), (1, 0), (1, 1), (1, 2)]


def test_a_simulation_of_an_earlier_point_is_not_repeated(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(
        lppms=["SP-Exp", "SP-LH", "identity"],
        sweep={EPSILON: [1, 2], "lppms.SP-LH.design.reveal_probability": [0.1, 0.2, 0.3]},
    )
    run = [(chunk.point.values[EPSILON], *chunk.point.values.values(), chunk.lppms) for chunk in plan(scenario)]
    assert [entry[-1] for entry in run] == [("SP-Exp", "SP-LH", "identity"), ("SP-LH",), ("SP-LH",), ("SP-Exp",)]


@pytest.mark.parametrize(
    "path",
    [
        "seed",
        "users.queries",
        "training.others.count",
        "world.grid.rows",
        "record.expected",
        "markov_restart",
        "attacks",
    ],
)
def test_changes_of_users_attacks_or_records_repeat_all_lppms(path: str, make_scenario: MakeScenario) -> None:
    values: dict[str, list[Any]] = {
        "record.expected": [True, False],
        "markov_restart": ["never", "daily"],
        "attacks": [["markov"], []],
    }
    chunks = plan(make_scenario(sweep={path: values.get(path, [2, 3])}))
    assert [chunk.lppms for chunk in chunks] == [("SP-Exp", "PEB-LH")] * 2


def test_ids_depend_on_content(make_scenario: MakeScenario) -> None:
    """The same simulations have the same id in any scenario, except for the number of the point at its start."""
    base = make_scenario(replications=2)
    ids = [chunk.id for chunk in plan(base)]
    assert [chunk.id for chunk in plan(make_scenario(replications=2))] == ids
    assert [chunk.id for chunk in plan(make_scenario(replications=2, name="x", description="y"))] == ids
    assert [chunk.id for chunk in plan(make_scenario(replications=3))][:2] == ids, "more replications keep the first"
    assert not set(ids) & {chunk.id for chunk in plan(make_scenario(replications=2, seed=4))}
    assert not set(ids) & {chunk.id for chunk in plan(make_scenario(replications=2, lppms=["SP-Exp"]))}
    assert [chunk.id[:15] for chunk in plan(base)] == ["0000-0000-0000-", "0000-0001-0001-"]


def test_an_additional_value_does_not_change_other_chunks(make_scenario: MakeScenario) -> None:
    lppms = ["SP-Exp"]
    few = plan(make_scenario(lppms=lppms, sweep={EPSILON: [0.5, 1]}))
    appended = plan(make_scenario(lppms=lppms, sweep={EPSILON: [0.5, 1, 2]}))
    assert [chunk.id for chunk in appended][:2] == [chunk.id for chunk in few]
    inserted = plan(make_scenario(lppms=lppms, sweep={EPSILON: [0.1, 0.5, 1]}))
    assert [content(chunk) for chunk in inserted][1:] == [content(chunk) for chunk in few]


def test_ids_depend_on_the_order_of_training_sets(make_scenario: MakeScenario) -> None:
    sets = {"a": {"kind": "nothing"}, "b": {"kind": "others", "count": 2}}
    one, two = (plan(make_scenario(training=order)) for order in (sets, dict(reversed(sets.items()))))
    assert one[0].id != two[0].id


# ------------------------------------------------------------------------------------------------ joined replications


def ranges(chunks: Iterable[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.replications.start, chunk.replications.stop) for chunk in chunks]


def joining(scenario: Scenario, count: int) -> Plan:
    return Plan(tasks(points(scenario)), lambda _point, _lppms: ChunkSize(count))


def test_replications_are_joined(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(replications=7, sweep={"seed": [1, 2]})
    chunks = joining(scenario, 3).chunks()
    assert ranges(chunks) == [(0, 3), (0, 3), (3, 6), (3, 6), (6, 7), (6, 7)]
    assert [chunk.point.index for chunk in chunks] == [0, 1] * 3
    assert len({chunk.id for chunk in chunks}) == 6
    assert ranges(joining(scenario, 100).chunks()) == [(0, 7), (0, 7)]


def test_the_chunk_size_may_depend_on_point_and_lppms(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(replications=4, sweep={EPSILON: [0.5, 1]})
    plan = Plan(tasks(points(scenario)), lambda point, lppms: ChunkSize(4 if point.index else len(lppms)))
    assert [(chunk.point.index, *chunk.lppms) for chunk in plan.chunks()] == [
        (0, "SP-Exp", "PEB-LH"),
        (1, "SP-Exp"),
        (0, "SP-Exp", "PEB-LH"),
    ]


def test_a_chunk_is_found_by_its_id(make_scenario: MakeScenario) -> None:
    plan = joining(make_scenario(replications=5), 2)
    for chunk in plan.chunks():
        assert plan.named(chunk.id) == chunk
        assert plan.named(chunk.id[:-1] + ("0" if chunk.id[-1] != "0" else "1")) is None
    assert plan.named("0001-0000-0001-0123456789") is None
    assert plan.named("summary") is None
    alone = plan.alone(plan.chunks()[1], 3)
    assert (alone.replications, alone.lppms) == (range(3, 4), ("SP-Exp", "PEB-LH"))
    assert plan.named(alone.id) == alone
    fewer = joining(make_scenario(replications=3), 2)
    assert [fewer.named(chunk.id) is not None for chunk in plan.chunks()] == [True, False, False]


@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12)), min_size=1, max_size=4),
    chance=st.randoms(use_true_random=False),
)
def test_existing_chunks_stay_and_every_replication_is_in_one_chunk(
    steps: list[tuple[int, int]], chance: random.Random
) -> None:
    """Runs that stop at any time, with increasing numbers of replications and other chunk sizes."""
    existing: set[str] = set()
    count = 1
    for joined, more in steps:
        count += more
        plan = joining(scenario_of(count), joined)
        chunks = plan.chunks(existing=existing)
        ids = {chunk.id for chunk in chunks}
        assert sorted(r for chunk in chunks for r in chunk.replications) == list(range(count))
        assert existing <= ids
        existing |= {chunk.id for chunk in chunks if chance.random() < 0.5}
        assert {chunk.id for chunk in plan.chunks(existing=existing)} == ids, "finished chunks do not change ids"


@functools.cache
def scenario_of(replications: int) -> Scenario:
    return Scenario.model_validate(
        {
            "name": "s",
            "replications": replications,
            "world": {"grid": {"kind": "rectangle", "rows": 2, "cols": 2, "width_km": 1, "height_km": 1}},
            "users": {"count": 1, "queries": 2, "mobility": "favourites"},
            "lppms": ["SP-Exp"],
        }
    )


def test_overlapping_parts_are_refused(make_scenario: MakeScenario) -> None:
    plan = joining(make_scenario(replications=4), 2)
    whole = joining(make_scenario(replications=4), 3).chunks()
    for overlapping in (["0000-0000-0001", "0000-0000-0002"], ["0000-0000-0002", "0000-0002-0003"]):
        ids = [chunk.id for chunk in (*plan.chunks(), *whole) if chunk.id[:14] in overlapping]
        with raises_code(RequestError, "overlapping-parts") as error:
            plan.chunks(existing=ids)
        assert all(part in str(error.value) for part in ids)
    apart = [chunk.id for chunk in plan.chunks()]
    assert [chunk.id for chunk in plan.chunks(existing=apart)] == apart


def test_one_point_represents_those_that_differ_in_the_seed(make_scenario: MakeScenario) -> None:
    swept = points(make_scenario(sweep={"seed": [5, 6], "users.count": [1, 2], EPSILON: [1, 2]}))
    model = models(swept)
    by_values = {(p.values["seed"], p.values["users.count"]): model[p.setting].values for p in swept}
    assert {key: (values["seed"], values["users.count"]) for key, values in by_values.items()} == {
        (5, 1): (5, 1),
        (6, 1): (5, 1),
        (5, 2): (5, 2),
        (6, 2): (5, 2),
    }
