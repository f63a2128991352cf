"""Parameters of custom components, named in a scenario as ``module:Class``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator

from sim.components.imports import ComponentError, construct
from sim.components.permission import CodeAccess, is_standard_library
from sim.components.registry import Parameters
from sim.components.spec import CLASS_NAME


class Custom(Parameters):
    """Custom component, imported from `module`; every other key goes to the class as a keyword."""

    model_config = ConfigDict(extra="allow")

    is_custom: ClassVar[bool] = True

    kind: Annotated[str, Field(pattern=CLASS_NAME)]
    """``module:Class``. Running the scenario runs this code, which needs permission (`--allow-code`)."""

    _code: CodeAccess = PrivateAttr(default=CodeAccess())

    @property
    def code(self) -> CodeAccess:
        """Whether and from where the class may be imported."""
        return self._code

    def allow(self, code: CodeAccess) -> None:
        """Set whether and from where the class may be imported."""
        self._code = code

    def instance(self, family: str, **given: Any) -> Any:
        """Import the class and make an instance, from what the simulator gives and the keys of the scenario."""
        settings = self.model_extra or {}
        if taken := sorted(settings.keys() & given.keys()):
            raise ComponentError(
                f"{self.kind}: {', '.join(taken)} is given to it by the simulator, found it in the scenario"
            )
        return construct(self.kind, family, self.code, **given, **settings)

    @field_validator("kind")
    @classmethod
    def _not_of_python(cls, kind: str) -> str:
        if is_standard_library(kind):
            raise ValueError(
                f"a custom component is a class of a module of yours or of an installed package, found {kind!r}, "
                "whose module belongs to Python's standard library; rename the module if it is yours"
            )
        return kind

    @model_validator(mode="after")
    def _finite(self) -> Self:
        for name, value in (self.model_extra or {}).items():
            if not _is_finite(value):
                raise ValueError(f"`{name}` must hold finite numbers: a manifest cannot keep others, found {value}")
        return self


def _is_finite(value: Any) -> bool:
    parts: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_is_finite, parts)) and not (isinstance(value, float) and not math.isfinite(value))
