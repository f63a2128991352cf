"""Every key that a scenario may have, with what is allowed, the default and the meaning; read off the models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sim.attack import bayesian, identification
from sim.attack.hindsight import Hindsight
from sim.belief.forgetting import Forgetting
from sim.belief.regularisation import Regularisation
from sim.components.registry import CUSTOM, FAMILIES, registry
from sim.components.spec import Spec
from sim.mobility.recorded.replay import Columns, RecordedDays, Selection
from sim.scenario.lppms import LPPMSpec, short_names
from sim.scenario.models import RepeatUntil, Scenario
from sim.scenario.people import UsersSpec
from sim.scenario.record import RecordSpec
from sim.scenario.world import WorldSpec

SECTIONS: dict[str, tuple[str, type[Spec]]] = {
    "scenario": ("the top level", Scenario),
    "replications": ("replications, as a mapping", RepeatUntil),
    "world": ("world", WorldSpec),
    "users": ("users", UsersSpec),
    "select": ("users.mobility.select of replay", Selection),
    "columns": ("users.mobility.columns of replay", Columns),
    "days": ("users.mobility.days of replay", RecordedDays),
    "forget": ("belief.forget of estimated_profile", Forgetting),
    "regularise": ("belief.regularise of estimated_profile", Regularisation),
    "lppm": ("lppms, each", LPPMSpec),
    "hindsight": ("attacks.<name>.hindsight", Hindsight),
    "record": ("record", RecordSpec),
}
"""Mappings with keys of their own, and where they stand in a scenario."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping."""

    name: str
    allowed: str
    default: str
    meaning: str


def line(spec: type[Spec]) -> str:
    """Return what a model is, in one line."""
    return (spec.__doc__ or "").splitlines()[0]


def keys(spec: type[Spec]) -> list[Key]:
    """Return the keys of a mapping, but for its kind.

    >>> keys(registry.kinds("demand")["periodic"])
    [Key(name='period_s', allowed='whole number, at least 1', default='300', meaning='Seconds between two queries.')]
    """
    schema = spec.model_json_schema()
    schema = schema["$defs"][spec.__name__] if "$ref" in schema else schema
    required = schema.get("required", [])
    return [
        Key(
            name=name,
            allowed=_allowed(schema["properties"][name]),
            default="required" if name in required else _default(schema["properties"][name]),
            meaning=" ".join((field.description or "").split()),
        )
        for name, field in spec.model_fields.items()
        if name != "kind"
    ]


def _default(said: dict[str, Any]) -> str:
    match said.get("default"):
        case None:
            return ""
        case bool(value):
            return str(value).lower()
        case {"kind": kind}:
            return str(kind)
        case {} | []:
            return ""
        case list(values):
            return ", ".join(str(value["name"] if isinstance(value, dict) else value) for value in values)
        case value:
            return str(value)


_SHAPES = {"boolean": "true or false", "string": "text", "integer": "whole number", "number": "number"}


def _allowed(said: dict[str, Any]) -> str:
    """Say in words what a JSON schema allows."""
    options = [option for option in said.get("anyOf", []) if option.get("type") != "null"]
    if options and (len(options) == 1 or "enum" in options[0]):
        return _allowed(options[0])
    if options:
        return ", or ".join(map(_allowed, options))
    if "const" in said:
        return str(said["const"])
    if "enum" in said:
        return "one of " + ", ".join(map(str, said["enum"]))
    if said.get("type") == "array":
        items = _allowed(said.get("items", {}))
        return f"list of {items.removeprefix('one of ')}"
    shape = _SHAPES.get(said.get("type", ""), "mapping")
    return shape + _range(said) if "number" in shape else shape


def _range(said: dict[str, Any]) -> str:
    """Say the range of a number; limits that only catch slips of the keyboard are not worth a word."""
    low, high = said.get("minimum", said.get("exclusiveMinimum", 0)), said.get("maximum", said.get("exclusiveMaximum"))
    above = "exclusiveMinimum" in said or 0 < low <= 1e-3
    start = f"above {0 if low <= 1e-3 else low:g}" if above else f"{low:g}"
    if high is None or high >= 36_525:
        return f", {start if above else 'at least ' + start}"
    below = "below " if "exclusiveMaximum" in said else ""
    return f", {start} to {below}{high:g}"


def markdown() -> str:
    """Return the whole reference as a Markdown page."""
    return "\n".join(_page()) + "\n"


def listing() -> dict[str, tuple[str, dict[str, str]]]:
    """Return every family with its place in a scenario and its kinds, one line each."""
    families = {
        family.name: (family.place, {kind: line(model) for kind, model in registry.kinds(family.name).items()})
        for family in FAMILIES.values()
    }
    families["lppm"] = ("lppms", {name: _composition(parts) for name, parts in short_names().items()})
    kinds = families.pop("attack")[1]
    kinds |= {name: _knowledge(parts) for name, parts in bayesian.SHORT_NAMES.items()}
    kinds |= {name: _identified(parts) for name, parts in identification.SHORT_NAMES.items()}
    kinds.pop(CUSTOM)
    families["attack"] = ("attacks", kinds)
    return families


def _composition(parts: Mapping[str, Any]) -> str:
    remap = "" if parts["design"].get("remap", True) else ", without remap"
    full = ", which learns from real cells" if parts.get("learns_from") == "cells" else ""
    return f"Short for belief {parts['belief']['kind']}{full} with design {parts['design']['kind']}{remap}."


def _knowledge(parts: Mapping[str, Any]) -> str:
    whose = "the user's own statistics of the test (worst case)" if parts["knows"] == "test" else "training statistics"
    attack = "Most likely path" if parts.get("decides") == "path" else "Optimal attack"
    past = ", with hindsight" if "hindsight" in parts else ""
    return f"{attack} with belief {parts['belief']['kind']} and {whose}{past}."


def _identified(parts: Mapping[str, Any]) -> str:
    return f"Tells which user is behind a pseudonym and where they are, by {parts['model']} models of all users."


def _page() -> Iterator[str]:
    yield "# Reference\n\nEvery key of a scenario file. Written by `lppm-sim list --markdown`; do not edit.\n"
    yield "A component is a mapping with a `kind`; its kind alone stands for it with all defaults. A key without a"
    yield "default may be left out unless it is required.\n"
    for name, (place, spec) in SECTIONS.items():
        yield f"## {name}\n\nAt {place}. {line(spec)}\n"
        yield from _table(keys(spec))
    for family in FAMILIES.values():
        yield f"## {family.name}\n\nAt {family.place}.\n"
        for model in registry.models(family.name):
            kinds = ", ".join(f"`{kind}`" for kind in model.kinds())
            yield f"### {kinds}\n\n{line(model)}\n"
            yield from _table(keys(model))


def _table(rows: list[Key]) -> Iterator[str]:
    if not rows:
        return
    yield "| key | allowed | default | meaning |\n|---|---|---|---|"
    for row in rows:
        yield f"| `{row.name}` | {row.allowed} | {row.default} | {row.meaning} |"
    yield ""
