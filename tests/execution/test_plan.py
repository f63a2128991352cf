"""What is to be run: points, which simulations they share, and ids that resume by content."""

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

from sim.execution.plan import Chunk, Plan, tasks
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import ScenarioError
from sim.scenario.sweep import models, points
from sim.storage.errors import RequestError
from sim.storage.load import load
from tests.support import MakeScenario, plan

EPSILON = "lppms.*.design.epsilon_per_km"


def epsilons(scenario: Scenario) -> list[Any]:
    return [getattr(lppm.design, "epsilon_per_km", "none") for lppm in scenario.lppms]


def content(chunk: Chunk) -> str:
    """Return the part of an id that tells the content, without the number of the point."""
    return chunk.id.split("-", 1)[1]


def test_without_a_sweep_the_scenario_is_its_only_point(make_scenario: MakeScenario) -> None:
    scenario = make_scenario()
    (point,) = points(scenario)
    assert (point.index, point.values) == (0, {})
    assert point.scenario.canonical() == scenario.canonical()


def test_several_paths_multiply(make_scenario: MakeScenario) -> None:
    found = points(make_scenario(sweep={"users.count": [1, 2], "seed": [7, 8, 9]}))
    assert [point.index for point in found] == list(range(6))
    seeds_and_counts = [(point.scenario.seed, point.scenario.users.count) for point in found]
    assert seeds_and_counts == [(7, 1), (7, 2), (8, 1), (8, 2), (9, 1), (9, 2)]
    assert [point.values for point in found] == [{"seed": s, "users.count": c} for s, c in seeds_and_counts]
    assert all(point.scenario.sweep == {} for point in found)


def test_points_are_numbered_the_same_in_whatever_order_the_file_names_the_paths(make_scenario: MakeScenario) -> None:
    sweep: dict[str, Any] = {"users.count": [1, 2], "seed": [7, 8]}
    one, two = make_scenario(sweep=sweep), make_scenario(sweep=dict(reversed(sweep.items())))
    assert one.digest == two.digest
    assert [chunk.id for chunk in plan(one)] == [chunk.id for chunk in plan(two)]
    assert [point.values for point in points(one)] == [point.values for point in points(two)]


def test_a_wildcard_sets_all_that_have_the_parameter(make_scenario: MakeScenario) -> None:
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
    found = points(make_scenario(sweep=sweep, attacks=attacks))
    assert [read(point.scenario) for point in found] == expected


@pytest.mark.parametrize("written", ["SP-Exp", {"kind": "SP-Exp", "design": {"remap": False}}])
def test_a_swept_short_name_brings_all_that_it_stands_for(written: Any, make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=[written], sweep={"lppms.0.kind": ["SP-Exp", "PEB-Exp", "MK-LH"]})
    lppms = [point.scenario.lppms[0] for point in points(scenario)]
    assert [(lppm.name, lppm.belief.kind, lppm.design.kind) for lppm in lppms] == [
        ("SP-Exp", "fixed_profile", "exponential"),
        ("PEB-Exp", "estimated_profile", "exponential"),
        ("MK-LH", "markov_filter", "location_hiding"),
    ]
    assert len({getattr(lppm.design, "remap", None) for lppm in lppms}) == 1, "what was said stays"


