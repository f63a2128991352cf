"""How a mechanism makes a channel of what it believes, as a scenario says it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, Tag, model_validator

from sim.components.kinds import Count, NonNegative, OwnComponent, Share, by_kind, short_form
from sim.scenario.reading.validation import Spec

SolverName = Literal["ipm", "simplex", "clarabel"]


class ExponentialSpec(Spec):
    """Exponential mechanism: reports z with a probability proportional to exp(-epsilon d_Q(x, z))."""

    kind: Literal["exponential"]
    epsilon_per_km: NonNegative | None = None
    """Strength of the pull to the true cell; 1 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of epsilon: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    remap: bool = True
    """Replace each output by the best one for its posterior: never worse for the user, no worse for privacy."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "epsilon_per_km", "quality_budget_km")
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return _depends_on_prior(self)


class LocationHidingSpec(Spec):
    """Location hiding: reports the true cell with probability alpha, else any other cell."""

    kind: Literal["location_hiding"]
    reveal_probability: Share | None = None
    """alpha of the paper; 0.5 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of alpha: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    remap: bool = True
    """Replace each output by the best one for its posterior: never worse for the user, no worse for privacy."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "reveal_probability", "quality_budget_km")
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return _depends_on_prior(self)


def _depends_on_prior(spec: ExponentialSpec | LocationHidingSpec | PlanarGeometricSpec | SnappingSpec) -> bool:
    return spec.remap or spec.quality_budget_km is not None


def _not_both(spec: Spec, parameter: str, budget: str) -> None:
    if getattr(spec, parameter) is not None and getattr(spec, budget) is not None:
        raise ValueError(f"`{parameter}` and `{budget}` exclude each other: found both, allowed is one")


class OptimalPrivacySpec(Spec):
    """Linear program: the most error of the best adversary within a budget of loss (Shokri et al. 2012)."""

    kind: Literal["optimal_privacy"]
    quality_budget_km: NonNegative = 1.0
    """The expected loss by d_Q on the mechanism's own model that is not exceeded."""
    solver: SolverName = "ipm"
    """HiGHS by interior point without crossover or by simplex, or Clarabel (`pip install 'lppm-sim[optimal]'`)."""

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return True


class OptimalQualitySpec(Spec):
    """Linear program: the least loss under geo-indistinguishability (Bordenabe et al. 2014)."""

    kind: Literal["optimal_quality"]
    epsilon_per_km: NonNegative | None = None
    """The promise: no report is over exp(epsilon d) times as likely from one cell as from another; 1 unless said."""
    quality_budget_km: NonNegative | None = None
    """Instead of epsilon: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    metric: Literal["euclidean", "quality", "privacy"] = "euclidean"
    """The distance d of the promise: as the crow flies, or that of the world for quality or for privacy."""
    spanner_dilation: Annotated[float, Field(ge=1, le=10)] = 1.1
    """How far ways along the pairs that are in the program may be longer than d; 1 is exact, more is quicker."""
    solver: SolverName = "ipm"
    """HiGHS by interior point without crossover or by simplex, or Clarabel (`pip install 'lppm-sim[optimal]'`)."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "epsilon_per_km", "quality_budget_km")
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return True


EPSILON_OF_PLACES_PER_KM = (1e-3, 100.0)
"""What `sim.lppm.planar` takes where outputs are places, said here so that a file is read without its mathematics."""


class PlanarLaplaceSpec(Spec):
    """Planar Laplace mechanism: reports the cell of a place drawn with a density that falls as exp(-epsilon r)."""

    kind: Literal["planar_laplace"]
    epsilon_per_km: NonNegative | None = None
    """What it promises, its geo-indistinguishability as the crow flies; 1 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of epsilon: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    discretise: bool = True
    """Report cells. If not, places to the metre, also outside the grid, with epsilon in [0.001, 100]."""
    truncate: Literal["nearest", "renormalise"] = "nearest"
    """Outside the grid, report the nearest cell, which keeps epsilon, or draw again, which keeps 2 epsilon only."""
    remap: bool | None = None
    """Replace each output by the best one for its posterior, which keeps epsilon; done unless said, but to places."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "epsilon_per_km", "quality_budget_km")
        return self

    @model_validator(mode="after")
    def _places(self) -> Self:
        if self.discretise:
            return self
        if self.remap or self.truncate != "nearest":
            raise ValueError(
                "places are neither remapped nor truncated, found `discretise: false` with "
                f"{'`remap: true`' if self.remap else f'`truncate: {self.truncate}`'}: leave one of them out"
            )
        least, most = EPSILON_OF_PLACES_PER_KM
        if self.epsilon_per_km is not None and not least <= self.epsilon_per_km <= most:
            raise ValueError(
                f"with `discretise: false` `epsilon_per_km` must be in [{least}, {most:g}], found {self.epsilon_per_km}"
            )
        if self.quality_budget_km == 0:
            raise ValueError("with `discretise: false` `quality_budget_km` must be positive, found 0")
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        remapped = self.discretise if self.remap is None else self.remap
        return remapped or self.quality_budget_km is not None

    @property
    def countless(self) -> bool:
        """Whether there are too many outputs to list: then there are no expected errors."""
        return not self.discretise


