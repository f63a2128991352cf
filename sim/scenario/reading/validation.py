"""Validate data against a model: all faults at once, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sim.scenario.reading.faults import Fault, Loc, ScenarioError
from sim.scenario.reading.schema_walk import Spot, spot_of
from sim.scenario.reading.source import Source
from sim.scenario.reading.wording import TYPE_ERRORS, sentence

Model = TypeVar("Model", bound=BaseModel)


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
