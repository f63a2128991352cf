"""Dotted paths: the locations they match, and the faults of paths that match none."""

from __future__ import annotations

import copy
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BeforeValidator, ConfigDict, Field

from sim.components.spec import Spec
from sim.scenario.reading.faults import Fault, Loc, ScenarioError
from sim.scenario.reading.paths import assign, combinations, expand, value_at
from tests.support import assert_fault, assert_faults


class Exponential(Spec):
    kind: Literal["exponential"] = "exponential"
    epsilon_per_km: float = 1.0


class Hiding(Spec):
    kind: Literal["hiding"] = "hiding"
    reveal: float = 0.5


class Own(Spec):
    model_config = ConfigDict(extra="allow")
    kind: Literal["own"] = "own"


class Mechanism(Spec):
    kind: str = "SP-Exp"
    name: str = ""
    design: Annotated[Exponential | Hiding | Own, Field(discriminator="kind")] = Exponential()


def _short(value: Any) -> Any:
    return {"kind": value, "name": value} if isinstance(value, str) else value


class World(Spec):
    rows: int = 3


class Toy(Spec):
    replications: int = 3
    world: World = World()
    other: World | None = None
    training: dict[str, World] = {}
    lppms: list[Annotated[Mechanism, BeforeValidator(_short)]] = [Mechanism(name="default")]


DATA: dict[str, Any] = {
    "lppms": [
        "SP-Exp",
        {"name": "h", "design": {"kind": "hiding"}},
        {"name": "PEB 0.5", "design": {"kind": "own", "theirs": 4}},
        {"name": "7"},
    ],
    "training": {"rich": {}, "scarce": {"rows": 9}},
}
MODEL = Toy.model_validate(DATA)


@pytest.mark.parametrize(
    ("path", "locs"),
    [
        ("replications", [("replications",)]),
        ("world.rows", [("world", "rows")]),
        ("other", [("other",)]),
        ("lppms", [("lppms",)]),
        ("lppms.0.design.epsilon_per_km", [("lppms", 0, "design", "epsilon_per_km")]),
        ("lppms.SP-Exp.design.epsilon_per_km", [("lppms", 0, "design", "epsilon_per_km")]),
        ("lppms.h.design.reveal", [("lppms", 1, "design", "reveal")]),
        ('lppms."PEB 0.5".design.theirs', [("lppms", 2, "design", "theirs")]),
        ("lppms.3.name", [("lppms", 3, "name")]),
        ("lppms.SP*.design", [("lppms", 0, "design")]),
        ('lppms."*B 0.5".design', [("lppms", 2, "design")]),
        ("lppms.*P*.design", [("lppms", 0, "design"), ("lppms", 2, "design")]),
        (
            "lppms.*.design.epsilon_per_km",
            [("lppms", 0, "design", "epsilon_per_km"), ("lppms", 3, "design", "epsilon_per_km")],
        ),
        ("lppms.*.design", [("lppms", i, "design") for i in range(4)]),
        ("training.*.rows", [("training", "rich", "rows"), ("training", "scarce", "rows")]),
        ("training.rich.rows", [("training", "rich", "rows")]),
    ],
)
def test_a_path_matches_locations(path: str, locs: list[Loc]) -> None:
    assert expand(MODEL, DATA, path) == locs


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("replicatons", ("the scenario has no 'replicatons' (did you mean 'replications'?)", "allowed: replications")),
        ("world.cols", ("`world` has no 'cols'", "allowed: rows")),
        ("lppms.9.name", ("`lppms` has no element '9'", "allowed: 0 to 3, SP-Exp, h, PEB 0.5, 7, *")),
        ("lppms.sp-ex.name", ("(did you mean 'SP-Exp'?)",)),
        ("lppms.-1.name", ("'-1'",)),
        ("lppms.7.name", ("'7'",)),
        (
            "lppms.*.design.epsilon",
            (
                "`lppms.*.design` has no 'epsilon' (did you mean 'epsilon_per_km'?)",
                "SP-Exp, h, PEB 0.5 and 7",
                "allowed: kind, epsilon_per_km, reveal and theirs",
            ),
        ),
        (
            "lppms.*.nope.epsilon",
            ("`lppms.*` has no 'nope'", "SP-Exp, h, PEB 0.5 and 7", "allowed: kind, name and design"),
        ),
        ("training.*.cols", ("`training.*` has no 'cols'", "rich and scarce", "allowed: rows")),
        ("lppms.*.design.kind.x", ("`lppms.0.design.kind` is text 'exponential'",)),
        ("replications.a", ("`replications` is 3",)),
        ("other.rows", ("`other` is nothing (null)", "{key: value}")),
        ("*.rows", ("`*`", "the scenario has fixed keys")),
        ("training.poor.rows", ("`training` has no 'poor'", "allowed: rich or scarce")),
        ("a\nb", ("no 'a\\nb'",)),
    ],
)
def test_an_unknown_path_is_refused(path: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ScenarioError) as error:
        expand(MODEL, DATA, path, where="f:1:2")
    (fault,) = error.value.faults
    assert (fault.where, fault.path, fault.code) == ("f:1:2", path, "unknown-path")
    assert all(word in fault.message for word in words), fault.message


@pytest.mark.parametrize("path", ["", "a..b", ".a", 'a."b'])
def test_an_invalid_path_is_refused(path: str) -> None:
    assert_faults(
        [fault_of({}, path)], (f"--set: {path} [invalid-path]" if path else "--set: [invalid-path]", repr(path))
    )


