"""The reference of scenario keys, derived from the models: type, default and meaning of each key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim.attack import bayesian, identification
from sim.attack.hindsight import Hindsight
from sim.belief.forgetting import Forgetting
from sim.belief.regularisation import Regularisation
from sim.components.registry import CUSTOM, FAMILIES, registry
from sim.components.spec import Spec
from sim.mobility.recorded.replay import Columns, RecordedDays, Selection
from sim.scenario.lppms import RECOMMENDED, LPPMSpec, short_names
from sim.scenario.models import RepeatUntil, Scenario
from sim.scenario.people import UsersSpec
from sim.scenario.record import RecordSpec
from sim.scenario.world import WorldSpec

SECTIONS: dict[str, tuple[str, type[Spec]]] = {
    "scenario": ("the top level of the file", Scenario),
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
"""Mappings with a fixed set of keys: their places in a scenario and their models."""

CHAPTERS: dict[str, tuple[str, ...]] = {
    "Scenario": ("scenario", "replications", "record"),
    "World": ("world", "grid", "locations", "roads", "distance", "service"),
    "Users": ("users", "mobility", "select", "columns", "days", "demand"),
    "Shifts": ("shift",),
    "Training sets": ("training",),
    "Mechanisms": ("lppm", "belief", "forget", "regularise", "design"),
    "Attacks": ("attack", "hindsight"),
}
"""Chapters of the reference: names of `SECTIONS` and of families of components."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping."""

    name: str
    allowed: str
    default: str
    meaning: str


def line(spec: type[Spec]) -> str:
    """Return the first line of a model's docstring."""
    return (spec.__doc__ or "").splitlines()[0]


