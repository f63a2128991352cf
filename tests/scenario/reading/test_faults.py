"""From data to a model: every fault at once, each in plain words and at its place."""

from __future__ import annotations

import pickle
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator

from sim.components.spec import Many, Spec
from sim.components.wording import described, shown
from sim.scenario.reading.faults import Fault, ScenarioError, dotted
from sim.scenario.reading.source import Source, parse_text
from sim.scenario.reading.validation import validate


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(Spec):
    kind: Literal["inner"]
    level: Annotated[float, Field(ge=0, lt=1)] = 0.5


class Outer(Spec):
    kind: Literal["outer"]
    part: Annotated[Inner | Outer, Field(discriminator="kind")]
    inner: int = 0
    """Called as one of the kinds, on purpose."""


class Both(Spec):
    kind: Literal["both"]
    a: int | None = None
    b: int | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.a is not None and self.b is not None:
            raise ValueError("`a` and `b` exclude each other")
        return self


def _kind(value: Any) -> Any:
    return value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)


def _long(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


Part = Annotated[
    Annotated[Inner, Tag("inner")] | Annotated[Outer, Tag("outer")] | Annotated[Both, Tag("both")],
    Discriminator(_kind),
    BeforeValidator(_long),
]


class Named(Spec):
    kind: Literal["SP-Exp", "SP-LH"] | None = None
    name: str
    part: Part

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("kind") in ("SP-Exp", "SP-LH"):
            return {"name": value["kind"], "part": {"kind": "inner"}, **value}
        return value


class Toy(Spec):
    name: Annotated[str, Field(pattern="^[a-z]+$", min_length=2, max_length=8)] = "toy"
    count: Annotated[int, Field(ge=1, le=100)] = 1
    ratio: Annotated[float, Field(gt=0)] = 1.0
    even: Annotated[int, Field(multiple_of=2)] = 2
    flag: bool = False
    mode: Literal["fast", "slow"] = "fast"
    colour: Annotated[Colour, Field(strict=False)] = Colour.RED
    folder: Annotated[Path, Field(strict=False)] = Path()
    limit: Annotated[int, Field(ge=0)] | Literal["all", "none"] = "all"
    either: Inner | str = "x"
    maybe: Inner | None = None
    items: Annotated[list[int], Field(min_length=1, max_length=3)] = [1]
    many: Many[float] = ()
    table: dict[Annotated[str, Field(max_length=5)], int] = {}
    parts: list[Part] = []
    named: list[Annotated[Named, BeforeValidator(_long)]] = []
    one: Annotated[Inner | Outer, Field(discriminator="kind")] | None = None
    pair: Annotated[tuple[int, str], Field(strict=False)] = (1, "a")


def faults(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        validate(Toy, parse_text(text, "f"))
    return [str(fault) for fault in caught.value.faults]


def test_a_good_file_becomes_a_model() -> None:
    text = "{ratio: 2, many: [1, 2.5], colour: blue, folder: a/b, limit: 3, parts: [both, {kind: inner, level: 0}]}"
    toy = validate(Toy, parse_text(text, "f"))
    assert toy.ratio == 2.0
    assert toy.many == (1.0, 2.5)
    assert toy.colour is Colour.BLUE
    assert toy.folder == Path("a/b")
    assert toy.parts == [Both(kind="both"), Inner(kind="inner", level=0)]
    with pytest.raises(ValidationError, match="frozen"):
        toy.ratio = 3.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("count: '3'", "f:1:8: count: must be a whole number, found text '3'; remove the quotes"),
        ("count: abc", "f:1:8: count: must be a whole number, found text 'abc'"),
        ("count: 1_000", "f:1:8: count: must be a whole number, found text '1_000'"),
        ("count: true", "f:1:8: count: must be a whole number, found true"),
        ("count: 2.5", "f:1:8: count: must be a whole number, found 2.5"),
        ("count: 1e1", "f:1:8: count: must be a whole number, found 10.0; write 10"),
        ("count:", "f:1:7: count: must be a whole number, found nothing (null)"),
        ("count: [3]", "f:1:8: count: must be a whole number, found the list [3]"),
        ("count: 0", "f:1:8: count: must be at least 1, found 0"),
        ("count: 101", "f:1:8: count: must be at most 100, found 101"),
        ("even: 3", "f:1:7: even: must be a multiple of 2, found 3"),
        ("ratio: '1e-3'", "f:1:8: ratio: must be a number, found text '1e-3'; remove the quotes"),
        ("ratio: '3'", "f:1:8: ratio: must be a number, found text '3'; remove the quotes"),
        ("ratio: true", "f:1:8: ratio: must be a number, found true"),
        ("ratio: -1", "f:1:8: ratio: must be greater than 0, found -1"),
        ("ratio: .inf", "f:1:8: ratio: must be a finite number, found inf"),
        ("ratio: .nan", "f:1:8: ratio: must be a finite number, found nan"),
        ("ratio: 1e999", "f:1:8: ratio: must be a finite number, found inf"),
        ("flag: yes", "f:1:7: flag: must be true or false, found text 'yes'"),
        ("flag: 'true'", "f:1:7: flag: must be true or false, found text 'true'; remove the quotes"),
        ("flag: 1", "f:1:7: flag: must be true or false, found 1"),
        ("name: 12", "f:1:7: name: must be text, found 12; put it in quotes"),
        ("name: a", "f:1:7: name: must be text of 2 or more characters, found text 'a'"),
        ("name: abcdefghi", "f:1:7: name: must be text of 8 or fewer characters, found text 'abcdefghi'"),
        ("name: A B", "f:1:7: name: must be text that matches ^[a-z]+$, found text 'A B'"),
        ("mode: fats", "f:1:7: mode: found text 'fats' (did you mean 'fast'?), must be one of fast, slow"),
        ("mode: 3", "f:1:7: mode: must be one of fast, slow, found 3"),
        ("colour: rde", "f:1:9: colour: found text 'rde' (did you mean 'red'?), must be one of red, blue"),
        ("folder: 3", "f:1:9: folder: must be text, found 3; put it in quotes"),
        ("items: 3", "f:1:8: items: must be a list, found 3; write [3]"),
        ("items: {a: 1}", "f:1:1: items: must be a list, found the mapping {'a': 1}"),
        ("items: []", "f:1:8: items: must be a list of 1 or more, found 0: []"),
        ("items: [1, 2, 3, 4]", "f:1:8: items: must be a list of 3 or fewer, found 4: [1, 2, 3, 4]"),
        ("items: [1, '2']", "f:1:12: items.1: must be a whole number, found text '2'; remove the quotes"),
        ("many: 3", "f:1:7: many: must be a list, found 3; write [3]"),
        ("many: [1, '2']", "f:1:11: many.1: must be a number, found text '2'; remove the quotes"),
        ("pair: [1, 2]", "f:1:11: pair.1: must be text, found 2; put it in quotes"),
        ("table: 3", "f:1:8: table: must be a mapping (key: value), found 3"),
        ("table: {a: b}", "f:1:12: table.a: must be a whole number, found text 'b'"),
        ("table: {abcdef: 1}", "f:1:9: table.abcdef: must be text of 5 or fewer characters, found text 'abcdef'"),
        ("maybe: 3", "f:1:8: maybe: must be a mapping (key: value), found 3"),
        ("maybe: {}", "f:1:1: maybe.kind: this key is required, but missing; required here: kind"),
        # unions: one fault, not one for each member
        ("limit: x", "f:1:8: limit: must be a whole number or one of all, none, found text 'x'"),
        (
            "limit: non",
            "f:1:8: limit: found text 'non' (did you mean 'none'?), must be a whole number or one of all, none",
        ),
        ("limit: -1", "f:1:8: limit: must be at least 0, found -1"),
        ("either: 3", "f:1:9: either: must be a mapping (key: value) or text, found 3; put it in quotes"),
        ("either: {kind: inner, level: 2}", "f:1:30: either.level: must be less than 1, found 2"),
        # kinds
        (
            "one: {kind: innr}",
            "f:1:13: one.kind: unknown kind, found 'innr' (did you mean 'inner'?); allowed: inner, outer",
        ),
        ("one: {}", "f:1:1: one.kind: this key is required, but missing; allowed: inner, outer"),
        ("one: 3", "f:1:6: one: must be a mapping (key: value), found 3"),
        ("one:\n  kind: 3", "f:2:9: one.kind: unknown kind, found '3'; allowed: inner, outer"),
        (
            "parts: [inner, outr]",
            "f:1:16: parts.1: unknown kind, found 'outr' (did you mean 'outer'?); allowed: inner, outer, both",
        ),
        (
            "parts: [3]",
            "f:1:9: parts.0: must be a kind, or a mapping with a kind, found 3; allowed: inner, outer, both",
        ),
        ("parts: [{level: 3}]", "f:1:9: parts.0.kind: this key is required, but missing; allowed: inner, outer, both"),
        ("parts: [outer]", "f:1:9: parts.0.part: this key is required, but missing; required here: kind and part"),
        ("parts: [{kind: both, a: 1, b: 2}]", "f:1:9: parts.0: `a` and `b` exclude each other"),
        ("parts: [{kind: both, c: 1}]", "f:1:22: parts.0.c: unknown key; allowed: kind, a, b"),
        ("named: [SP-Ex]", "f:1:9: named.0: found text 'SP-Ex' (did you mean 'SP-Exp'?), must be one of SP-Exp, SP-LH"),
        (
            "named: [{kind: SP-Exp, part: bth}]",
            "f:1:30: named.0.part: unknown kind, found 'bth' (did you mean 'both'?); allowed: inner, outer, both",
        ),
        # a kind that is called as a key: the labels in pydantic's locations are told apart
        (
            "one: {kind: outer, inner: x, part: {kind: inner}}",
            "f:1:27: one.inner: must be a whole number, found text 'x'",
        ),
        (
            "one: {kind: outer, part: {kind: outer, part: {kind: inner, level: 3}}}",
            "f:1:67: one.part.part.level: must be less than 1, found 3",
        ),
        (
            "one: {kind: outer, part: {kind: inner, levl: 3}}",
            "f:1:40: one.part.levl: unknown key (did you mean 'level'?); allowed: kind, level",
        ),
        ("cuont: 3", None),
    ],
)
def test_one_fault(text: str, fault: str | None) -> None:
    if fault is None:
        fields = ", ".join(Toy.model_fields)
        fault = f"f:1:1: cuont: unknown key (did you mean 'count'?); allowed: {fields}"
    assert faults(text) == [fault]


