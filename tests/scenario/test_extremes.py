"""Extreme input: kinds of any type, numbers of any size and misspelt names are refused with a clear message."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sim.attack import bayesian, identification
from sim.components.registry import FAMILIES, registry
from sim.components.spec import SMALLEST, Spec
from sim.scenario.lppms import short_names
from sim.scenario.reading.faults import Fault, ScenarioError
from sim.scenario.reading.paths import assign
from sim.scenario.reference import SECTIONS
from sim.storage.load import load

FULL: dict[str, Any] = {
    "world": {
        "grid": {"kind": "san_francisco"},
        "roads": {"kind": "lattice"},
        "privacy_distance": {"kind": "manhattan"},
        "quality_distance": {"kind": "manhattan"},
    },
    "users": {"count": 3, "queries": 20, "mobility": {"kind": "favourites"}, "demand": {"kind": "every_visit"}},
    "training": {"others": {"kind": "others", "mobility": {"kind": "markov"}, "demand": {"kind": "periodic"}}},
    "lppms": [{"kind": "PEB-Exp", "belief": {"forget": {"window": 5}}, "design": {"kind": "exponential"}}],
    "attacks": [{"kind": "markov", "belief": {"kind": "markov_filter"}, "assumes": {"kind": "exponential"}}, "path"],
    "shifts": [{"kind": "relocate", "at_query": 5}],
    "record": {"log": "queries"},
}
COMPONENTS: tuple[tuple[str | int, ...], ...] = (
    ("lppms", 0),
    ("lppms", 0, "belief"),
    ("lppms", 0, "design"),
    ("attacks", 0),
    ("attacks", 0, "belief"),
    ("attacks", 0, "assumes"),
    ("attacks", 1),
    ("world", "grid"),
    ("world", "roads"),
    ("world", "privacy_distance"),
    ("world", "quality_distance"),
    ("users", "mobility"),
    ("users", "demand"),
    ("training", "others"),
    ("training", "others", "mobility"),
    ("training", "others", "demand"),
    ("shifts", 0),
)
INVALID_KINDS: tuple[Any, ...] = (
    ["a", "b"],
    [],
    [["a"]],
    {"x": 1},
    {},
    {"a": {"b": []}},
    3,
    2.5,
    True,
    "",
    "x" * 5000,
    "\x1b[31m",
    "a:b:c",
)


def faults_of(data: dict[str, Any], folder: Path) -> list[Fault]:
    """Return the faults of a scenario given as data."""
    path = folder / "s.yaml"
    path.write_text(json.dumps(data))
    with pytest.raises(ScenarioError) as error:
        load(path)
    return error.value.faults


@pytest.mark.parametrize("names", ["known", "hidden"])
@pytest.mark.parametrize("log", ["queries", "summary"])
@pytest.mark.parametrize("place", COMPONENTS, ids=lambda place: ".".join(map(str, place)))
def test_a_kind_of_any_type_is_a_fault_with_its_place(
    place: tuple[str | int, ...], log: str, names: str, tmp_path: Path
) -> None:
    for kind in INVALID_KINDS:
        base = FULL | {"names": names, "record": log}  # the rules between parts read kinds too
        data = assign(base, (*place, "kind"), kind)
        faults = faults_of(data, tmp_path)
        own = ".".join(map(str, place[:2]))
        assert any(fault.path.startswith(own) for fault in faults), (kind, faults)
        assert all(fault.where.startswith(str(tmp_path)) and len(str(fault)) < 2000 for fault in faults)
        # If every attack needs a channel, the rules read the kind of each LPPM.
        if place[0] == "lppms":
            assert faults_of(assign(data, ("attacks",), ["sporadic"]), tmp_path)


@pytest.mark.parametrize("value", [["queries"], {"a": 1}, 3, None, True, "x" * 5000])
@pytest.mark.parametrize("place", [("record",), ("record", "log"), ("lppms",), ("attacks",), ("training",)])
def test_parts_of_any_type_are_faults(place: tuple[str, ...], value: Any, tmp_path: Path) -> None:
    assert faults_of(assign(FULL, place, value), tmp_path)


def floats() -> Iterator[tuple[str, type[Spec], str, bool]]:
    """Yield each key of each model whose value is a float or a list of floats."""
    models = {f"{family}.{kind}": spec for family in FAMILIES for kind, spec in registry.kinds(family).items()}
    for name, spec in (models | {name: spec for name, (_, spec) in SECTIONS.items()}).items():
        schema = spec.model_json_schema()
        schema = schema["$defs"][spec.__name__] if "$ref" in schema else schema
        for key, value in schema["properties"].items():
            for option in (value, *value.get("anyOf", [])):
                if option.get("type") == "number":
                    yield f"{name}.{key}", spec, key, False
                if option.get("type") == "array" and option["items"].get("type") == "number":
                    yield f"{name}.{key}", spec, key, True


@pytest.mark.parametrize(("name", "spec", "key", "listed"), [pytest.param(*row, id=row[0]) for row in floats()])
def test_subnormal_numbers_are_refused_for_every_key(name: str, spec: type[Spec], key: str, listed: bool) -> None:
    del name
    for number in (1e-320, 5e-324, 1e-308, -1e-320, 0.99 * SMALLEST):
        value = [number] if listed else number
        with pytest.raises(ValidationError, match=key) as error:
            spec.model_validate({key: value})
        assert any(detail["loc"][0] == key for detail in error.value.errors())


def test_the_full_scenario_is_valid(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(json.dumps(FULL))
    load(tmp_path / "s.yaml")


def test_minus_zero_is_zero(tmp_path: Path) -> None:
    digests = []
    for zero in (0.0, -0.0):
        path = tmp_path / "s.yaml"
        path.write_text(json.dumps(FULL | {"lppms": [{"kind": "SP-Exp", "design": {"epsilon_per_km": zero}}]}))
        digests.append(load(path).digest)
    assert digests[0] == digests[1]


def misspelt(name: str) -> list[str]:
    """Return a name in upper case, in lower case, and with two letters swapped."""
    at = max(len(name) // 2, 1)
    swapped = name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :]
    same = name.upper(), name.lower()
    return [wrong for wrong in (*same, *([swapped] if len(name) > 3 else [])) if wrong != name]


KINDS_AT: dict[str, list[str]] = {
    "lppms.0": list(short_names()),
    "attacks.0": [*bayesian.SHORT_NAMES, "face-value", *identification.SHORT_NAMES],
    "world.grid": list(registry.kinds("grid")),
    "world.roads": list(registry.kinds("roads")),
    "world.privacy_distance": list(registry.kinds("distance")),
    "users.mobility": [kind for kind in registry.kinds("mobility") if ":" not in kind],
    "users.demand": [kind for kind in registry.kinds("demand") if ":" not in kind],
    "training.others": list(registry.kinds("training")),
    "lppms.0.belief": [kind for kind in registry.kinds("belief") if ":" not in kind],
    "lppms.0.design": [kind for kind in registry.kinds("design") if ":" not in kind],
}


@pytest.mark.parametrize("place", KINDS_AT)
def test_the_suggestion_comes_before_the_list_of_kinds(place: str, tmp_path: Path) -> None:
    names = KINDS_AT[place]
    loc = tuple(int(step) if step.isdigit() else step for step in place.split("."))
    base = FULL | {"lppms": [{"name": "x", "belief": "fixed_profile", "design": "exponential"}]}
    for name, mapping in itertools.product(names, (False, True)):
        for wrong in misspelt(name):
            if wrong in names:
                continue
            faults = faults_of(assign(base, loc, {"kind": wrong} if mapping else wrong), tmp_path)
            messages = [fault.message for fault in faults if "did you mean" in fault.message]
            assert messages, (wrong, faults)
            start, _, rest = messages[0].partition("(did you mean '")
            assert not any(f" {other}," in start for other in names)
            suggested, _, allowed = rest.partition("'?)")
            assert name in allowed
            assert suggested == name or wrong not in (name.upper(), name.lower()), (wrong, suggested)
