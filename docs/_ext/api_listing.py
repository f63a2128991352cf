"""Python API: a section for each group of public names, rendered by autodoc."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any


def section(argument: str) -> str:
    """Return autodoc directives for names of a module: `MODULE [NAME...]`, by default all public names."""
    module_name, *names = argument.split()
    module = importlib.import_module(module_name)
    names = names or list(module.__all__)
    return "\n".join(_directive(module, name) for name in names)


def _directive(module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    target = f"{module.__name__}.{name}"
    if inspect.isclass(value):
        directive = f".. autoclass:: {target}\n{_class_options(value)}"
    elif inspect.isroutine(value):
        directive = f".. autofunction:: {target}\n"
    elif isinstance(value, ModuleType):
        directive = f".. automodule:: {target}\n   :members:\n"
    else:
        directive = f".. autodata:: {target}\n   :no-value:\n"
    return f"```{{eval-rst}}\n{directive}```\n"


def _class_options(value: type[Any]) -> str:
    options = "   :members:\n"
    if issubclass(value, BaseException):
        return options + "   :show-inheritance:\n"
    if fields := getattr(value, "model_fields", None):  # the page of scenario keys explains the fields of models
        return options + f"   :exclude-members: {', '.join(fields)}, model_config, model_post_init\n"
    return options
