"""Messages and codes of pydantic's errors: the problem, the value found, the values allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sim.components.spec import CLASS_NAME, NAME, Spec
from sim.components.suggestions import suggestion
from sim.components.wording import described, listing, shown
from sim.errors import code_of
from sim.scenario.reading.schema_walk import Spot
from sim.scenario.reading.yaml12 import scalar, space_missing

_SHAPES = {
    "a whole number": ("int_type", "int_parsing", "int_from_float", "int_parsing_size"),
    "a number": ("float_type", "float_parsing"),
    "true or false": ("bool_type", "bool_parsing"),
    "text": ("string_type", "string_unicode", "path_type"),
    "a list": ("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"),
    "a mapping (key: value)": ("dict_type", "model_type", "model_attributes_type", "mapping_type"),
    "empty": ("none_required",),
}
_SHAPE_OF = {type_: shape for shape, types in _SHAPES.items() for type_ in types}
_CHOICES = ("literal_error", "enum")

_PATTERNS = {
    NAME: "letters a to z, digits, spaces and _ . + -, with a letter or digit first",
    CLASS_NAME: "module:Class, as in my_module:MyClass",
}

TYPE_ERRORS = frozenset(_SHAPE_OF) | frozenset(_CHOICES)
"""Errors of a value whose type differs from that of a union member."""

_LIMITS = {
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "a finite number",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of {max_length} or fewer characters",
    "string_pattern_mismatch": "{pattern}",
}


_CODES = {
    "missing": "missing-key",
    "extra_forbidden": "unknown-key",
    "union_tag_invalid": "unknown-kind",
    "greater_than": "out-of-range",
    "greater_than_equal": "out-of-range",
    "less_than": "out-of-range",
    "less_than_equal": "out-of-range",
    "multiple_of": "out-of-range",
    "finite_number": "out-of-range",
    "string_too_short": "wrong-length",
    "string_too_long": "wrong-length",
    "too_short": "wrong-length",
    "too_long": "wrong-length",
    "string_pattern_mismatch": "invalid-name",
}
"""Codes of pydantic's errors; those of types and choices depend on the value."""


def sentence(spots: Sequence[Spot]) -> str:
    """Return the message for one value; several spots are errors of the members of one union."""
    first = spots[0]
    if first.error in TYPE_ERRORS:
        return _wrong_type(spots)
    if first.error in _LIMITS:
        return f"must be {_limit(first)}, found {described(first.value)}"
    return _SENTENCES.get(first.error, _of_pydantic)(first)


def code(spots: Sequence[Spot]) -> str:
    """Return the code of the fault that `sentence` describes."""
    first = spots[0]
    if first.error in _SHAPE_OF or (first.error in _CHOICES and any(spot.error in _SHAPE_OF for spot in spots)):
        return "wrong-type"
    if first.error in _CHOICES:
        return "unknown-kind" if first.is_kind else "unknown-value"
    if first.error == "union_tag_not_found":
        return "missing-key" if isinstance(first.value, dict) else "wrong-type"
    return _CODES.get(first.error) or code_of(first.ctx.get("error", Exception()), "invalid-value")


def _of_pydantic(spot: Spot) -> str:
    return f"{spot.message}, found {described(spot.value)}"


def _of_validator(spot: Spot) -> str:
    """Return the message of a validator of this package."""
    return str(spot.ctx.get("error", spot.message))


def _missing(spot: Spot) -> str:
    required = [name for model in spot.parents[:1] for name, info in model.model_fields.items() if info.is_required()]
    hint = f"; required here: {listing(required, 'and')}" if required else ""
    return f"required key is missing{hint}"


def _unknown_key(spot: Spot) -> str:
    allowed = list(dict.fromkeys(name for model in spot.parents for name in model.model_fields))
    if not allowed:
        return "unknown key; no keys are allowed here" if spot.parents else "unknown key"
    return f"unknown key{suggestion(spot.loc[-1], allowed)}; allowed: {', '.join(allowed)}"