def test_all_faults_come_at_once_in_order() -> None:
    text = """\
flag: yes
count: '3'
parts:
  - both
  - kind: inner
    level: 7
  - kind: outr
count: 4
nmae: x
"""
    said = faults(text)
    assert [line.split(": ")[:2] for line in said] == [
        ["f:1:7", "flag"],
        ["f:2:8", "count"],
        ["f:6:12", "parts.1.level"],
        ["f:7:11", "parts.2.kind"],
        ["f:8:1", "count"],
        ["f:9:1", "nmae"],
    ]
    assert "given twice: first in line 2, column 1" in said[4]


def test_faults_in_a_good_model_are_raised_all_the_same() -> None:
    assert faults("count: 1\ncount: 2") == ["f:2:1: count: this key is given twice: first in line 1, column 1"]


def test_findings_join_the_faults() -> None:
    source = parse_text("count: 1\nratio: -1\nmode: fast", "f")
    with pytest.raises(ScenarioError) as caught:
        validate(Toy, source, findings=[(("mode",), "does not go with count")])
    assert str(caught.value).splitlines() == [
        "f:2:8: ratio: must be greater than 0, found -1",
        "f:3:7: mode: does not go with count",
    ]


def test_a_value_that_was_set_is_blamed_on_its_origin() -> None:
    source = parse_text("maybe: {kind: inner}", "f").overlay(("maybe", "level"), 5, "--set maybe.level")
    with pytest.raises(ScenarioError, match=r"^--set maybe\.level: maybe\.level: must be less than 1, found 5$"):
        validate(Toy, source)


