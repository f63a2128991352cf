"""Parameters given in Python, checked by the models of scenario files."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from sim.components.imports import ComponentError, defined_in
from sim.components.registry import METHODS, Parameters, as_mapping
from sim.components.suggestions import suggestion
from sim.components.wording import shown
from sim.scenario.reading.faults import Fault, ScenarioError
from sim.scenario.reading.python_source import PythonSource
from sim.scenario.reading.validation import validate

Model = TypeVar("Model", bound=BaseModel)


def plain(value: Any) -> Any:
    """Return a value as a scenario file would hold it: mappings, lists, text, numbers, booleans and None.

    Parameter objects become mappings, arrays, tuples and ranges become lists, paths become text, and a class becomes
    its name ``module:Class``.

    >>> import numpy as np
    >>> plain({"epsilon_per_km": np.float64(0.5), "snapshots": range(1, 3)})
    {'epsilon_per_km': 0.5, 'snapshots': [1, 2]}
    """
    match value:
        case BaseModel():
            return value.model_dump(mode="json", exclude_unset=True)
        case Mapping():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple() | range() | set() | frozenset():
            return [plain(item) for item in value]
        case os.PathLike():
            return os.fspath(value)
        case type():
            return class_name(value)
    return value.tolist() if hasattr(value, "tolist") else value


def class_name(component: type[Any]) -> str:
    """Return ``module:Class``; raise ComponentError for a class that another process could not import.

    >>> from sim.lppm.mechanism import Mechanism
    >>> class_name(Mechanism)
    'sim.lppm.mechanism:Mechanism'
    """
    module, name = component.__module__, component.__qualname__
    if module == "__main__" or "." in name:
        raise ComponentError(
            f"class {name} of {module} cannot be part of a scenario: a run and its worker processes import it by name. "
            "Write it at the top level of a file, in a notebook by starting its cell with `%%writefile my_module.py`, "
            "and import it from there",
            code="class-not-importable",
        )
    return f"{module}:{name}"


def classes_in(value: Any) -> Iterator[type[Any]]:
    """Yield every class in nested mappings and lists."""
    if isinstance(value, type):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from classes_in(item)


def validated(model: type[Model], data: Any, origin: str) -> Model:
    """Return a model made of data given to the function `origin`; raise ScenarioError with all faults."""
    return validate(model, PythonSource(name=origin, data=data))


def mapping_of(value: Any) -> dict[str, Any]:
    """Return a component given as a kind, a mapping or a parameter object, as a mapping."""
    data = as_mapping(plain(value))
    return dict(data) if isinstance(data, dict) else {"kind": data}


def is_description(value: Any) -> bool:
    """Return whether a value describes a component, by kind, mapping or parameters, rather than being one."""
    return value is None or isinstance(value, str | Mapping | Parameters)


def assign_keywords(
    origin: str, keywords: Mapping[str, Any], fields: Mapping[str, Iterable[str]], custom: str | None = None
) -> dict[str, dict[str, Any]]:
    """Return the keywords of each part of a component, by the part that has a parameter of that name.

    `fields` holds the parameter names of each part; the part `custom`, a class, receives all other keywords. Raise
    ScenarioError for a name that belongs to no part, or to several.
    """
    known = {part: list(names) for part, names in fields.items()}
    assigned: dict[str, dict[str, Any]] = {part: {} for part in (*known, *([custom] if custom else []))}
    faults = []
    for name, value in keywords.items():
        parts = [part for part, names in known.items() if name in names] or ([custom] if custom else [])
        if len(parts) == 1:
            assigned[str(parts[0])][name] = plain(value) if parts[0] != custom else value
        else:
            faults.append(_unassigned(origin, name, parts, known))
    if faults:
        raise ScenarioError(faults)
    return assigned


def _unassigned(origin: str, name: str, parts: list[Any], known: Mapping[str, list[str]]) -> Fault:
    if parts:
        example = f"{parts[0]}={{{name!r}: ...}}"
        message = f"a parameter of {' and of '.join(parts)}; give it as {example}"
        return Fault(origin, name, message, code="ambiguous-parameter")
    allowed = list(dict.fromkeys(field for names in known.values() for field in names))
    message = f"unknown key{suggestion(name, allowed)}; allowed: {', '.join(allowed)}"
    return Fault(origin, name, message, code="unknown-key")


def field_names(parameters: type[BaseModel]) -> list[str]:
    """Return the names of parameters that may be given as keywords."""
    return [name for name in parameters.model_fields if name != "kind"]


def custom_component(component: Any, family: str, /, **arguments: Any) -> Any:
    """Return a custom component: an object as it is, a class constructed with the arguments.

    Raise ComponentError if a method of the family is missing. Errors of the constructor are raised unchanged.
    """
    cls = component if inspect.isclass(component) else type(component)
    is_function = family == "design" and not inspect.isclass(component) and callable(component)
    missing = [method for method in METHODS[family] if not callable(defined_in(cls, method)) and not is_function]
    if missing:
        raise ComponentError(
            f"a {family} must be a kind, a mapping, or an object or class with {', '.join(METHODS[family])}; "
            f"{shown(component)} does not define {', '.join(missing)}",
            code="missing-method",
        )
    return component(**arguments) if inspect.isclass(component) else component
