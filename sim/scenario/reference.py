"""Every key that a scenario may have, with what is allowed, the default and the meaning; read off the models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from sim.scenario import beliefs, designs, people, protection, shifts, world
from sim.scenario.models import RecordSpec, RepeatUntil, Scenario
from sim.scenario.reading.validation import Spec

UNIONS: dict[str, tuple[str, Any]] = {
    "grid": ("world.grid", world.GridSpec),
    "roads": ("world.roads", world.RoadsSpec),
    "distance": ("world.privacy_distance, world.quality_distance", world.DistanceSpec),
    "mobility": ("users.mobility", people.MobilitySpec),
    "demand": ("users.demand", people.DemandSpec),
    "shift": ("shifts, each", shifts.ShiftSpec),
    "training": ("training.<name>", people.TrainingSpec),
    "belief": ("lppms.<name>.belief, attacks.<name>.belief", beliefs.BeliefSpec),
    "design": ("lppms.<name>.design", designs.DesignSpec),
}
"""Families of components with kinds, and where they stand in a scenario."""

SECTIONS: dict[str, tuple[str, type[Spec]]] = {
    "scenario": ("the top level", Scenario),
    "replications": ("replications, as a mapping", RepeatUntil),
    "world": ("world", world.WorldSpec),
    "users": ("users", people.UsersSpec),
    "select": ("users.mobility.select of replay", people.Selection),
    "columns": ("users.mobility.columns of replay", people.Columns),
    "days": ("users.mobility.days of replay", people.RecordedDays),
    "forget": ("belief.forget of estimated_profile", beliefs.ForgetSpec),
    "regularise": ("belief.regularise of estimated_profile", beliefs.RegulariseSpec),
    "lppm": ("lppms, each", protection.LPPMSpec),
    "attack": ("attacks, each", protection.AttackSpec),
    "hindsight": ("attacks.<name>.hindsight", protection.HindsightSpec),
    "face-value": ("attacks, each of kind face-value", protection.FaceValueSpec),
    "identification": ("attacks, each of kind identification", protection.IdentificationSpec),
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


def kinds(family: str) -> dict[str, type[Spec]]:
    """Return the model of each kind of a family; the first line of its docstring says what it is.

    >>> list(kinds("demand"))
    ['every_visit', 'periodic', 'poisson', 'module:Class']
    """
    members = (get_args(tagged) for tagged in get_args(get_args(UNIONS[family][1])[0]))
    return {tag.tag: spec for spec, tag in members}


def line(spec: type[Spec]) -> str:
    """Return what a model is, in one line."""
    return (spec.__doc__ or "").splitlines()[0]


def keys(spec: type[Spec]) -> list[Key]:
    """Return the keys of a mapping, but for its kind.

    >>> keys(people.PeriodicSpec)
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
            meaning=field.description or "",
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


def _page() -> Iterator[str]:
    yield "# Reference\n\nEvery key of a scenario file. Written by `lppm-sim list --markdown`; do not edit.\n"
    yield "A component is a mapping with a `kind`; its kind alone stands for it with all defaults. A key without a"
    yield "default may be left out unless it is required.\n"
    for name, (place, spec) in SECTIONS.items():
        yield f"## {name}\n\nAt {place}. {line(spec)}\n"
        yield from _table(keys(spec))
    for family, (place, _) in UNIONS.items():
        yield f"## {family}\n\nAt {place}.\n"
        for kind, spec in kinds(family).items():
            yield f"### `{kind}`\n\n{line(spec)}\n"
            yield from _table(keys(spec))


def _table(rows: list[Key]) -> Iterator[str]:
    if not rows:
        return
    yield "| key | allowed | default | meaning |\n|---|---|---|---|"
    for row in rows:
        yield f"| `{row.name}` | {row.allowed} | {row.default} | {row.meaning} |"
    yield ""