def test_a_swept_short_attack_brings_all_that_it_stands_for(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(sweep={"attacks.1.kind": ["markov", "sporadic-trained"]})
    attacks = [point.scenario.attacks[1] for point in points(scenario)]
    assert [(attack.name, attack.knows) for attack in attacks] == [("markov", "test"), ("sporadic-trained", "training")]


def test_a_whole_component_and_a_part_of_it_can_both_be_swept(make_scenario: MakeScenario) -> None:
    sweep = {"lppms.0.design.remap": [True, False], "lppms.0.design": ["exponential", {"kind": "location_hiding"}]}
    lppm = {"name": "a", "belief": "fixed_profile", "design": "exponential"}
    found = [point.scenario.lppms[0].design for point in points(make_scenario(lppms=[lppm], sweep=sweep))]
    assert [(design.kind, getattr(design, "remap", None)) for design in found] == [
        ("exponential", True),
        ("exponential", False),
        ("location_hiding", True),
        ("location_hiding", False),
    ]


def test_a_path_that_leads_nowhere_is_refused_without_a_file_too(make_scenario: MakeScenario) -> None:
    with pytest.raises(ScenarioError, match=r"has no 'epsilon' \(did you mean 'epsilon_per_km'\?\)"):
        points(make_scenario(sweep={"lppms.*.design.epsilon": [1]}))


def test_points_find_their_files_where_the_scenario_did(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(sweep={"seed": [1, 2]}).at(tmp_path, tmp_path / "data")
    assert [point.scenario.place for point in points(scenario)] == [scenario.place] * 2
    assert scenario.place[:2] == (tmp_path, tmp_path / "data")


def test_points_from_a_file_are_those_from_its_data(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(sweep={"lppms.0.kind": ["SP-Exp", "MK-Exp"], "users.demand": ["every_visit", "poisson"]})
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(scenario.model_dump(mode="json", exclude_unset=True)))
    assert [p.scenario.canonical() for p in points(load(path))] == [p.scenario.canonical() for p in points(scenario)]


# ------------------------------------------------------------------------------------------------ chunks


def test_each_point_and_replication_is_a_chunk_replications_first(make_scenario: MakeScenario) -> None:
    chunks = plan(make_scenario(replications=2, sweep={"seed": [1, 2]}))
    assert [(chunk.replications.start, chunk.point.index) for chunk in chunks] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(chunk.lppms == ("SP-Exp", "PEB-LH") for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 4


def test_replications_can_be_swept(make_scenario: MakeScenario) -> None:
    chunks = plan(make_scenario(sweep={"replications": [1, 3]}))
    assert [(chunk.point.index, chunk.replications.start) for chunk in chunks] == [(0, 0), (1, 0), (1, 1), (1, 2)]


def test_a_simulation_that_an_earlier_point_has_run_is_not_run_again(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(
        lppms=["SP-Exp", "SP-LH", "identity"],
        sweep={EPSILON: [1, 2], "lppms.*.design.reveal_probability": [0.1, 0.2, 0.3]},
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
def test_what_changes_people_attacks_or_records_is_run_anew(path: str, make_scenario: MakeScenario) -> None:
    values: dict[str, list[Any]] = {
        "record.expected": [True, False],
        "markov_restart": ["never", "daily"],
        "attacks": [["markov"], []],
    }
    chunks = plan(make_scenario(sweep={path: values.get(path, [2, 3])}))
    assert [chunk.lppms for chunk in chunks] == [("SP-Exp", "PEB-LH")] * 2


def test_ids_tell_content(make_scenario: MakeScenario) -> None:
    """The same simulations have the same id in any scenario, up to the number of the point in front."""
    base = make_scenario(replications=2)
    ids = [chunk.id for chunk in plan(base)]
    assert [chunk.id for chunk in plan(make_scenario(replications=2))] == ids
    assert [chunk.id for chunk in plan(make_scenario(replications=2, name="x", description="y"))] == ids
    assert [chunk.id for chunk in plan(make_scenario(replications=3))][:2] == ids, "more replications keep the first"
    assert not set(ids) & {chunk.id for chunk in plan(make_scenario(replications=2, seed=4))}
    assert not set(ids) & {chunk.id for chunk in plan(make_scenario(replications=2, lppms=["SP-Exp"]))}
    assert [chunk.id[:15] for chunk in plan(base)] == ["0000-0000-0000-", "0000-0001-0001-"]


def test_one_more_value_leaves_the_other_chunks_as_they_were(make_scenario: MakeScenario) -> None:
    lppms = ["SP-Exp"]
    few = plan(make_scenario(lppms=lppms, sweep={EPSILON: [0.5, 1]}))
    appended = plan(make_scenario(lppms=lppms, sweep={EPSILON: [0.5, 1, 2]}))
    assert [chunk.id for chunk in appended][:2] == [chunk.id for chunk in few]
    inserted = plan(make_scenario(lppms=lppms, sweep={EPSILON: [0.1, 0.5, 1]}))
    assert [content(chunk) for chunk in inserted][1:] == [content(chunk) for chunk in few]


def test_ids_tell_which_training_set_is_the_first(make_scenario: MakeScenario) -> None:
    sets = {"a": {"kind": "nothing"}, "b": {"kind": "others", "count": 2}}
    one, two = (plan(make_scenario(training=order)) for order in (sets, dict(reversed(sets.items()))))
    assert one[0].id != two[0].id


# ------------------------------------------------------------------------------------------------ joined replications


def ranges(chunks: Iterable[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.replications.start, chunk.replications.stop) for chunk in chunks]


def joining(scenario: Scenario, count: int) -> Plan:
    return Plan(tasks(points(scenario)), lambda _point, _lppms: count)


def test_replications_are_joined(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(replications=7, sweep={"seed": [1, 2]})
    chunks = joining(scenario, 3).chunks()
    assert ranges(chunks) == [(0, 3), (0, 3), (3, 6), (3, 6), (6, 7), (6, 7)]
    assert [chunk.point.index for chunk in chunks] == [0, 1] * 3
    assert len({chunk.id for chunk in chunks}) == 6
    assert ranges(joining(scenario, 100).chunks()) == [(0, 7), (0, 7)]


def test_how_many_are_joined_is_asked_for_by_point_and_lppms(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(replications=4, sweep={EPSILON: [0.5, 1]})
    plan = Plan(tasks(points(scenario)), lambda point, lppms: 4 if point.index else lppms)
    assert [(chunk.point.index, *chunk.lppms) for chunk in plan.chunks()] == [
        (0, "SP-Exp", "PEB-LH"),
        (1, "SP-Exp"),
        (0, "SP-Exp", "PEB-LH"),
    ]


def test_an_id_leads_back_to_its_chunk(make_scenario: MakeScenario) -> None:
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
def test_what_is_there_is_kept_and_every_replication_is_in_one_chunk(
    steps: list[tuple[int, int]], chance: random.Random
) -> None:
    """Runs that are stopped anywhere, with ever more replications and other sizes of chunks."""
    there: set[str] = set()
    count = 1
    for joined, more in steps:
        count += more
        plan = joining(scenario_of(count), joined)
        chunks = plan.chunks(there=there)
        ids = {chunk.id for chunk in chunks}
        assert sorted(r for chunk in chunks for r in chunk.replications) == list(range(count))
        assert there <= ids
        there |= {chunk.id for chunk in chunks if chance.random() < 0.5}
        assert {chunk.id for chunk in plan.chunks(there=there)} == ids, "what is done meanwhile changes no name"


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


def test_parts_that_overlap_are_refused(make_scenario: MakeScenario) -> None:
    plan = joining(make_scenario(replications=4), 2)
    whole = joining(make_scenario(replications=4), 3).chunks()
    for there in (["0000-0000-0001", "0000-0000-0002"], ["0000-0000-0002", "0000-0002-0003"]):
        ids = [chunk.id for chunk in (*plan.chunks(), *whole) if chunk.id[:14] in there]
        with pytest.raises(RequestError, match=r"hold the same replications: .* Remove one of the two and run again"):
            plan.chunks(there=ids)
    apart = [chunk.id for chunk in plan.chunks()]
    assert [chunk.id for chunk in plan.chunks(there=apart)] == apart


def test_one_point_stands_for_those_that_differ_in_the_seed(make_scenario: MakeScenario) -> None:
    found = points(make_scenario(sweep={"seed": [5, 6], "users.count": [1, 2], EPSILON: [1, 2]}))
    model = models(found)
    by_values = {(p.values["seed"], p.values["users.count"]): model[p.setting].values for p in found}
    assert {key: (values["seed"], values["users.count"]) for key, values in by_values.items()} == {
        (5, 1): (5, 1),
        (6, 1): (5, 1),
        (5, 2): (5, 2),
        (6, 2): (5, 2),
    }
