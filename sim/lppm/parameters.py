"""Parameters that all designs share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

from pydantic import ConfigDict, model_validator

from sim.components.custom import Custom
from sim.components.registry import Parameters, component
from sim.errors import InvalidValue
from sim.inference.dense import require_dense
from sim.interfaces import Design
from sim.lppm.strength import RealisedBudget, StrengthRange
from sim.world import World
from sim.world.locations import Locations


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortNames:
    """Short names of LPPMs that use a design: ``<belief>-<design>``, and ``<design>`` alone."""

    design: str
    """Short name of the design, such as ``Exp``."""
    beliefs: tuple[str, ...] = ()
    """Short names of the beliefs that the design is combined with, such as ``PEB``."""
    full: bool = False
    """Whether ``PEB-full-<design>`` exists, which learns from true cells."""
    alone: dict[str, Any] | None = field(default=None)
    """Parameters of the name ``<design>`` alone, for designs that ignore the belief; None without such a name."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Parameters of the design in all these names, if they differ from its defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSize:
    """Size of a world and the kinds of its distances, known before it is built."""

    n_cells: int
    quality: str
    """Kind of the quality distance d_Q, such as ``manhattan``."""
    privacy: str
    """Kind of the privacy distance d_P."""

    def require_dense(self) -> None:
        """Raise `InvalidValue` if the channel as a matrix is too large."""
        require_dense(self.n_cells, "the probabilities of all outputs in all cells")

    def require_dense_unless(self, *kinds: str) -> None:
        """Raise `InvalidValue` if the channel as a matrix is too large, unless d_Q is of one of these kinds."""
        if self.quality not in kinds:
            self.require_dense()

    def require_plane(self) -> None:
        """Raise `InvalidValue` if d_Q is not defined for all points of the plane."""
        if self.quality not in ("euclidean", "manhattan"):
            raise InvalidValue(
                f"`remap: plane` needs the quality distance euclidean or manhattan, found {self.quality}: use "
                "`remap: true`, which remaps to a location",
                code="needs-plane",
            )


class DesignParameters(Parameters):
    """Parameters of a design."""

    short_names: ClassVar[ShortNames | tuple[ShortNames, ...] | None] = None
    """Short names; several if names differ in the parameters of the design."""
    needs_coordinates: ClassVar[bool] = False
    """Whether the design needs locations with latitudes and longitudes."""

    without_grid: ClassVar[str] = "another design"
    """Replacement on locations other than the cells of a grid, if the design needs them."""

    @property
    def needs_grid(self) -> bool:
        """Whether the design needs the cells of a grid, in rows and columns."""
        return False

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return True

    @property
    def countless(self) -> bool:
        """Whether there may be too many outputs to enumerate; then expected errors are not computed."""
        return False

    @property
    def has_memory(self) -> bool:
        """Whether outputs depend on a secret of the mechanism: `DesignCapabilities.hidden_state` of the design."""
        return False

    @property
    def approximation(self) -> str:
        """Approximation that adversaries make who track the secret, as the end of a sentence; empty if exact."""
        return ""

    @property
    def sees_past(self) -> bool:
        """Whether the channel depends on the time or past releases: `DesignCapabilities.channel_at` of the design."""
        return False

    @property
    def budget_km(self) -> float | None:
        """Expected loss in km that the design is calibrated to; None without a budget."""
        return None

    @property
    def realised_budget(self) -> RealisedBudget | None:
        """Budget of the loss in the run, which replaces the strength by simulations; None without one."""
        return None

    @property
    def strength_range(self) -> StrengthRange | None:
        """The parameter that a realised budget replaces; None if the design has no such parameter."""
        return None

    def with_strength(self, strength: float) -> Self:
        """Return the design with a fixed strength instead of a budget, validated."""
        span = self.strength_range
        if span is None:
            raise TypeError(f"the design {self.kind} has no strength")
        value = round(strength) if span.whole else float(strength)
        made = type(self).model_validate(self.model_dump() | {"quality_budget_km": None} | {span.name: value})
        made.model_fields_set.intersection_update((self.model_fields_set | {span.name}) - {"quality_budget_km"})
        made.model_fields_set.add(span.name)
        return made

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the design needs something that is refused in a world of this size.

        Called while a run is planned. The default, for designs without a matrix over all pairs of cells, does nothing.
        """

    def step(self, locations: Locations) -> tuple[str, float, float] | None:  # noqa: ARG002
        """Return the smallest step in km of the mechanism's own grid, after the parameter that sets it and its value.

        On larger cells of the world, the mechanism cannot have its effect. None: the mechanism has no grid of its own.
        """
        return None

    @abstractmethod
    def build(self, world: World) -> Design:
        """Return the design."""


class CalibratedParameters(DesignParameters):
    """Parameters of a design with a fixed strength, or one calibrated to `quality_budget_km` for each prior."""

    strength_name: ClassVar[str]
    """Name of the strength parameter, which a budget replaces."""
    default_strength: ClassVar[float]
    """Strength if neither strength nor budget is given."""

    @property
    def budget_km(self) -> float | None:
        """Expected loss in km that the design is calibrated to under its own model; None without such a budget."""
        budget = vars(self)["quality_budget_km"]
        return None if isinstance(budget, RealisedBudget) else cast("float | None", budget)

    @property
    def realised_budget(self) -> RealisedBudget | None:
        """Budget of the loss in the run, which replaces the strength by simulations; None without one."""
        budget = vars(self)["quality_budget_km"]
        return budget if isinstance(budget, RealisedBudget) else None

    @property
    @abstractmethod
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""

    @property
    def strength(self) -> float | None:
        """Strength, or its default; None with a budget. Raise `InvalidValue` for a realised budget."""
        require_calibrated(self)
        given = cast("float | None", vars(self)[self.strength_name])
        return self.default_strength if given is None and self.budget_km is None else given

    @model_validator(mode="after")
    def _strength_or_budget(self) -> Self:
        return self.require_at_most_one(self.strength_name, "quality_budget_km")


def require_calibrated(design: DesignParameters) -> None:
    """Raise `InvalidValue` if a design has a realised budget: only a run, which simulates, can replace it."""
    if (budget := design.realised_budget) is not None:
        raise InvalidValue(
            f"`quality_budget_km: {{realised: {budget.realised:g}}}` refers to the users of a run, which "
            "calibrates it: run the scenario, or give a number",
            code="uncalibrated-budget",
        )


@component("design")
class CustomDesign(Custom, DesignParameters):
    """Custom design, imported from `module`."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _own_model_only(self) -> Self:
        budget = (self.model_extra or {}).get("quality_budget_km")
        if isinstance(budget, dict) and "realised" in budget:
            raise InvalidValue(
                "a custom design has no known strength parameter, so it cannot be calibrated to a realised loss: "
                "sweep its parameter instead",
                code="no-strength",
            )
        return self

    @property
    def budget_km(self) -> float | None:
        """Value of the key `quality_budget_km` if it is a number, otherwise None."""
        budget = (self.model_extra or {}).get("quality_budget_km")
        return float(budget) if isinstance(budget, int | float) else None

    def build(self, world: World) -> Design:
        """Return an instance of the class, constructed with the world."""
        return cast(Design, self.instance("design", world=world))
