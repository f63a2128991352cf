"""What all components of a scenario share: kinds, short forms, one's own classes.

A component is a mapping with a `kind`, such as ``{kind: exponential, epsilon_per_km: 1}``; a text alone, such as
``manhattan``, stands for ``{kind: manhattan}``; ``{kind: "module:Class", ...}`` brings one's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Self

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PrivateAttr,
    Tag,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import CoreSchema, no_info_before_validator_function

from sim.components.permission import CodeAccess, is_standard_library
from sim.scenario.reading.validation import Spec
from sim.scenario.reading.wording import NAME, OWN_CLASS

# Limits far beyond what anybody means: what lies outside is a slip of the keyboard, and would end in an overflow,
# in all of the memory or never.
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(ge=1e-6, le=1e6)]
NonNegative = Annotated[float, Field(ge=0, le=1e6)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Days = Annotated[float, Field(ge=1e-6, le=36_525)]
Name = Annotated[str, Field(pattern=NAME, max_length=60)]


def as_mapping(value: Any, key: str = "kind") -> Any:
    """Read the short form of a component: its kind alone, or what another key has."""
    return {key: value} if isinstance(value, str) else value


def tag_of(value: Any) -> str | None:
    """Return what a component's kind picks it by."""
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    if not isinstance(kind, str):
        return None
    return "module:Class" if ":" in kind else kind


by_kind = Discriminator(tag_of)


@dataclass(frozen=True, slots=True)
class ShortForm:
    """Let a component be written as its kind alone, or as one other key, in files and in the JSON schema."""

    key: str = "kind"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(partial(as_mapping, key=self.key), handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        full = handler(core)
        members = [handler.resolve_ref_schema(member) for member in full.get("oneOf", [full])]
        names = [name for member in members for name in _names(member["properties"][self.key])]
        return {"anyOf": [{"type": "string", "enum": names}, full]}


def _names(kind: dict[str, Any]) -> list[str]:
    """Return the texts that a property allows."""
    if "const" in kind:
        return [kind["const"]]
    return list(kind.get("enum", [])) + [name for option in kind.get("anyOf", []) for name in _names(option)]


short_form = ShortForm()


class Custom(Spec):
    """One's own component, imported from `module`; every other key goes to the class as a keyword."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, Field(pattern=OWN_CLASS)]
    """``module:Class``. Running the scenario runs this code, which needs permission (`--allow-code`)."""

    _code: CodeAccess = PrivateAttr(default=CodeAccess())

    @property
    def code(self) -> CodeAccess:
        """Whether and from where the class may be imported."""
        return self._code

    def allow(self, code: CodeAccess) -> None:
        """Set whether and from where the class may be imported."""
        self._code = code

    @field_validator("kind")
    @classmethod
    def _not_of_python(cls, kind: str) -> str:
        if is_standard_library(kind):
            raise ValueError(
                f"a custom component is a class of a module of yours or of an installed package, found {kind!r}, "
                "whose module belongs to Python's standard library; rename the module if it is yours"
            )
        return kind

    @model_validator(mode="after")
    def _finite(self) -> Self:
        for name, value in (self.model_extra or {}).items():
            if not _is_finite(value):
                raise ValueError(f"`{name}` must hold finite numbers: a manifest cannot keep others, found {value}")
        return self


def _is_finite(value: Any) -> bool:
    parts: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_is_finite, parts)) and not (isinstance(value, float) and not math.isfinite(value))


OwnComponent = Annotated[Custom, Tag("module:Class")]
