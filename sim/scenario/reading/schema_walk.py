"""Where in the data, and where in the models, an error of pydantic lies.

Inside a union pydantic puts a label of the member it tried into the error's location, between keys that are in
the data. Walking the models' annotations along it tells the labels from the keys, and what is allowed there.
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
    """One type that is allowed somewhere, with the kinds by which a union picks it."""

    annotation: Any
    kinds: tuple[Any, ...] = ()

    def is_called(self, label: str | int) -> bool:
        """Tell whether a union calls its member so: by its kind, or a model by its name."""
        return label in self.kinds or (_is_model(self.annotation) and label == self.annotation.__name__)


@dataclass(frozen=True, slots=True)
class Spot:
    """An error of pydantic, put where it belongs."""

    error: str
    """Pydantic's type of the error."""
    loc: Loc
    value: Any
    message: str
    ctx: Mapping[str, Any]
    parents: tuple[type[BaseModel], ...]
    """The models that the last step of `loc` may be a field of."""
    kinds: tuple[str, ...]
    """The kinds of the union that is meant to be there."""
    of: Literal["key", "value"]
    """Where it is shown: a mapping begins at its key, not at the first thing inside."""
    kind_of: Loc | None
    """The component whose kind this is about."""

    @property
    def is_kind(self) -> bool:
        """Whether this is about the kind of a component."""
        return self.kind_of is not None


def spot_of(model: type[BaseModel], data: Any, error: ErrorDetails) -> Spot:
    """Find where an error lies, in the data and in the models."""
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
        loc = loc[:-1]  # a component in short form: its text is all there is
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
    # A function as discriminator has a name, but not that of a key.
    return name.strip("'") if name.startswith("'") else "kind"


def _walk(
    model: type[BaseModel], labelled: Loc, *, ends_in_key: bool
) -> tuple[Loc, list[Member], tuple[type[BaseModel], ...]]:
    """Drop the labels of union members from a location; return it, what is allowed there, and the models above."""
    loc: Loc = ()
    members = [Member(model)]
    parents: tuple[type[BaseModel], ...] = ()
    picked = False
    for i, step in enumerate(labelled):
        is_last = i == len(labelled) - 1
        chosen = [] if picked or len(members) < 2 else [member for member in members if member.is_called(step)]
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
    """Return what is allowed one step below a type."""
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
    """Return the types an annotation allows, without None."""
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
    """Return the values by which a union may pick a model: those of its field `kind`."""
    info = model.model_fields.get("kind")
    return get_args(info.annotation) if info is not None and get_origin(info.annotation) is Literal else ()


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
