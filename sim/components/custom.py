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
from sim.errors import InvalidValue


class Custom(Parameters):
    """Custom component, imported from `module`; every other key becomes a keyword argument of the class."""

    model_config = ConfigDict(extra="allow")

    is_custom: ClassVar[bool] = True

    kind: Annotated[str, Field(pattern=CLASS_NAME)]
    """Class to import, as ``module:Class``. Running the scenario runs its code, which requires `--allow-code`."""

    _code: CodeAccess = PrivateAttr(default=CodeAccess())

    @property
    def code(self) -> CodeAccess:
        """Whether and from where the class may be imported."""
        return self._code

    def allow(self, code: CodeAccess) -> None:
        """Set whether and from where the class may be imported."""
        self._code = code

    def instance(self, family: str, **given: Any) -> Any:
        """Import the class and construct it with the arguments of the simulator and the keys of the scenario."""
        settings = self.model_extra or {}
        if reserved := sorted(settings.keys() & given.keys()):
            raise ComponentError(
                f"{self.kind}: {', '.join(reserved)} must not be a key of the scenario, since the simulator passes it "
                "as an argument: remove the key",
                code="reserved-key",
            )
        return construct(self.kind, family, self.code, **given, **settings)

    @field_validator("kind")
    @classmethod
    def _not_standard_library(cls, kind: str) -> str:
        if is_standard_library(kind):
            raise InvalidValue(
                f"a custom component must be a class of a local module or an installed package, found {kind!r}, "
                "whose module is part of the Python standard library; rename a local module of this name",
                code="standard-library-class",
            )
        return kind

    @model_validator(mode="after")
    def _finite(self) -> Self:
        for name, value in (self.model_extra or {}).items():
            if not _is_finite(value):
                raise InvalidValue(f"`{name}` must contain only finite numbers, found {value}", code="not-finite")
        return self


def _is_finite(value: Any) -> bool:
    parts: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_is_finite, parts)) and not (isinstance(value, float) and not math.isfinite(value))
