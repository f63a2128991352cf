"""The mechanisms (LPPMs) of a scenario: each has a belief and a design; common pairs have a short name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Self, cast

from pydantic import (
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core.core_schema import CoreSchema, literal_schema

from sim.belief.parameters import BeliefParameters
from sim.components.custom import Custom
from sim.components.registry import OneOf, registry
from sim.components.short_names import Table, allow_short_names, expand, unset_expanded
from sim.components.spec import Name, Spec
from sim.errors import InvalidValue
from sim.interfaces import LPPM, LearnsFrom
from sim.lppm.parameters import DesignParameters, ShortNames
from sim.mobility.statistics import Statistics
from sim.world import World

RECOMMENDED = "PEB-MK-AMix"
"""Short name of the mechanism to use if nothing speaks for another one; docs/beyond.md has the comparison."""


@cache
def short_names() -> Table:
    """Return the expansion of each short name of an LPPM, composed of the short names of beliefs and designs."""
    beliefs = {
        model.short_name: kind
        for kind, model in registry.kinds("belief").items()
        if issubclass(model, BeliefParameters) and model.short_name is not None
    }
    table: dict[str, dict[str, Any]] = {}
    for kind, names in _declared():
        design = {"kind": kind, **names.parameters}
        for belief in names.beliefs:
            table[f"{belief}-{names.design}"] = {"belief": {"kind": beliefs[belief]}, "design": design}
        if names.full:
            pair = {"belief": {"kind": beliefs["PEB"]}, "design": design}
            table[f"PEB-full-{names.design}"] = pair | {"learns_from": "cells"}
        if names.alone is not None:
            table[names.design] = {"belief": {"kind": beliefs["SP"]}, "design": design | names.alone}
    return table


def _declared() -> Iterator[tuple[str, ShortNames]]:
    """Yield the kind of each design with its short names."""
    for kind, model in registry.kinds("design").items():
        names = model.short_names if issubclass(model, DesignParameters) else None
        for one in names if isinstance(names, tuple) else (names,):
            if one is not None:
                yield kind, one


class _ShortName:
    """Annotation of a field that holds a short name of an LPPM."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return literal_schema(list(short_names()))


class CustomLPPM(Custom):
    """Complete custom mechanism, imported from `module`."""

    model_config = ConfigDict(extra="allow")

    def build(self, world: World, statistics: Statistics) -> LPPM:
        """Return the mechanism of a user with these training statistics."""
        return cast(LPPM, self.instance("lppm", world=world, statistics=statistics))


class LPPMSpec(Spec):
    """Mechanism: a belief about the user, and a design that maps it to a channel. A short name stands for both."""

    kind: Annotated[str, _ShortName()] | None = None
    name: Name
    """Name in logs and figures; default: the short name."""
    belief: Annotated[BeliefParameters, OneOf("belief")]
    """Belief about the user's location: the prior of the design."""
    design: Annotated[DesignParameters, OneOf("design")]
    """Design: maps the prior to the channel from which reports are drawn."""
    lppm: CustomLPPM | None = None
    """Complete custom mechanism, as ``{kind: "module:Class"}`` with its keys, in the place of `belief` and `design`. It
    may also be written as the `kind` of the mechanism."""
    training: str | None = None
    """Name of the training set; default: the first one."""
    learns_from: LearnsFrom = "reports"
    """Observations that the belief learns from: reports, the mechanism's own public reports; cells, the user's true
    cells (the paper's full type), so that reports carry no channel and optimal attacks do not apply; disclosed_cells,
    true cells too, but reports carry the channel, which discloses past cells: a ceiling for comparisons."""

    @property
    def full(self) -> bool:
        """Whether the mechanism is of the full type: its reports carry no channel, so no attack can be optimal."""
        return self.learns_from == "cells"

    @property
    def has_memory(self) -> bool:
        """Whether outputs depend on a secret of the mechanism; False for custom components, where this is unknown."""
        return self.design.has_memory

    @property
    def is_memoryless(self) -> bool:
        """Whether the channel never changes; False for custom components, where this is unknown."""
        if (
            self.lppm is not None
            or self.belief.is_custom
            or self.design.is_custom
            or self.design.has_memory
            or self.design.sees_past
        ):
            return False
        return self.belief.memoryless or not self.design.uses_prior

    @model_validator(mode="wrap")
    @classmethod
    def _short_name(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        value = _with_complete(value)
        complete = isinstance(value, dict) and "lppm" in value
        spec = handler(value | _UNUSED if complete else expand(value, short_names()))
        unset_expanded(spec, value)
        return spec

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        unused = ("lppm",) if self.lppm is None else (*_UNUSED, "learns_from")
        return {name: value for name, value in data.items() if name not in unused}

    @model_validator(mode="after")
    def _learns(self) -> Self:
        if self.learns_from != "reports" and self.belief.memoryless:
            message = (
                f"`learns_from: {self.learns_from}` needs a belief that learns, found {self.belief.kind}, which does "
                "not learn"
            )
            raise InvalidValue(message, code="belief-does-not-learn")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = allow_short_names(handler.resolve_ref_schema(handler(core)), "belief", "design")
        schema["anyOf"].append({"required": ["name", "lppm"]})
        return schema


_UNUSED: dict[str, Any] = {"belief": {"kind": "fixed_profile"}, "design": {"kind": "identity"}}
"""Placeholders of a complete mechanism, which has neither."""


def _with_complete(value: Any) -> Any:
    """Return the keys of a mechanism, with those of a complete custom one under `lppm`."""
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("kind"), str) and ":" in value["kind"]:
        own = {key: part for key, part in value.items() if key not in ("name", "training")}
        name = value["kind"].rpartition(":")[2]
        value = {"name": name} | {key: part for key, part in value.items() if key not in own} | {"lppm": own}
    excluded = [key for key in ("kind", *_UNUSED, "learns_from") if "lppm" in value and value.get(key) is not None]
    if excluded and value["lppm"] is not None:
        raise InvalidValue(
            f"`lppm`, a complete mechanism, excludes `{excluded[0]}`: found both, remove one", code="exclusive-keys"
        )
    return {key: part for key, part in value.items() if key != "lppm" or part is not None}