class PlanarGeometricSpec(Spec):
    """Planar geometric mechanism: exp(-epsilon d) on the endless lattice of cells, the nearest cell if outside."""

    kind: Literal["planar_geometric"]
    epsilon_per_km: NonNegative | None = None
    """What it promises, its geo-indistinguishability in `metric`; 1 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of epsilon: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    metric: Literal["euclidean", "manhattan"] = "euclidean"
    """The distance d of the noise and of the promise; whatever d_Q is. Manhattan is the faster one."""
    remap: bool = True
    """Replace each output by the best one for its posterior: never worse for the user, no worse for privacy."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "epsilon_per_km", "quality_budget_km")
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return _depends_on_prior(self)


class IdentitySpec(Spec):
    """No protection: reports the true cell."""

    kind: Literal["identity"]

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return False


class CloakingSpec(Spec):
    """Cloaking: reports the smallest region, of a plane halved again and again, with k people in it to be expected."""

    kind: Literal["cloaking"]
    k: Count | None = None
    """So many people, spread as the belief says, are to be expected in a region; 10 unless it or a budget is given."""
    population: Count = 1000
    """How many people there are in all."""
    quality_budget_km: NonNegative | None = None
    """Instead of k: set the least mass of a region, for each prior, to this expected loss on the mechanism's model."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "k", "quality_budget_km")
        k = DEFAULT_K if self.k is None else self.k
        if self.quality_budget_km is None and k > self.population:
            raise ValueError(
                f"`k` must be at most `population`, found {k} of {self.population} people: "
                "take less of the one or more of the other"
            )
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return True


DEFAULT_K = 10
"""k of cloaking, where neither it nor a budget is said."""


class SnappingSpec(Spec):
    """Snapping: reports the centre of a block of cells, as rounding does."""

    kind: Literal["snapping"]
    cells_per_side: Count | None = None
    """A block has so many rows and columns; 2 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of a size: mix two neighbouring ones, for each prior, to this expected loss on the mechanism's model."""
    remap: bool = True
    """Replace the centre of a block by the best cell for its posterior: never worse for the user."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "cells_per_side", "quality_budget_km")
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return _depends_on_prior(self)


class DroppingSpec(Spec):
    """Dropping: reports the true cell, or with some probability nothing at all."""

    kind: Literal["dropping"]
    drop_probability: Share | None = None
    """How often nothing is reported; 0.5 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of the probability: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    drop_loss_km: NonNegative | None = None
    """What no answer costs; unless said, the service answers for the best cell under the belief, and d_Q counts."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "drop_probability", "quality_budget_km")
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return self.drop_loss_km is None


class DummiesSpec(Spec):
    """Dummies: sends other cells along with the true one, and keeps the answer for that alone."""

    kind: Literal["dummies"]
    dummies: Annotated[int, Field(ge=0, le=1_000_000)] = 3
    """How many others."""
    dummies_from: Literal["belief", "uniform"] = "belief"
    """What they are drawn by: what is believed of the user, so that all are likely places, or evenly."""

    @model_validator(mode="before")
    @classmethod
    def _no_budget(cls, value: Any) -> Any:
        if isinstance(value, dict) and "quality_budget_km" in value:
            raise ValueError(
                "dummies have no `quality_budget_km`: the service answers for every cell of the set, so that nothing "
                "is lost but traffic; say how many `dummies`"
            )
        return value

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return self.dummies_from == "belief"

    @property
    def countless(self) -> bool:
        """Whether there may be too many outputs to list: then there are no expected errors."""
        return self.dummies > 0


DesignSpec = Annotated[
    Annotated[ExponentialSpec, Tag("exponential")]
    | Annotated[LocationHidingSpec, Tag("location_hiding")]
    | Annotated[PlanarLaplaceSpec, Tag("planar_laplace")]
    | Annotated[PlanarGeometricSpec, Tag("planar_geometric")]
    | Annotated[OptimalPrivacySpec, Tag("optimal_privacy")]
    | Annotated[OptimalQualitySpec, Tag("optimal_quality")]
    | Annotated[IdentitySpec, Tag("identity")]
    | Annotated[CloakingSpec, Tag("cloaking")]
    | Annotated[SnappingSpec, Tag("snapping")]
    | Annotated[DroppingSpec, Tag("dropping")]
    | Annotated[DummiesSpec, Tag("dummies")]
    | OwnComponent,
    by_kind,
    short_form,
]