def keys(spec: type[Spec]) -> list[Key]:
    """Return the keys of a mapping except `kind`.

    >>> key, = keys(registry.kinds("demand")["periodic"])
    >>> key.name, key.allowed, key.default
    ('period_s', 'whole number, at least 1', '300')
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


def _default(schema: dict[str, Any]) -> str:
    match schema.get("default"):
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


_MOST_OPTIONS = 12
"""Number of options that a table can show; more of them are short names, which have a list of their own."""

_SHAPES = {"boolean": "true or false", "string": "text", "integer": "whole number", "number": "number"}


def _allowed(schema: dict[str, Any]) -> str:
    """Describe the values that a JSON schema allows."""
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    if options and (len(options) == 1 or "enum" in options[0]):
        return _allowed(options[0])
    if options:
        return ", or ".join(map(_allowed, options))
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        few = len(schema["enum"]) <= _MOST_OPTIONS
        return "one of " + ", ".join(map(str, schema["enum"])) if few else "short names or mappings"
    if schema.get("type") == "array":
        items = _allowed(schema.get("items", {}))
        return f"list of {items.removeprefix('one of ')}"
    shape = _SHAPES.get(schema.get("type", ""), "mapping")
    return shape + _range(schema) if "number" in shape else shape


def _range(schema: dict[str, Any]) -> str:
    """Describe the range of a number; limits that only catch typing errors are omitted."""
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    above = "exclusiveMinimum" in schema or 0 < low <= 1e-3
    start = f"above {0 if low <= 1e-3 else low:g}" if above else f"{low:g}"
    if high is None or high >= 36_525:
        return f", {start if above else 'at least ' + start}"
    below = "below " if "exclusiveMaximum" in schema else ""
    return f", {start} to {below}{high:g}"


def sections_markdown() -> str:
    """Return the chapters of the reference as MyST Markdown, with a label for links to each component."""
    return "\n".join(line for title, names in CHAPTERS.items() for line in _chapter(title, names)) + "\n"


def listing() -> dict[str, tuple[str, dict[str, str]]]:
    """Return for every family its place in a scenario and its kinds with a line on each."""
    families = {
        family.name: (family.place, {kind: line(model) for kind, model in registry.kinds(family.name).items()})
        for family in FAMILIES.values()
    }
    lppms = {name: _composition(parts) for name, parts in short_names().items()}
    lppms[RECOMMENDED] += " Recommended default."
    families["lppm"] = ("lppms", lppms)
    kinds = families.pop("attack")[1]
    kinds |= {name: _knowledge(parts) for name, parts in bayesian.SHORT_NAMES.items()}
    kinds |= {name: _identified(parts) for name, parts in identification.SHORT_NAMES.items()}
    kinds.pop(CUSTOM)
    families["attack"] = ("attacks", kinds)
    return families


def group_of(family: str, kind: str) -> str:
    """Return the group of a component in lists of its family; that of a mechanism's short name is its design's.

    >>> group_of("design", "decimals"), group_of("lppm", "Decimals"), group_of("design", "exponential")
    ('phones and apps', 'phones and apps', '')
    """
    if family == "lppm":
        family, kind = "design", short_names()[kind]["design"]["kind"] if kind in short_names() else ""
    model = registry.kinds(family).get(kind) if family in FAMILIES else None
    return "" if model is None else model.group


def source_of(family: str, kind: str) -> str:
    """Return the source that a component cites, or an empty text."""
    model = registry.kinds(family).get(kind) if family in FAMILIES else None
    return "" if model is None else model.source


def _composition(parts: Mapping[str, Any]) -> str:
    design = dict(parts["design"])
    kind, remap = design.pop("kind"), "" if design.pop("remap", True) else ", without remap"
    belief = dict(parts["belief"])
    of_belief = belief.pop("kind") + "".join(f", {key} {value}" for key, value in belief.items())
    values = "".join(f", {key} {value}" for key, value in design.items())
    full = ", which learns from the true cells" if parts.get("learns_from") == "cells" else ""
    return f"Short name for belief {of_belief}{full} with design {kind}{values}{remap}."


def _knowledge(parts: Mapping[str, Any]) -> str:
    whose = "the user's test statistics (worst case)" if parts["knows"] == "test" else "training statistics"
    attack = "Most likely path" if parts.get("decides") == "path" else "Optimal attack"
    past = ", with hindsight" if "hindsight" in parts else ""
    return f"{attack} with belief {parts['belief']['kind']} and {whose}{past}."


def _identified(parts: Mapping[str, Any]) -> str:
    return f"Infers the user behind a pseudonym and their location, with {parts['model']} models of all users."


def _chapter(title: str, names: Sequence[str]) -> Iterator[str]:
    yield f"## {title}\n"
    for name in names:
        if name in SECTIONS:
            place, spec = SECTIONS[name]
            yield from _entry(f"### `{name}`", [f"mapping-{name}"])
            yield f"Place: {_code(place)}. {line(spec)}\n"
            yield from _table(keys(spec))
        else:
            yield from _family(name)


def _family(name: str) -> Iterator[str]:
    yield from _entry(f"### Kinds of `{name}`", [f"family-{name}"])
    yield f"Place: {_code(FAMILIES[name].place)}.\n"
    group = ""
    for model in sorted(registry.models(name), key=lambda model: model.group):
        if model.group != group:
            group = model.group
            yield f"**{group.capitalize()}**\n"
        own = [f"{name}-{kind}".replace(":", "-") for kind in model.kinds()]
        yield from _entry(f"#### {', '.join(f'`{kind}`' for kind in model.kinds())}", own)
        yield f"{line(model)}\n"
        if model.source:
            yield f"Source: {model.source}.\n"
        yield from _table(keys(model))


def _entry(heading: str, labels: Sequence[str]) -> Iterator[str]:
    yield from (f"({label})=" for label in labels)
    yield f"{heading}\n"


_WORDS = {"the", "top", "level", "of", "file", "each", "as", "a", "mapping"}


def _code(place: str) -> str:
    """Mark the paths of a place as code, not the words around them.

    >>> _code("lppms.<name>.belief, attacks.<name>.belief"), _code("shifts, each"), _code("the top level of the file")
    ('`lppms.<name>.belief`, `attacks.<name>.belief`', '`shifts`, each', 'the top level of the file')
    """
    return re.sub(r"[\w.<>]+", lambda word: word[0] if word[0] in _WORDS else f"`{word[0]}`", place)


def _table(rows: list[Key]) -> Iterator[str]:
    if not rows:
        return
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    for row in rows:
        yield f"| `{row.name}` | {row.allowed} | {row.default} | {row.meaning} |"
    yield ""
