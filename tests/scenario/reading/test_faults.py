"""Validation of data: all faults are reported together, each with its place, a code and a clear message."""

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
from sim.errors import InvalidValue
from sim.scenario.reading.faults import Fault, Finding, ScenarioError, dotted
from sim.scenario.reading.source import Source, parse_text
from sim.scenario.reading.validation import validate
from tests.support import assert_faults


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
    """Name of one of the kinds, on purpose."""


class Both(Spec):
    kind: Literal["both"]
    a: int | None = None
    b: int | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.a is not None and self.b is not None:
            raise InvalidValue("`a` and `b` exclude each other", code="exclusive-keys")
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


def faults(text: str) -> list[Fault]:
    """Return the faults of a text as data of a `Toy`."""
    with pytest.raises(ScenarioError) as error:
        validate(Toy, parse_text(text, "f"))
    return error.value.faults


def test_a_valid_file_becomes_a_model() -> None:
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
        ("count: '3'", ("f:1:8: count [wrong-type]", "text '3'", "must be a whole number", "remove the quotes")),
        ("count: abc", ("f:1:8: count [wrong-type]", "text 'abc'", "must be a whole number")),
        ("count: 1_000", ("f:1:8: count [wrong-type]", "text '1_000'", "must be a whole number")),
        ("count: true", ("f:1:8: count [wrong-type]", "true", "must be a whole number")),
        ("count: 2.5", ("f:1:8: count [wrong-type]", "2.5", "must be a whole number")),
        ("count: 1e1", ("f:1:8: count [wrong-type]", "10.0", "write 10", "must be a whole number")),
        ("count:", ("f:1:7: count [wrong-type]", "nothing (null)", "must be a whole number")),
        ("count: [3]", ("f:1:8: count [wrong-type]", "the list [3]", "must be a whole number")),
        ("count: 0", ("f:1:8: count [out-of-range]", "0", "at least 1")),
        ("count: 101", ("f:1:8: count [out-of-range]", "101", "at most 100")),
        ("even: 3", ("f:1:7: even [out-of-range]", "3", "multiple of 2")),
        ("ratio: '1e-3'", ("f:1:8: ratio [wrong-type]", "text '1e-3'", "must be a number", "remove the quotes")),
        ("ratio: '3'", ("f:1:8: ratio [wrong-type]", "text '3'", "must be a number", "remove the quotes")),
        ("ratio: true", ("f:1:8: ratio [wrong-type]", "true", "must be a number")),
        ("ratio: -1", ("f:1:8: ratio [out-of-range]", "-1", "greater than 0")),
        ("ratio: .inf", ("f:1:8: ratio [out-of-range]", "inf")),
        ("ratio: .nan", ("f:1:8: ratio [out-of-range]", "nan")),
        ("ratio: 1e999", ("f:1:8: ratio [out-of-range]", "inf")),
        ("flag: yes", ("f:1:7: flag [wrong-type]", "text 'yes'", "must be true or false")),
        ("flag: 'true'", ("f:1:7: flag [wrong-type]", "text 'true'", "must be true or false", "remove the quotes")),
        ("flag: 1", ("f:1:7: flag [wrong-type]", "1", "must be true or false")),
        ("name: 12", ("f:1:7: name [wrong-type]", "12", "must be text", "put it in quotes")),
        ("name: a", ("f:1:7: name [wrong-length]", "text 'a'", "2 or more", "must be text")),
        ("name: abcdefghi", ("f:1:7: name [wrong-length]", "text 'abcdefghi'", "8 or fewer", "must be text")),
        ("name: A B", ("f:1:7: name [invalid-name]", "text 'A B'", "must be text")),
        ("mode: fats", ("f:1:7: mode [unknown-value]", "text 'fats'", "did you mean 'fast'", "one of fast, slow")),
        ("mode: 3", ("f:1:7: mode [unknown-value]", "3", "one of fast, slow")),
        ("colour: rde", ("f:1:9: colour [unknown-value]", "text 'rde'", "did you mean 'red'", "one of red, blue")),
        ("folder: 3", ("f:1:9: folder [wrong-type]", "3", "must be text", "put it in quotes")),
        ("items: 3", ("f:1:8: items [wrong-type]", "3", "write [3]", "must be a list")),
        ("items: {a: 1}", ("f:1:1: items [wrong-type]", "the mapping {'a': 1}", "must be a list")),
        ("items: []", ("f:1:8: items [wrong-length]", "0", "1 or more", "must be a list")),
        ("items: [1, 2, 3, 4]", ("f:1:8: items [wrong-length]", "4", "3 or fewer", "must be a list")),
        (
            "items: [1, '2']",
            ("f:1:12: items.1 [wrong-type]", "text '2'", "must be a whole number", "remove the quotes"),
        ),
        ("many: 3", ("f:1:7: many [wrong-type]", "3", "write [3]", "must be a list")),
        ("many: [1, '2']", ("f:1:11: many.1 [wrong-type]", "text '2'", "must be a number", "remove the quotes")),
        ("pair: [1, 2]", ("f:1:11: pair.1 [wrong-type]", "2", "must be text", "put it in quotes")),
        ("table: 3", ("f:1:8: table [wrong-type]", "3", "must be a mapping (key: value)")),
        ("table: {a: b}", ("f:1:12: table.a [wrong-type]", "text 'b'", "must be a whole number")),
        ("table: {abcdef: 1}", ("f:1:9: table.abcdef [wrong-length]", "text 'abcdef'", "5 or fewer", "must be text")),
        ("maybe: 3", ("f:1:8: maybe [wrong-type]", "3", "must be a mapping (key: value)")),
        ("maybe: {}", ("f:1:1: maybe.kind [missing-key]", "kind")),
        # unions: one fault, not one per member
        ("limit: x", ("f:1:8: limit [wrong-type]", "text 'x'", "one of all, none", "must be a whole number or one")),
        (
            "limit: non",
            (
                "f:1:8: limit [wrong-type]",
                "text 'non'",
                "did you mean 'none'",
                "one of all, none",
                "must be a whole number or one",
            ),
        ),
        ("limit: -1", ("f:1:8: limit [out-of-range]", "-1", "at least 0")),
        (
            "either: 3",
            ("f:1:9: either [wrong-type]", "3", "must be a mapping (key: value) or text", "put it in quotes"),
        ),
        ("either: {kind: inner, level: 2}", ("f:1:30: either.level [out-of-range]", "2", "less than 1")),
        # kinds
        (
            "one: {kind: innr}",
            ("f:1:13: one.kind [unknown-kind]", "'innr'", "did you mean 'inner'", "inner, outer"),
        ),
        ("one: {}", ("f:1:1: one.kind [missing-key]", "inner, outer")),
        ("one: 3", ("f:1:6: one [wrong-type]", "3", "must be a mapping (key: value)")),
        ("one:\n  kind: 3", ("f:2:9: one.kind [unknown-kind]", "'3'", "inner, outer")),
        (
            "parts: [inner, outr]",
            ("f:1:16: parts.1 [unknown-kind]", "'outr'", "did you mean 'outer'", "inner, outer, both"),
        ),
        (
            "parts: [3]",
            ("f:1:9: parts.0 [wrong-type]", "3", "inner, outer, both"),
        ),
        ("parts: [{level: 3}]", ("f:1:9: parts.0.kind [missing-key]", "inner, outer, both")),
        ("parts: [outer]", ("f:1:9: parts.0.part [missing-key]", "kind and part")),
        ("parts: [{kind: both, a: 1, b: 2}]", ("f:1:9: parts.0 [exclusive-keys]", "`a`", "`b`")),
        ("parts: [{kind: both, c: 1}]", ("f:1:22: parts.0.c [unknown-key]", "kind, a, b")),
        (
            "named: [SP-Ex]",
            ("f:1:9: named.0 [unknown-kind]", "text 'SP-Ex'", "did you mean 'SP-Exp'", "one of SP-Exp, SP-LH"),
        ),
        (
            "named: [{kind: SP-Exp, part: bth}]",
            ("f:1:30: named.0.part [unknown-kind]", "'bth'", "did you mean 'both'", "inner, outer, both"),
        ),
        # a kind with the name of a key: labels in pydantic's locations are distinguished from keys
        (
            "one: {kind: outer, inner: x, part: {kind: inner}}",
            ("f:1:27: one.inner [wrong-type]", "text 'x'", "must be a whole number"),
        ),
        (
            "one: {kind: outer, part: {kind: outer, part: {kind: inner, level: 3}}}",
            ("f:1:67: one.part.part.level [out-of-range]", "3", "less than 1"),
        ),
        (
            "one: {kind: outer, part: {kind: inner, levl: 3}}",
            ("f:1:40: one.part.levl [unknown-key]", "did you mean 'level'", "kind, level"),
        ),
        ("cuont: 3", ("f:1:1: cuont [unknown-key]", "did you mean 'count'", f"allowed: {', '.join(Toy.model_fields)}")),
    ],
)
def test_one_fault(text: str, fault: tuple[str, ...]) -> None:
    assert_faults(faults(text), fault)


