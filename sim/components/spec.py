"""The base of everything that a scenario holds: strict, frozen pydantic models, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

T = TypeVar("T")

SMALLEST = 1e-12
"""Numbers nearer to 0 are refused: products of them underflow."""

Many = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in the file, a tuple in the model: strict mode would ask for a tuple in the file. Its elements stay strict."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9 _.+-]*$"
CLASS_NAME = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"

# Limits far beyond any reasonable value: what lies outside is a typing error, and would overflow, fill the memory or
# never end.
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(ge=1e-6, le=1e6)]
NonNegative = Annotated[float, Field(ge=0, le=1e6)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Days = Annotated[float, Field(ge=1e-6, le=36_525)]
Name = Annotated[str, Field(pattern=NAME, max_length=60)]


class Spec(BaseModel):
    """A part of a scenario: unknown keys are refused, instances are frozen, types are strict.

    Strict: text is never read as a number, nor true as 1, nor 2.0 as an integer; an integer may stand for a float.
    Texts that become something else (`Path`, enums) need ``Field(strict=False)``, tuples `Many`. The schema is built
    at the first validation, when all components are registered.
    """

    short_key: ClassVar[str] = "kind"
    """The key that a text alone stands for, where a text is allowed."""

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
        """Refuse numbers that are almost zero but not zero, alone or in a list; read -0.0 as 0."""
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, float) and 0 < abs(number) < SMALLEST:
                raise ValueError(f"must be 0 or at least {SMALLEST:g}, as far as 0 is allowed, found {number!r}")
        return 0.0 if isinstance(value, float) and value == 0 else value

    @classmethod
    def sibling_kinds(cls) -> tuple[str, ...]:
        """Return kinds of other models that may stand in this one's place, listed where a kind is refused."""
        return ()

    def require_at_most_one(self, *names: str) -> Self:
        """Raise ValueError if several of these optional fields are given."""
        given = [name for name in names if vars(self)[name] is not None]
        if len(given) > 1:
            raise ValueError(f"`{given[0]}` and `{given[1]}` exclude each other: found both, allowed is one")
        return self
