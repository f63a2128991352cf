"""The registry of components: every kind of every family, shipped or from an installed package.

A component registers its parameters with `component`. Schema, validation, `lppm-sim list` and the reference page are
derived from the registry. Shipped components are discovered by importing all modules of their packages; installed
packages declare theirs in the entry point group ``lppm_sim.components``.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import Discriminator, GetCoreSchemaHandler, GetJsonSchemaHandler, Tag
from pydantic_core.core_schema import CoreSchema, no_info_before_validator_function

from sim.components.spec import Spec
from sim.errors import InputError

GROUP = "lppm_sim.components"
"""Entry point group of modules that register components when they are imported."""

CUSTOM = "module:Class"
"""The kind of all custom classes."""


class Parameters(Spec, ABC):
    """Parameters of a component: `kind` names it in scenario files, the optional `build` constructs it."""

    is_custom: ClassVar[bool] = False
    """Whether the component is a custom class, whose properties are unknown until it is imported."""
    group: ClassVar[str] = ""
    """Name of the group in which lists of the family show the component; empty: none."""
    source: ClassVar[str] = ""
    """Source of the component, which lists show; empty: in the documentation only."""

    is_composed: ClassVar[bool] = False
    """Whether the parameters contain those of another component of the same family."""

    kind: str

    def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002
        """Mark the kind as set, so that a dump without defaults includes it."""
        if self.kind is not None:
            self.model_fields_set.add("kind")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core))
        schema["required"] = list(dict.fromkeys(["kind", *schema.get("required", [])]))
        return schema

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Return the kinds of these parameters."""
        annotation = cls.model_fields["kind"].annotation
        members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        return next((get_args(member) for member in members if get_origin(member) is Literal), (CUSTOM,))


ParametersClass = TypeVar("ParametersClass", bound=type[Parameters])


@dataclass(frozen=True, slots=True)
class Family:
    """A family of components."""

    name: str
    place: str
    """Places in a scenario at which a component of the family is allowed."""
    methods: tuple[str, ...] = ()
    """Methods that a custom class must define; a family without any does not allow custom classes."""


FAMILIES = {
    family.name: family
    for family in (
        Family("grid", "world.grid"),
        Family("locations", "world.locations"),
        Family("roads", "world.roads"),
        Family("distance", "world.privacy_distance, world.quality_distance"),
        Family("service", "world.services.<name>, service of a distance"),
        Family("mobility", "users.mobility", ("users", "visits")),
        Family("demand", "users.demand", ("queries",)),
        Family("shift", "shifts, each"),
        Family("training", "training.<name>"),
        Family("belief", "lppms.<name>.belief, attacks.<name>.belief", ("prior", "observe")),
        Family("design", "lppms.<name>.design", ("__call__",)),
        Family("attack", "attacks, each", ("observe",)),
    )
}

METHODS = {
    **{family.name: family.methods for family in FAMILIES.values() if family.methods and family.name != "attack"},
    "lppm": ("channel", "observe"),
    "attack": FAMILIES["attack"].methods,
}
"""Methods that a custom class of each family must define; a complete LPPM is one too, and precedes an attack."""


