"""Locate pydantic's errors in the data and in the models.

Inside a union, pydantic inserts a label of the union member into the location of an error, between keys of the data.
Following the location through the models' annotations distinguishes labels from keys, and yields the allowed types.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Tag
from pydantic_core import ErrorDetails

from sim.components.registry import OneOf
from sim.scenario.reading.faults import Loc
from sim.scenario.reading.paths import value_at

_LABEL = re.compile(r"[a-z-]+\[.*\]|(constrained-)?(int|float|str|bool|list|dict|tuple)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Member:
    """One allowed type, with the kinds by which a union selects it."""

    annotation: Any
    kinds: tuple[Any, ...] = ()

    def has_label(self, label: str | int) -> bool:
        """Return whether pydantic labels this member so: by a kind, or by the name of the model."""
        return label in self.kinds or (_is_model(self.annotation) and label == self.annotation.__name__)


@dataclass(frozen=True, slots=True)
class Spot:
    """An error of pydantic, located in the data and the models."""

    error: str
    """Pydantic's type of the error."""
    loc: Loc
    value: Any
    message: str
    ctx: Mapping[str, Any]
    parents: tuple[type[BaseModel], ...]
    """The models that may have the last step of `loc` as a field."""
    kinds: tuple[str, ...]
    """The kinds of the union that is expected at `loc`."""
    of: Literal["key", "value"]
    """Position to report: that of the key for mappings and for errors of keys."""
    kind_of: Loc | None
    """The component whose kind is wrong, if the error concerns a kind."""

    @property
    def is_kind(self) -> bool:
        """Whether the error concerns the kind of a component."""
        return self.kind_of is not None


def spot_of(model: type[BaseModel], data: Any, error: ErrorDetails) -> Spot:
    """Locate an error in the data and in the models."""
    type_, value, ctx = error["type"], error["input"], error.get("ctx", {})
    ends_in_key = type_ in ("missing", "extra_forbidden")
    at_key = ends_in_key or error["loc"][-1:] == ("[key]",)
    loc, members, parents = _walk(model, error["loc"], ends_in_key=ends_in_key)
    if is_tag := type_ in ("union_tag_invalid", "union_tag_not_found"):
        loc = (*loc, _discriminator(ctx))
    kind_of = loc[:-1] if is_tag or loc[-1:] == ("kind",) else None
    if not at_key and (
        isinstance(value_at(data, loc[:-1]), str)
        or (kind_of is not None and not isinstance(value_at(data, kind_of), dict))
    ):
        loc = loc[:-1]  # a component in short form has a text, no keys
    written = value_at(data, loc)
    shown = value if at_key or written is None else written
    return Spot(
        error=type_,
        loc=loc,
        value=shown,
        message=error["msg"],
        ctx=ctx,
        parents=parents,
        kinds=tuple(str(kind) for member in members for kind in member.kinds),
        of="key" if at_key or isinstance(shown, dict) else "value",
        kind_of=kind_of,
    )


def _discriminator(ctx: Mapping[str, Any]) -> str:
    name = str(ctx.get("discriminator", ""))
    # A discriminator that is a function has a name, which is not a key.
    return name.strip("'") if name.startswith("'") else "kind"


def _walk(
    model: type[BaseModel], labelled: Loc, *, ends_in_key: bool
) -> tuple[Loc, list[Member], tuple[type[BaseModel], ...]]:
    """Return a location without labels of union members, the types allowed there, and the models one step above."""
    loc: Loc = ()
    members = [Member(model)]
    parents: tuple[type[BaseModel], ...] = ()
    picked = False
    for i, step in enumerate(labelled):
        is_last = i == len(labelled) - 1
        chosen = [] if picked or len(members) < 2 else [member for member in members if member.has_label(step)]
        if chosen:
            members, picked = chosen, True
            continue
        is_label = isinstance(step, str) and len(members) > 1 and not picked and _LABEL.fullmatch(step)
        below = [] if is_label else [child for member in members for child in _children(member.annotation, step)]
        if below or isinstance(step, int) or (is_last and ends_in_key):
            loc = (*loc, step)
            parents = tuple(member.annotation for member in members if _is_model(member.annotation))
            members, picked = below, False
    return loc, members, parents


def _children(annotation: Any, step: str | int) -> list[Member]:
    """Return the types allowed one step below a type."""
    if _is_model(annotation):
        info = annotation.model_fields.get(step)
        return [] if info is None else members_of(Annotated[info.annotation, None, *info.metadata])
    origin, args = get_origin(annotation), get_args(annotation)
    if not isinstance(origin, type) or not args:
        return []
    if issubclass(origin, Mapping) and isinstance(step, str) and step != "[key]":
        return members_of(args[1])
    if issubclass(origin, tuple) and isinstance(step, int) and args[-1] is not Ellipsis:
        return members_of(args[step]) if step < len(args) else []
    if issubclass(origin, Sequence | set | frozenset) and isinstance(step, int):
        return members_of(args[0])
    return []


def members_of(annotation: Any, kinds: tuple[Any, ...] = ()) -> list[Member]:
    """Return the types that an annotation allows, without None."""
    if hasattr(annotation, "__value__"):
        return members_of(annotation.__value__, kinds)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if one_of := next((extra for extra in args[1:] if isinstance(extra, OneOf)), None):
            return members_of(one_of.union(), kinds)
        tags = tuple(extra.tag for extra in args[1:] if isinstance(extra, Tag))
        return members_of(args[0], tags or kinds)
    if origin in (Union, types.UnionType):
        return [member for arg in args if arg is not types.NoneType for member in members_of(arg)]
    if _is_model(annotation) and not kinds:
        return [Member(annotation, _literals(annotation))]
    return [Member(annotation, kinds)]


def _literals(model: type[BaseModel]) -> tuple[Any, ...]:
    """Return the values by which a union may select a model: those of its field `kind`."""
    info = model.model_fields.get("kind")
    return get_args(info.annotation) if info is not None and get_origin(info.annotation) is Literal else ()


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