def test_all_faults_are_reported_together_in_order() -> None:
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
    assert_faults(
        faults(text),
        ("f:1:7: flag [wrong-type]",),
        ("f:2:8: count [wrong-type]",),
        ("f:6:12: parts.1.level [out-of-range]",),
        ("f:7:11: parts.2.kind [unknown-kind]",),
        ("f:8:1: count [duplicate-key]", "line 2, column 1"),
        ("f:9:1: nmae [unknown-key]",),
    )


def test_faults_of_the_file_are_raised_for_a_valid_model() -> None:
    assert_faults(faults("count: 1\ncount: 2"), ("f:2:1: count [duplicate-key]", "line 1, column 1"))


def test_findings_are_reported_with_the_faults() -> None:
    source = parse_text("count: 1\nratio: -1\nmode: fast", "f")
    with pytest.raises(ScenarioError) as error:
        validate(Toy, source, findings=[Finding(("mode",), "does not go with count", "wrong-mode")])
    assert_faults(error.value.faults, ("f:2:8: ratio [out-of-range]", "-1"), ("f:3:7: mode [wrong-mode]", "count"))
    assert error.value.codes == ["out-of-range", "wrong-mode"]
    assert error.value.with_code() == str(error.value)
    assert str(error.value).splitlines()[1] == "f:3:7: mode: does not go with count [wrong-mode]"