def fault_of(data: dict[str, Any], path: str) -> Fault:
    """Return the fault of a path into the data of a `Toy`."""
    with pytest.raises(ScenarioError) as error:
        expand(Toy.model_validate(data), data, path)
    (fault,) = error.value.faults
    return fault


def test_a_star_over_one_element_names_the_element() -> None:
    fault = fault_of({"lppms": ["a"]}, "lppms.*.design.nope")
    assert_fault(fault, "[unknown-path]", "`lppms.0.design`", "'nope'", "allowed: kind or epsilon_per_km")


def test_the_message_about_many_elements_is_short() -> None:
    keys = {f"{'k' * 300}{i}": i for i in range(100)}
    names = [f"{i}{'n' * 300}" for i in range(300)]
    data = {"lppms": [{"name": name, "design": {"kind": "own", **keys}} for name in names]}
    message = fault_of(data, "lppms.*.design.nope").message
    assert len(message) < 2000
    assert "and 295 more" in message
    assert message.endswith(" and 81 more")


def test_only_the_deepest_matching_elements_list_their_keys() -> None:
    data = {"lppms": [{"name": "a", "design": {"kind": "own", "deep": {"x": 1}}}, {"name": "b"}]}
    fault = fault_of(data, "lppms.*.design.deep.y")
    assert_fault(fault, "[unknown-path]", "`lppms.*.design.deep`", "'y'", "a and b")
    assert fault.message.endswith(": x")


def test_a_star_in_an_empty_mapping_is_refused() -> None:
    assert fault_of({}, "training.*.rows").code == "unknown-path"
    assert "`training` is empty" in fault_of({}, "training.*.rows").message


def test_an_element_of_a_default_list_cannot_be_set() -> None:
    with pytest.raises(ScenarioError) as error:
        expand(Toy(), {}, "lppms.0.name")
    assert_faults(error.value.faults, ("--set: lppms.0.name [list-not-in-file]", "`lppms`"))


@pytest.mark.parametrize(
    ("before", "loc", "after"),
    [
        ({}, ("a",), {"a": 9}),
        ({"a": 1, "b": 2}, ("a",), {"a": 9, "b": 2}),
        ({}, ("a", "b", "c"), {"a": {"b": {"c": 9}}}),
        ({"a": None}, ("a", "b"), {"a": {"b": 9}}),
        ({"a": ["x", "y"]}, ("a", 1, "b"), {"a": ["x", {"kind": "y", "b": 9}]}),
        ({"a": "x"}, ("a", "b", "c"), {"a": {"kind": "x", "b": {"c": 9}}}),
        ({"a": [1, 2]}, ("a", 1), {"a": [1, 9]}),
        ({"a": 1}, (), 9),
    ],
)
def test_assign(before: Any, loc: Loc, after: Any) -> None:
    original = copy.deepcopy(before)
    assert assign(before, loc, 9) == after
    assert before == original


@pytest.mark.parametrize("loc", [("a", 5), ("a", "x"), ("n", "x"), ("no", 0), ("a", 0, "x")])
def test_assign_refuses_a_location_that_does_not_fit_the_data(loc: Loc) -> None:
    with pytest.raises(ValueError, match=f"^{'.'.join(map(str, loc))} "):
        assign({"a": [1], "n": 3}, loc, 9)


def test_assign_shares_nothing() -> None:
    data, value = {"a": [1]}, [2]
    new = assign(data, ("b",), value)
    new["a"].append(5)
    new["b"].append(5)
    assert (data, value) == ({"a": [1]}, [2])


def test_assigned_values_reach_the_model() -> None:
    data: Any = DATA
    for loc in expand(MODEL, DATA, "lppms.*.design.epsilon_per_km"):
        data = assign(data, loc, 2.5, model=MODEL)
    designs = [mechanism.design for mechanism in Toy.model_validate(data).lppms]
    assert [getattr(design, "epsilon_per_km", None) for design in designs] == [2.5, None, None, 2.5]


def test_assign_writes_the_kind_of_a_default_component() -> None:
    loc = ("lppms", 0, "design", "epsilon_per_km")
    assert assign({"lppms": [{}]}, loc, 2, model=Toy()) == {
        "lppms": [{"design": {"kind": "exponential", "epsilon_per_km": 2}}]
    }
    written = {"lppms": [{"design": {"kind": "hiding"}}]}
    assert assign(written, loc, 2, model=Toy())["lppms"][0]["design"]["kind"] == "hiding", "the file wins"
    assert assign({}, ("world", "rows"), 2, model=Toy()) == {"world": {"rows": 2}}, "a mapping without a kind gets none"


steps = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(tuple)


@given(st.lists(st.tuples(steps, st.integers()), max_size=5), steps, st.integers())
def test_value_at_returns_the_assigned_value(writes: list[tuple[Loc, int]], loc: Loc, value: int) -> None:
    data: Any = {}
    for place, number in writes:
        if all(not isinstance(value_at(data, place[:i]), int) for i in range(1, len(place))):
            data = assign(data, place, number)
    if all(not isinstance(value_at(data, loc[:i]), int) for i in range(1, len(loc))):
        assert value_at(assign(data, loc, value), loc) == value


def test_combinations_are_in_file_order() -> None:
    assert [tuple(point.values()) for point in combinations({"b": [2, 1], "a": ["x", "y"]})] == [
        *((2, "x"), (2, "y")),
        *((1, "x"), (1, "y")),
    ]
    assert [list(point) for point in combinations({"b": [2], "a": ["x"]})] == [["b", "a"]]
    assert combinations({}) == [{}]
    with pytest.raises(ValueError, match=r"^sweep\b.*'a'"):
        combinations({"a": []})