class Registry:
    """Parameters by family and kind, loaded at first access: shipped packages, then installed ones."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages
        self._loading = False
        self._loaded = False
        self._kinds: dict[str, dict[str, type[Parameters]]] = {name: {} for name in FAMILIES}

    def add(self, family: str, parameters: type[Parameters]) -> None:
        """Register parameters under their kinds; raise InputError for an unknown family or a duplicate kind."""
        if family not in FAMILIES:
            raise InputError(
                f"{_full_name(parameters)}: family must be one of {', '.join(FAMILIES)}, got {family!r}",
                code="unknown-family",
            )
        for kind in parameters.kinds():
            other = self._kinds[family].setdefault(kind, parameters)
            if other is not parameters:
                raise InputError(
                    f"{_full_name(parameters)}: the {family} {kind!r} is already registered by {_full_name(other)}: "
                    "choose another kind",
                    code="duplicate-kind",
                )

    def kinds(self, family: str) -> dict[str, type[Parameters]]:
        """Return the parameters of each kind of a family, in the order of their modules, custom classes last."""
        self._load()
        by_kind = self._kinds.get(family, {}).items()
        return dict(sorted(by_kind, key=lambda item: (item[0] == CUSTOM, item[1].__module__)))

    def models(self, family: str) -> list[type[Parameters]]:
        """Return the parameters of a family, each once."""
        return list(dict.fromkeys(self.kinds(family).values()))

    def _load(self) -> None:
        if self._loaded or self._loading:
            return
        self._loading = True
        try:
            for package in self._packages:
                _import_all(package)
            _import_installed()
            self._loaded = True
        finally:
            self._loading = False


def _import_all(name: str) -> None:
    """Import a package and all modules in it."""
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, prefix=f"{name}."):
        importlib.import_module(module.name)


def _import_installed() -> None:
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            distribution = entry.dist.name if entry.dist is not None else "an installed package"
            raise InputError(
                f"components of {distribution} cannot be imported, entry point {entry.name} = {entry.value}: "
                f"{type(error).__name__}: {error}; repair or uninstall {distribution}",
                code="broken-package",
            ) from error


def _full_name(parameters: type[Parameters]) -> str:
    return f"{parameters.__module__}.{parameters.__qualname__}"


registry = Registry("sim.world", "sim.mobility", "sim.belief", "sim.lppm", "sim.attack")
"""The components of this process."""


def component(family: str) -> Callable[[ParametersClass], ParametersClass]:
    """Register the parameters of a component: ``@component("design")``."""

    def register(parameters: ParametersClass) -> ParametersClass:
        registry.add(family, parameters)
        return parameters

    return register


def kind_of(value: Any) -> str | None:
    """Return the kind of a component, given as a mapping or as parameters."""
    kind = value.get("kind") if isinstance(value, dict) else value.kind if isinstance(value, Parameters) else None
    return kind if isinstance(kind, str) else None


def tag_of(value: Any) -> str | None:
    """Return the tag by which a union selects the parameters of a component."""
    kind = kind_of(value)
    return CUSTOM if kind is not None and ":" in kind else kind


@dataclass(frozen=True, slots=True)
class OneOf:
    """Annotation of a field that holds any kind of a family, written as a mapping or as the kind alone.

    ``design: Annotated[DesignParameters, OneOf("design")]``
    """

    family: str
    tag: Callable[[Any], str | None] = tag_of
    """Function that returns the tag by which the union selects a member."""
    short: bool = True
    """Whether the kind alone may be written instead of the mapping."""
    composed: bool = True
    """Whether kinds that contain a component of the same family are allowed; not inside such a kind."""

    def union(self) -> Any:
        """Return the tagged union of all kinds as an annotation."""
        models = [model for model in registry.models(self.family) if self.composed or not model.is_composed]
        members = tuple(Annotated[model, Tag(model.kinds()[0])] for model in models)
        union: Any = Annotated[Union.__getitem__(members), Discriminator(self.tag)]
        names = [kind for model in models for kind in model.kinds() if kind != CUSTOM]
        return Annotated[union, ShortForm(names=tuple(names))] if self.short else union

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.union())


@dataclass(frozen=True, slots=True)
class ShortForm:
    """Annotation that allows the value of one key instead of the mapping, in files and in the JSON schema."""

    key: str = "kind"
    names: tuple[str, ...] | None = None
    """Values of the key (default: those in the schema of the mapping)."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(lambda value: as_mapping(value, self.key), handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        full = handler(core)
        names = self.names
        if names is None:
            members = [handler.resolve_ref_schema(member) for member in full.get("oneOf", [full])]
            names = tuple(name for member in members for name in _texts(member["properties"][self.key]))
        return {"anyOf": [{"type": "string", "enum": list(names)}, full]}


def as_mapping(value: Any, key: str = "kind") -> Any:
    """Expand the short form of a mapping."""
    return {key: value} if isinstance(value, str) else value


def _texts(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the strings that a property of a JSON schema allows."""
    if "const" in schema:
        yield schema["const"]
    yield from schema.get("enum", [])
    for option in schema.get("anyOf", []):
        yield from _texts(option)
