"""Scenarios that differ in a few values: what they share is validated once.

The top-level parts of a scenario are validated independently of each other; what parts ask of each other is checked
apart, on the plain data (`sim.scenario.consistency`). So of a sweep over several parts each value is validated once,
and only values of the same part are validated in all their combinations.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import create_model

from sim.scenario.faults import Loc
from sim.scenario.models import Scenario
from sim.scenario.paths import assign
from sim.scenario.spec import Spec

Changes = Mapping[Loc, Any]
"""Values to set, by their place in the data; later ones are set on top of earlier ones."""


class Variants:
    """Makes scenarios from the data of a valid one with some values changed.

    `data` are the plain data that `scenario` was made of. Parts with the same changes are made once: two variants
    then hold the same object. `validations` counts how many parts were validated.
    """

    def __init__(self, scenario: Scenario, data: dict[str, Any], context: Mapping[str, Any] | None = None) -> None:
        self._scenario = scenario
        self._data = {key: value for key, value in data.items() if key != "sweep"}
        self._context = dict(context or {})
        self._set = frozenset(scenario.model_fields_set - {"sweep"})
        self._fields = {name: getattr(scenario, name) for name in type(scenario).model_fields if name != "sweep"}
        self._plain: dict[Any, Any] = {}
        self._made: dict[Any, Any] = {}
        self.validations = 0

    def plain(self, changes: Changes) -> dict[str, Any]:
        """Return the data with the changes."""
        return self._data | {part: self._plain_part(part, own) for part, own in _by_part(changes).items()}

    def validate(self, changes: Changes) -> None:
        """Raise pydantic's ValidationError unless the parts with changes are valid."""
        for part, own in _by_part(changes).items():
            self._part(part, own)

    def scenario(self, changes: Changes) -> Scenario:
        """Return the scenario with the changes, without a sweep; raise ValidationError if it is not valid."""
        parts = {part: self._part(part, own) for part, own in _by_part(changes).items()}
        made = Scenario.model_construct(_fields_set=set(self._set | parts.keys()), **self._fields | parts)
        return made.at(*self._scenario.place)

    def _plain_part(self, part: str, changes: Changes) -> Any:
        key = _key(part, changes)
        if key not in self._plain:
            data = {part: self._data[part]} if part in self._data else {}
            for loc, value in changes.items():
                data = assign(data, loc, value, model=self._scenario)
            self._plain[key] = data[part]
        return self._plain[key]

    def _part(self, part: str, changes: Changes) -> Any:
        """Return one validated part."""
        key = _key(part, changes)
        if key not in self._made:
            data = self._with_elements(part, self._plain_part(part, changes), changes)
            self._made[key] = getattr(_alone(part).model_validate({part: data}, context=self._context), part)
            self.validations += 1
        return self._made[key]


    def _with_elements(self, part: str, data: Any, changes: Changes) -> Any:
        """Return the data of a part; of a list, elements without changes are those that were validated before."""
        before = self._fields[part]
        touched = {loc[1] if len(loc) > 1 else None for loc in changes}
        if not (isinstance(data, list) and isinstance(before, list)) or None in touched or len(data) != len(before):
            return data
        return [new if i in touched else old for i, (new, old) in enumerate(zip(data, before, strict=True))]


@cache
def _alone(part: str) -> type[Spec]:
    """Return a model with one field of the scenario, which asks of it what the scenario does."""
    info = Scenario.model_fields[part]
    fields: Any = {part: (info.annotation, info)}
    return create_model(f"Scenario_{part}", __base__=Spec, **fields)


def _by_part(changes: Changes) -> dict[str, dict[Loc, Any]]:
    """Return the changes of each top-level part."""
    parts: dict[str, dict[Loc, Any]] = {}
    for loc, value in changes.items():
        parts.setdefault(str(loc[0]), {})[loc] = value
    return parts


def _key(part: str, changes: Changes) -> Any:
    return part, tuple((loc, frozen(value, typed=True)) for loc, value in changes.items())


def frozen(value: Any, *, typed: bool = False) -> Any:
    """Return something hashable that is the same for values that are the same; `typed` tells 1, 1.0 and true apart.

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