def test_the_context_reaches_the_validators() -> None:
    seen = []

    class Curious(Spec):
        a: int

        @model_validator(mode="before")
        @classmethod
        def _look(cls, value: Any, info: Any) -> Any:
            seen.append(info.context["folder"])
            return value

    assert validate(Curious, parse_text("a: 1", "f"), context={"folder": "here"}).a == 1
    assert seen == ["here"]


def test_a_union_without_kinds_speaks_for_the_members_that_know_the_key() -> None:
    class First(Spec):
        a: int

    class Second(Spec):
        b: int

    class Holder(Spec):
        either: First | Second

    with pytest.raises(ScenarioError) as caught:
        validate(Holder, parse_text("either: {a: x}", "f"))
    assert str(caught.value).splitlines() == [
        "f:1:1: either.b: this key is required, but missing; required here: b",
        "f:1:13: either.a: must be a whole number, found text 'x'",
    ]


def test_what_was_found_is_short_and_on_one_line() -> None:
    (fault,) = faults('count: "' + "\\n\\e" * 500 + '"')
    assert len(fault) < 150
    assert fault.isprintable()
    (fault,) = faults('"a\\nb\\u202e": 1')
    assert fault.isprintable()


def test_attribute_docstrings_reach_the_schema() -> None:
    assert Outer.model_json_schema()["$defs"]["Outer"]["properties"]["inner"]["description"].startswith("Called")


