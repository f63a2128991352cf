"""The base of all scenario models, and how data become one: every fault at once, in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from sim.scenario.reading.faults import Fault, Loc, ScenarioError
from sim.scenario.reading.schema_walk import Spot, spot_of
from sim.scenario.reading.source import Source
from sim.scenario.reading.wording import TYPE_ERRORS, sentence

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)

SMALLEST = 1e-12
"""Numbers nearer to 0 are refused: nobody means them, and products of them underflow."""

Many = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in the file, a tuple in the model: strict mode would ask for a tuple in the file. Its elements stay strict."""


class Spec(BaseModel):
    """A part of a scenario: unknown keys are refused, nothing changes later, numbers are numbers.

    Strict: text is never read as a number, nor true as 1, nor 2.0 as a whole number; a whole number may stand
    for a float. Texts that become something else (`Path`, enums) need ``Field(strict=False)``, tuples `Many`.
    """

    short_key: ClassVar[str] = "kind"
    """The key that a text alone stands for, where that is allowed."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @field_validator("*", mode="after")
    @classmethod
    def _not_tiny(cls, value: Any) -> Any:
        """Refuse numbers that are as good as zero but not zero, alone or in a list; read -0.0 as 0."""
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, float) and 0 < abs(number) < SMALLEST:
                raise ValueError(f"must be 0 or at least {SMALLEST:g}, as far as 0 is allowed, found {number!r}")
        return 0.0 if isinstance(value, float) and value == 0 else value


def validate(
    model: type[Model],
    source: Source,
    *,
    context: Mapping[str, Any] | None = None,
    findings: Iterable[tuple[Loc, str]] = (),
) -> Model:
    """Make a model of the data, or raise ScenarioError with all that is wrong with them.

    `context` goes to the model's validators. `findings` are further faults, found elsewhere, each with its place.
    """
    faults = [*source.faults, *(source.fault(loc, message) for loc, message in findings)]
    try:
        built = model.model_validate(source.data, context=dict(context or {}))
    except ValidationError as error:
        raise ScenarioError([*faults, *faults_of(error, model, source)]) from None
    if faults:
        raise ScenarioError(faults)
    return built


def faults_of(error: ValidationError, model: type[BaseModel], source: Source) -> list[Fault]:
    """Turn what pydantic found into faults with a place in the file."""
    spots = [spot_of(model, source.data, detail) for detail in error.errors(include_url=False)]
    groups: dict[Loc, list[Spot]] = {}
    for spot in _without_echoes(spots):
        groups.setdefault(spot.loc, []).append(spot)
    return [source.fault(spot.loc, message, spot.of) for same in groups.values() for spot, message in _sentences(same)]


def _sentences(spots: list[Spot]) -> list[tuple[Spot, str]]:
    """Say each thing once: a value that fits no member of a union is one fault, not one for each member."""
    shapes = [spot for spot in spots if spot.error in TYPE_ERRORS]
    others = [spot for spot in spots if spot.error not in TYPE_ERRORS]
    known = [spot for spot in others if spot.error != "extra_forbidden"]
    if known or not shapes:  # the members that know the key and its type have the most to say
        others = known or others
        return [(spot, sentence([spot])) for spot in others]
    return [(shapes[0], sentence(shapes))]


def _without_echoes(spots: list[Spot]) -> list[Spot]:
    """Leave out what only follows from another fault.

    Which keys are missing is not known while the kind is wrong. And a value of the wrong type has no faults
    inside, unless another member of a union was of the right type: then that one counts.
    """
    wrong_kinds = {spot.kind_of for spot in spots if spot.kind_of is not None and spot.error != "missing"}
    spots = [spot for spot in spots if spot.error != "missing" or spot.loc[:-1] not in wrong_kinds]
    above = {spot.loc[:length] for spot in spots for length in range(len(spot.loc))}
    return [spot for spot in spots if spot.error not in TYPE_ERRORS or spot.loc not in above]
