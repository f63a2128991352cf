"""Python API: the public names of `sim` by group, rendered by autodoc."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from sphinx.errors import ExtensionError

import sim

GROUPS = {
    "scenarios": ("sim.scenario", "sim.api.scenario", "sim.storage.load", "sim.api.listing"),
    "results": ("sim.api.run", "sim.api.choose", "sim.api.result", "sim.execution", "sim.analysis", "sim.simulation"),
    "components": ("sim.api.lppm", "sim.api.attack", "sim.api.checking", "sim.lppm"),
    "protection": ("sim.api.protect", "sim.api.export_mechanism", "sim.protection"),
    "world": ("sim.world", "sim.mobility", "sim.api.world", "sim.api.frames", "sim.api.statistics", "sim.rng"),
    "events": ("sim.events",),
    "protocols": ("sim.interfaces",),
    "errors": ("sim.errors",),
}
"""Modules of each group; exceptions of any module are errors."""

FURTHER = {
    "events": [("sim.events", name) for name in ("Visit", "Query", "Report", "Guess", "Shift")],
    "protocols": [
        ("sim.interfaces", name)
        for name in ("Mobility", "Demand", "Belief", "Design", "Channel", "OwnOutputs", "OutputSpace", "LPPM", "Attack")
    ],
    "world": [
        *(("sim.world", name) for name in ("World", "Locations", "Grid", "LocationSet", "Distance")),
        ("sim.mobility.statistics", "Statistics"),
    ],
    "errors": [("sim.errors", name) for name in ("UserError", "InputError", "InvalidValue")],
}
"""Names that are documented even if `sim` does not export them."""


def section(group: str) -> str:
    """Return the autodoc directives of a group: functions first, then classes, each in alphabetical order."""
    public = [name for name in _public() if _group(getattr(sim, name)) == group]
    targets = {f"sim.{name}": getattr(sim, name) for name in public}
    for module, name in FURTHER.get(group, []):
        if name not in public:
            targets[f"{module}.{name}"] = getattr(importlib.import_module(module), name)
    ordered = sorted(targets, key=lambda target: (inspect.isclass(targets[target]), target.rpartition(".")[2]))
    return "\n".join(_directive(target, targets[target]) for target in ordered)


def _public() -> list[str]:
    return [name for name in sim.__all__ if not name.startswith("_")]


def _group(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        return "errors"
    home = value.__module__
    matches = [
        (len(prefix), group) for group, prefixes in GROUPS.items() for prefix in prefixes if _below(home, prefix)
    ]
    if not matches:
        raise ExtensionError(
            f"{home}.{value.__name__} is public but in no group: add its module to docs/_ext/api_listing.py"
        )
    return max(matches)[1]


def _below(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def _directive(target: str, value: Any) -> str:
    if inspect.isclass(value):
        directive = f".. autoclass:: {target}\n{_class_options(value)}"
    else:
        directive = f".. autofunction:: {target}\n"
    return f"```{{eval-rst}}\n{directive}```\n"


def _class_options(value: type[Any]) -> str:
    options = "   :members:\n"
    if issubclass(value, BaseException):
        return options + "   :show-inheritance:\n"
    if fields := getattr(value, "model_fields", None):  # the page of scenario keys explains the fields of models
        return options + f"   :exclude-members: {', '.join(fields)}, model_config, model_post_init\n"
    return options
