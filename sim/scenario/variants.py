"""Variants of a scenario that differ in a few values: shared parts are validated once.

The top-level parts of a scenario are validated independently of each other; rules between parts are checked separately
on the plain data (`sim.scenario.consistency`). In a sweep over several parts each value is therefore validated once,
and only values of the same part are validated in all combinations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import cache
from typing import Any

from pydantic import create_model

from sim.components.spec import Spec
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import Loc
from sim.scenario.reading.paths import assign

Changes = Mapping[Loc, Any]
"""Values to set, by their place in the data, applied in order."""


class Variants:
    """Scenarios made from a valid one by changing some values.

    `data` are the plain data of `scenario`. Parts with equal changes are built once, so two variants hold the same
    object. `validations` counts the validated parts.
    """

    def __init__(self, scenario: Scenario, data: dict[str, Any], context: Mapping[str, Any] | None = None) -> None:
        self._scenario = scenario
        self._data = dict(data)
        self._context = dict(context or {})
        self._set = frozenset(scenario.model_fields_set - {"sweep"})
        self._fields: dict[str, Any] = {name: getattr(scenario, name) for name in type(scenario).model_fields}
        self._plain: dict[Any, Any] = {}
        self._parts: dict[Any, Any] = {}
        self.validations = 0

    def plain(self, changes: Changes) -> dict[str, Any]:
        """Return the plain data with the changes applied."""
        return self._data | {part: self._plain_part(part, own) for part, own in _by_part(changes).items()}

    def validate(self, changes: Changes) -> None:
        """Validate the changed parts; raise pydantic's ValidationError if one is invalid."""
        for part, own in _by_part(changes).items():
            self._part(part, own)

    def scenario(self, changes: Changes) -> Scenario:
        """Return the scenario with the changes, without a sweep; raise ValidationError if it is invalid."""
        parts = {part: self._part(part, own) for part, own in _by_part(changes).items()}
        fields = self._fields | parts | {"sweep": {}}
        made = Scenario.model_construct(_fields_set=set(self._set | parts.keys()), **fields)
        return made.beside(self._scenario)

    def _plain_part(self, part: str, changes: Changes) -> Any:
        key = _key(part, changes)
        if key not in self._plain:
            touched = _elements(self._data.get(part), changes)
            data = {part: self._data[part]} if part in self._data else {}
            if touched is not None:  # `assign` copies its data: leave out the other elements
                data = {part: [item if i in touched else None for i, item in enumerate(self._data[part])]}
            for loc, value in changes.items():
                data = assign(data, loc, value, model=self._scenario)
            self._plain[key] = data[part] if touched is None else _filled(data[part], self._data[part], touched)
        return self._plain[key]

    def _part(self, part: str, changes: Changes) -> Any:
        """Return one validated part; unchanged elements of a list are taken from the valid scenario."""
        key = _key(part, changes)
        if key not in self._parts:
            data, touched = self._plain_part(part, changes), _elements(self._data.get(part), changes)
            if touched is not None:
                data = _filled(data, self._fields[part], touched)
            made = _alone(part).model_validate({part: data}, context=self._context)
            value = self._parts[key] = getattr(made, part)
            fresh = [made] if touched is None else [value[i] for i in touched if isinstance(i, int)]
            self._scenario.allow_code_in(*fresh)
            self.validations += 1
        return self._parts[key]


def _elements(data: Any, changes: Changes) -> set[str | int] | None:
    """Return the indices of the changed elements of a list; None if it is not a list, or is replaced as a whole."""
    whole = not isinstance(data, list) or any(len(loc) < 2 for loc in changes)
    return None if whole else {loc[1] for loc in changes}


def _filled(data: Sequence[Any], others: Sequence[Any], touched: Set[str | int]) -> list[Any]:
    """Return a list with the touched elements of `data` and the other elements of `others`."""
    return [new if i in touched else old for i, (new, old) in enumerate(zip(data, others, strict=True))]


@cache
def _alone(part: str) -> type[Spec]:
    """Return a model with one field of the scenario and its validation."""
    info = Scenario.model_fields[part]
    fields: Any = {part: (info.annotation, info)}
    return create_model(f"Scenario_{part}", __base__=Spec, **fields)


def _by_part(changes: Changes) -> dict[str, dict[Loc, Any]]:
    """Group the changes by top-level part."""
    parts: dict[str, dict[Loc, Any]] = {}
    for loc, value in changes.items():
        parts.setdefault(str(loc[0]), {})[loc] = value
    return parts


def _key(part: str, changes: Changes) -> Any:
    return part, tuple((loc, frozen(value, typed=True)) for loc, value in changes.items())


def frozen(value: Any, *, typed: bool = False) -> Any:
    """Return a hashable key that is equal for equal values; with `typed`, 1, 1.0 and true are different.

    >>> frozen([1, {"a": 2.0}]) == frozen([1.0, {"a": 2}])
    True
    >>> frozen(1, typed=True) == frozen(True, typed=True)
    False
    """
    if isinstance(value, dict):
        return dict, tuple((key, frozen(value[key], typed=typed)) for key in sorted(value, key=repr))
    if isinstance(value, list | tuple):
        return list, tuple(frozen(item, typed=typed) for item in value)
    return (type(value), value) if typed else value
