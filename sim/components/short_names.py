"""Short names: one word for a composed component, such as ``PEB-Exp`` or ``markov``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.components.registry import as_mapping
from sim.components.spec import Spec
from sim.components.wording import shown
from sim.errors import InvalidValue

Table = Mapping[str, Mapping[str, Any]]
"""The parts of each short name as plain data."""


def expand(value: Any, table: Table) -> Any:
    """Expand a short name into its parts. A part may have other parameters, but not another kind."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or value["kind"] not in table:
        return value
    filled = {"name": value["kind"], **table[value["kind"]], **value}
    for part, default in table[value["kind"]].items():
        given = as_mapping(filled[part])
        if not isinstance(default, dict) or not isinstance(given, dict):
            continue
        if "kind" in default and given.get("kind", default["kind"]) != default["kind"]:
            raise InvalidValue(
                f"{value['kind']} has the {part} {default['kind']}, found {shown(given['kind'])}: to compose another "
                "component, replace `kind` by `name`, a belief and, for an LPPM, a design",
                code="conflicting-kind",
            )
        filled[part] = default | given
    return filled


def unset_expanded(spec: Spec, value: Any) -> None:
    """Mark only the keys of the file as set, so that a sweep over short names does not keep the parts of this one."""
    if not isinstance(value, dict):
        return
    spec.model_fields_set.intersection_update(value)
    for part in ("belief", "design"):
        if isinstance(value.get(part), dict) and "kind" not in value[part]:
            vars(spec)[part].model_fields_set.discard("kind")


def allow_short_names(schema: dict[str, Any], *parts: str) -> dict[str, Any]:
    """Extend a JSON schema: allow a short name instead of its parts, and parts without their kind."""
    without_kind = {"type": "object", "not": {"required": ["kind"]}}
    for part in parts:
        schema["properties"][part] = {"anyOf": [schema["properties"][part], without_kind]}
    required = [name for name in schema.pop("required") if name != "kind"]
    schema["anyOf"] = [{"required": ["kind"]}, {"required": required}]
    return schema