def _unknown_kind(spot: Spot) -> str:
    kinds = _quoted(spot.ctx.get("expected_tags", "")) or list(spot.kinds)
    tag = spot.ctx.get("tag")
    return f"unknown kind, found {shown(tag)}{suggestion(tag, kinds)}; allowed: {', '.join(kinds)}"


def _no_kind(spot: Spot) -> str:
    kinds = f"; allowed: {', '.join(spot.kinds)}" if spot.kinds else ""
    if spot.loc == spot.kind_of:
        return f"must be a kind, or a mapping with a kind, found {described(spot.value)}{kinds}"
    if isinstance(spot.value, dict):
        return f"required key is missing{kinds}"
    return f"must be text, found {described(spot.value)}{kinds}"


def _wrong_length(spot: Spot) -> str:
    shape = "a mapping" if isinstance(spot.value, dict) else "a list"
    least, most = spot.ctx.get("min_length"), spot.ctx.get("max_length")
    limit = f"{least} or more" if spot.error == "too_short" else f"{most} or fewer"
    return f"must be {shape} of {limit} elements, found {spot.ctx.get('actual_length')}: {shown(spot.value)}"


def _limit(spot: Spot) -> str:
    rounded = {key: int(x) if isinstance(x, float) and x.is_integer() else x for key, x in spot.ctx.items()}
    if spot.error == "string_pattern_mismatch":
        pattern = str(spot.ctx["pattern"])
        rounded["pattern"] = _PATTERNS.get(pattern, f"text that matches {pattern}")
    return _LIMITS[spot.error].format_map(rounded)


def _wrong_type(spots: Sequence[Spot]) -> str:
    value = spots[0].value
    choices = [choice for spot in spots if spot.error in _CHOICES for choice in _choices(spot)]
    shapes = list(dict.fromkeys(_SHAPE_OF[spot.error] for spot in spots if spot.error in _SHAPE_OF))
    phrases = [*shapes, *([f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]] if choices else [])]
    if near := suggestion(value, choices):  # before the choices, since some lists are long
        return f"found {described(value)}{near}, must be {listing(phrases)}"
    return f"must be {listing(phrases)}, found {described(value)}{_hint(shapes, value)}"


def _choices(spot: Spot) -> list[str]:
    expected = str(spot.ctx.get("expected", ""))
    siblings = [name for model in spot.parents if issubclass(model, Spec) for name in model.sibling_kinds()]
    return [*(_quoted(expected) or [expected]), *(siblings if spot.is_kind else ())]


def _quoted(text: str) -> list[str]:
    """Return the quoted words of a list in a message of pydantic, such as ``'a', 'b' or 'c'``."""
    return re.findall(r"'((?:[^'\\]|\\.)*)'", text)


def _hint(shapes: Sequence[str], value: Any) -> str:
    """Return the remedy of a common mistake."""
    if isinstance(value, str):
        if shapes == ["a mapping (key: value)"]:
            return space_missing(value)
        is_quoted = _unquoted_type(value) in shapes or (
            "a number" in shapes and _unquoted_type(value) == "a whole number"
        )
        return "; remove the quotes" if is_quoted else ""
    if "a whole number" in shapes and isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"; write {int(value)}"
    if "text" in shapes and isinstance(value, bool | int | float):
        return "; put it in quotes"
    if shapes == ["a list"] and isinstance(value, str | bool | int | float):
        return f"; write [{shown(value)}]"
    return ""


def _unquoted_type(text: str) -> str:
    """Return the type that text would have without its quotes."""
    try:
        value = scalar(text)
    except ValueError:
        return "text"
    if isinstance(value, bool):
        return "true or false"
    return {int: "a whole number", float: "a number"}.get(type(value), "text")


_SENTENCES: dict[str, Callable[[Spot], str]] = {
    "missing": _missing,
    "extra_forbidden": _unknown_key,
    "union_tag_invalid": _unknown_kind,
    "union_tag_not_found": _no_kind,
    "too_short": _wrong_length,
    "too_long": _wrong_length,
    "value_error": _of_validator,
    "assertion_error": _of_validator,
}