def test_errors_sort_by_place_and_survive_pickling() -> None:
    places = ["f:10:1", "f:9:12", "f:9:2", "--set"]
    error = ScenarioError(Fault(where, "a", "wrong") for where in [*places, "f:9:2"])
    assert [fault.where for fault in error.faults] == ["--set", "f:9:2", "f:9:12", "f:10:1"]
    again = pickle.loads(pickle.dumps(error))
    assert again.faults == error.faults
    assert str(again) == str(error)


def test_small_words() -> None:
    assert str(Fault("f", "", "gone")) == "f: gone"
    assert dotted(("a", 0, "b.c", "")) == 'a.0."b.c".""'
    assert shown(False) == "false"
    assert len(shown(list(range(1000)))) == 60
    assert described({"a": 1}) == "the mapping {'a': 1}"


values = st.recursive(
    st.sampled_from([None, True, 3, -1, 2.5, "x", "inner", "outer", "both", "SP-Exp", "3", "all"]),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "part", "level", "inner", "a", "b", "name", "x"]), inside, max_size=4
        )
    ),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from([*Toy.model_fields, "other"]), values, max_size=4))
def test_any_data_is_valid_or_refused_with_places_in_the_data(data: dict[str, Any]) -> None:
    for fault in _faults_or_none(data):
        assert fault.path.split(".")[0] in data
        assert "[" not in fault.path, "no label of pydantic's is left in a path"


def _faults_or_none(data: dict[str, Any]) -> list[Fault]:
    try:
        validate(Toy, Source(name="f", data=data))
    except ScenarioError as error:
        return error.faults or pytest.fail("an error without a fault")
    return []


def test_many_faults_are_counted() -> None:
    error = ScenarioError(Fault(f"x.yaml:{line}:1", "lppms", "wrong") for line in range(1, 130))
    assert len(error.faults) == 129
    assert str(error).splitlines()[-2:] == ["x.yaml:50:1: lppms: wrong", "and 79 more faults"]
