"""Validate data against a model; all faults are reported together, each with its position in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sim.scenario.reading.faults import Fault, Finding, Loc, ScenarioError
from sim.scenario.reading.schema_walk import Spot, spot_of
from sim.scenario.reading.source import Source
from sim.scenario.reading.wording import TYPE_ERRORS, code, sentence

Model = TypeVar("Model", bound=BaseModel)


def validate(
    model: type[Model],
    source: Source,
    *,
    context: Mapping[str, Any] | None = None,
    findings: Iterable[Finding] = (),
) -> Model:
    """Return the validated model of the data; raise ScenarioError with all faults if they are invalid.

    `context` is passed to the model's validators. `findings` are faults of other checks, which are reported as well.
    """
    faults = [*source.faults, *(source.fault(*finding) for finding in findings)]
    try:
        built = model.model_validate(source.data, context=dict(context or {}))
    except ValidationError as error:
        raise ScenarioError([*faults, *faults_of(error, model, source)]) from None
    if faults:
        raise ScenarioError(faults)
    return built


def faults_of(error: ValidationError, model: type[BaseModel], source: Source) -> list[Fault]:
    """Convert pydantic's errors to faults with a position in the file."""
    spots = [spot_of(model, source.data, detail) for detail in error.errors(include_url=False)]
    groups: dict[Loc, list[Spot]] = {}
    for spot in _without_consequences(spots):
        groups.setdefault(spot.loc, []).append(spot)
    return [
        source.fault(same[0].loc, sentence(same), code(same), same[0].of)
        for at_one_place in groups.values()
        for same in _distinct(at_one_place)
    ]


def _distinct(spots: list[Spot]) -> list[list[Spot]]:
    """Group the spots of one place by fault: a value that fits no member of a union is one fault, not one for each."""
    shapes = [spot for spot in spots if spot.error in TYPE_ERRORS]
    others = [spot for spot in spots if spot.error not in TYPE_ERRORS]
    known = [spot for spot in others if spot.error != "extra_forbidden"]
    if known or not shapes:  # prefer the union members that have the key, with the right type
        others = known or others
        return [[spot] for spot in others]
    return [shapes]


def _without_consequences(spots: list[Spot]) -> list[Spot]:
    """Remove errors that only follow from other errors.

    If the kind is wrong, the required keys are unknown. A wrong type at a location is dropped if another member of the
    union had the right type, so that there are errors below the location.
    """
    wrong_kinds = {spot.kind_of for spot in spots if spot.kind_of is not None and spot.error != "missing"}
    spots = [spot for spot in spots if spot.error != "missing" or spot.loc[:-1] not in wrong_kinds]
    above = {spot.loc[:length] for spot in spots for length in range(len(spot.loc))}
    return [spot for spot in spots if spot.error not in TYPE_ERRORS or spot.loc not in above]