def test_the_code_of_a_validators_error_reaches_the_fault() -> None:
    class Coded(Spec):
        a: int

        @model_validator(mode="after")
        def _even(self) -> Self:
            if self.a % 2:
                raise InvalidValue("`a` must be even", code="odd-number")
            return self

    with pytest.raises(ScenarioError) as error:
        validate(Coded, parse_text("a: 1", "f"))
    assert_faults(error.value.faults, ("f:1:1: [odd-number]", "`a`"))


def test_the_place_of_a_set_value_is_its_origin() -> None:
    source = parse_text("maybe: {kind: inner}", "f").overlay(("maybe", "level"), 5, "--set maybe.level")
    with pytest.raises(ScenarioError) as error:
        validate(Toy, source)
    assert_faults(error.value.faults, ("--set maybe.level: maybe.level [out-of-range]", "less than 1", "5"))


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


def test_a_union_without_kinds_reports_the_members_that_have_the_key() -> None:
    class First(Spec):
        a: int

    class Second(Spec):
        b: int

    class Holder(Spec):
        either: First | Second

    with pytest.raises(ScenarioError) as error:
        validate(Holder, parse_text("either: {a: x}", "f"))
    assert_faults(
        error.value.faults,
        ("f:1:1: either.b [missing-key]", "required here: b"),
        ("f:1:13: either.a [wrong-type]", "a whole number", "'x'"),
    )


def test_values_in_messages_are_short_and_on_one_line() -> None:
    (fault,) = faults('count: "' + "\\n\\e" * 500 + '"')
    assert len(str(fault)) < 150
    assert str(fault).isprintable()
    (fault,) = faults('"a\\nb\\u202e": 1')
    assert str(fault).isprintable()


def test_attribute_docstrings_reach_the_schema() -> None:
    assert Outer.model_json_schema()["$defs"]["Outer"]["properties"]["inner"]["description"].startswith("Name of")


def test_errors_sort_by_place_and_survive_pickling() -> None:
    places = ["f:10:1", "f:9:12", "f:9:2", "--set"]
    error = ScenarioError(Fault(where, "a", "wrong", "invalid-value") for where in [*places, "f:9:2"])
    assert [fault.where for fault in error.faults] == ["--set", "f:9:2", "f:9:12", "f:10:1"]
    again = pickle.loads(pickle.dumps(error))
    assert again.faults == error.faults
    assert str(again) == str(error)


def test_formatting_of_faults_paths_and_values() -> None:
    assert str(Fault("f", "", "gone", "no-file")) == "f: gone [no-file]"
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
def test_faults_of_any_data_have_a_path_in_the_data(data: dict[str, Any]) -> None:
    for fault in _faults_or_none(data):
        assert fault.path.split(".")[0] in data
        assert "[" not in fault.path, "paths contain no labels of pydantic"


def _faults_or_none(data: dict[str, Any]) -> list[Fault]:
    try:
        validate(Toy, Source(name="f", data=data))
    except ScenarioError as error:
        return error.faults or pytest.fail("an error without a fault")
    return []


def test_the_number_of_listed_faults_is_limited() -> None:
    error = ScenarioError(Fault(f"x.yaml:{line}:1", "lppms", "wrong", "bad") for line in range(1, 130))
    assert len(error.faults) == 129
    assert str(error).splitlines()[-2:] == ["x.yaml:50:1: lppms: wrong [bad]", "and 79 more faults"]
