"""Validate data against a model: all faults at once, each with its place in the file."""

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
    """Make a model of the data, or raise ScenarioError with all that is wrong with them.

    `context` goes to the model's validators. `findings` are further faults, found elsewhere, each with its place.
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
    """Turn what pydantic found into faults with a place in the file."""
    spots = [spot_of(model, source.data, detail) for detail in error.errors(include_url=False)]
    groups: dict[Loc, list[Spot]] = {}
    for spot in _without_echoes(spots):
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
    if known or not shapes:  # the members that know the key and its type have the most to say
        others = known or others
        return [[spot] for spot in others]
    return [shapes]


def _without_echoes(spots: list[Spot]) -> list[Spot]:
    """Leave out what only follows from another fault.

    Which keys are missing is not known while the kind is wrong. And a value of the wrong type has no faults
    inside, unless another member of a union was of the right type: then that one counts.
    """
    wrong_kinds = {spot.kind_of for spot in spots if spot.kind_of is not None and spot.error != "missing"}
    spots = [spot for spot in spots if spot.error != "missing" or spot.loc[:-1] not in wrong_kinds]
    above = {spot.loc[:length] for spot in spots for length in range(len(spot.loc))}
    return [spot for spot in spots if spot.error not in TYPE_ERRORS or spot.loc not in above]
