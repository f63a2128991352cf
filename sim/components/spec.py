"""The base class of all parts of a scenario, a strict and frozen pydantic model, and the types of its fields."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sim.errors import InvalidValue

T = TypeVar("T")

SMALLEST = 1e-12
"""Smallest positive number allowed: products of smaller ones underflow."""

Many = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in the file and a tuple in the model, which strict mode would not convert. The elements remain strict."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9 _.+-]*$"
CLASS_NAME = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"

# Limits far beyond any reasonable value: others are typing errors and would overflow, exhaust memory or never end.
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(ge=1e-6, le=1e6)]
NonNegative = Annotated[float, Field(ge=0, le=1e6)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
PeopleCount = Annotated[int, Field(ge=1, le=100_000_000)]
Days = Annotated[float, Field(ge=1e-6, le=36_525)]
Name = Annotated[str, Field(pattern=NAME, max_length=60)]


class Spec(BaseModel):
    """A part of a scenario: unknown keys are rejected, instances are frozen, types are strict.

    Strict: text is never converted to a number, nor true to 1, nor 2.0 to an integer; an integer is accepted as a
    float. Fields converted from text (`Path`, enums) require ``Field(strict=False)``, tuples require `Many`. The schema
    is built at the first validation, when all components are registered.
    """

    short_key: ClassVar[str] = "kind"
    """Key whose value may be written instead of the mapping, if a text is allowed."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        defer_build=True,
    )

    @field_validator("*", mode="after")
    @classmethod
    def _not_tiny(cls, value: Any) -> Any:
        """Reject numbers that are almost zero but not zero, alone or in a list; replace -0.0 by 0."""
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, float) and 0 < abs(number) < SMALLEST:
                raise InvalidValue(
                    f"must be at least {SMALLEST:g} in magnitude, or 0 if allowed, found {number!r}",
                    code="out-of-range",
                )
        return 0.0 if isinstance(value, float) and value == 0 else value

    @classmethod
    def sibling_kinds(cls) -> tuple[str, ...]:
        """Return the kinds of alternative models, which the message for an unknown kind lists too."""
        return ()

    def require_at_most_one(self, *names: str) -> Self:
        """Raise InvalidValue if several of these optional fields are given."""
        given = [name for name in names if vars(self)[name] is not None]
        if len(given) > 1:
            raise InvalidValue(
                f"`{given[0]}` and `{given[1]}` exclude each other: found both, remove one", code="exclusive-keys"
            )
        return self
