"""The optimal geo-indistinguishable mechanism (Bordenabe et al., CCS 2014)."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sim.components.registry import component
from sim.components.spec import NonNegative
from sim.errors import InputError
from sim.interfaces import FloatArray
from sim.lppm.cache import Solved
from sim.lppm.calibration import BUDGET_TOLERANCE_KM
from sim.lppm.linear import Solver, SolverError
from sim.lppm.optimal_design import NO_CERTIFICATE, VERIFIED, OptimalDesign, gap_fault, has_form, loss_weights, verify
from sim.lppm.parameters import CalibratedParameters, ShortNames, WorldSize
from sim.lppm.programs import enforce_epsilon, epsilon_violation, least_loss, loss_bound_km, undominated
from sim.lppm.spanner import Spanner, greedy_spanner
from sim.lppm.spanner import metric as greatest_metric
from sim.lppm.strength import RealisedBudget, StrengthRange, epsilon_range
from sim.world import World
from sim.world.distance import Distance


@component("design")
class OptimalQualityParameters(CalibratedParameters):
    """Optimal geo-indistinguishable mechanism: minimises the quality loss for an epsilon (Bordenabe et al. 2014)."""

    short_names: ClassVar = ShortNames(design="GeoOpt", beliefs=("SP", "PEB"))
    strength_name: ClassVar = "epsilon_per_km"
    default_strength: ClassVar = 1.0

    kind: Literal["optimal_quality"] = "optimal_quality"
    epsilon_per_km: NonNegative | None = None
    """Privacy parameter epsilon of geo-indistinguishability, per km of the distance in `metric`: from two cells at
    distance d, the probabilities of any report differ at most by the factor exp(epsilon d) (default: 1)."""
    quality_budget_km: NonNegative | RealisedBudget | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `epsilon_per_km`, which is calibrated to
    this loss for each prior. `{realised: 0.3}` refers to the mean loss of the users in the run instead; with `at:
    0.95`, to that of 95 % of them."""
    metric: Literal["euclidean", "quality", "privacy"] = "euclidean"
    """Distance of the privacy guarantee: Euclidean, or the world's quality or privacy distance."""
    spanner_dilation: Annotated[float, Field(ge=1, le=10)] = 1.1
    """Approximation factor of the linear program, which constrains pairs of cells on a spanner of this dilation only.
    1 is exact; larger values are faster and increase the loss."""
    solver: Solver = "ipm"
    """Solver of the linear program: HiGHS interior point without crossover (`ipm`), HiGHS simplex (`simplex`), or
    Clarabel (`clarabel`, requires `pip install 'lppm-sim[optimal]'`)."""

    @property
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""
        return epsilon_range()

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the matrix of the channel is too large."""
        size.require_dense()

    def build(self, world: World) -> OptimalQuality:
        """Return the design for the quality distance of a world and the metric of the guarantee."""
        distance = world.metric(self.metric)
        return OptimalQuality(
            self,
            quality_distance=world.quality_distance,
            metric=distance,
            edges=world.derived(("spanner", self.metric, self.spanner_dilation), lambda: self.edges(distance)),
        )

    def edges(self, distance: Distance) -> MetricEdges:
        """Return the edges of the program, shared by the designs of all users."""
        return MetricEdges(distance, self.spanner_dilation)


class MetricEdges:
    """The largest metric below a distance, and its spanner: the pairs of cells constrained by the program."""

    def __init__(self, distance: Distance, dilation: float) -> None:
        self._distance, self._dilation = distance, dilation

    @cached_property
    def metric_km(self) -> FloatArray:
        """The metric, shape (n_cells, n_cells)."""
        return greatest_metric(self._distance.matrix_km)

    @cached_property
    def spanner(self) -> Spanner:
        """The pairs of cells."""
        return greedy_spanner(self.metric_km, self._dilation)


class OptimalQuality(OptimalDesign):
    """Minimise the expected loss under epsilon-geo-indistinguishability: Bordenabe et al., CCS 2014.

    f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all cells, with and without mass, and all outputs. d is `metric`, or
    the largest metric below it if it does not satisfy the axioms. A budget sets epsilon for each prior so that the loss
    is the budget. The program constrains the edges of a spanner: a larger dilation is faster and guarantees slightly
    more than requested. Cells without mass have a negligible weight.
    """

    def __init__(
        self,
        parameters: OptimalQualityParameters,
        *,
        quality_distance: Distance,
        metric: Distance,
        edges: MetricEdges | None = None,
    ) -> None:
        epsilon_per_km, budget_km = parameters.strength, parameters.budget_km
        super().__init__(
            quality_distance=quality_distance,
            other=metric,
            solver=parameters.solver,
            parameters=f"{epsilon_per_km} {budget_km} {float(parameters.spanner_dilation)!r}",
        )
        self._epsilon_per_km = epsilon_per_km
        self._budget_km = budget_km
        self._edges = edges or parameters.edges(metric)

    def _closed_form(self, prior: FloatArray) -> FloatArray | None:
        constant, most_km = self._best_constant(prior)
        metric_km = self._edges.metric_km
        if self._budget_km is None:
            return constant if self._epsilon_per_km == 0 or not metric_km.any() else None
        if self._budget_km >= most_km:
            return constant
        if self._budget_km <= BUDGET_TOLERANCE_KM and (metric_km + np.eye(prior.size)).all():
            return np.eye(prior.size)
        return None

    def _solved(self, prior: FloatArray) -> Solved:
        if self._epsilon_per_km is not None:
            return self._with_epsilon(prior, self._epsilon_per_km)
        return self._calibrated(prior, self._budget_km or 0.0)

    def _fault(self, prior: FloatArray, solved: Solved) -> str | None:
        if not has_form(solved, "f1", "i1", "f1") or solved.certificate[0].size != 1:
            return NO_CERTIFICATE
        epsilon_per_km = float(solved.certificate[0][0])
        if self._budget_km is None and epsilon_per_km != self._epsilon_per_km:
            return f"its epsilon_per_km is {epsilon_per_km:.9g}, not {self._epsilon_per_km}"
        if not 0 < epsilon_per_km < np.inf:
            return f"its epsilon_per_km is {epsilon_per_km:.9g}"
        loss_km = self._loss_km(prior, solved.channel)
        if self._budget_km is not None and not abs(loss_km - self._budget_km) <= BUDGET_TOLERANCE_KM:
            return f"its loss is {loss_km:.9g} km, the budget is {self._budget_km:.9g} km"
        metric_km, spanner = self._edges.metric_km, self._edges.spanner
        over = epsilon_violation(solved.channel, metric_km, epsilon_per_km)
        if not over <= VERIFIED:
            return f"a log-ratio is {over:.2g} above epsilon d = {epsilon_per_km:.9g} d"
        cells, weights = loss_weights(prior)
        quality_km = self._quality.matrix_km
        outputs = undominated(quality_km[cells], cells)
        least_km = loss_bound_km(weights, quality_km[:, outputs], spanner, epsilon_per_km, *solved.certificate[1:])
        return gap_fault("loss", self._loss_km(weights, solved.channel), least_km, float(quality_km.max()))

    def _with_epsilon(self, prior: FloatArray, epsilon_per_km: float) -> Solved:
        """Return the optimal channel for this epsilon."""
        metric_km, spanner = self._edges.metric_km, self._edges.spanner
        if epsilon_per_km == 0 or not metric_km.any():
            return Solved(self._best_constant(prior)[0])
        cells, weights = loss_weights(prior)
        quality_km = self._quality.matrix_km
        outputs = undominated(quality_km[cells], cells)
        best = least_loss(weights, quality_km[:, outputs], spanner, epsilon_per_km, self._solver)
        matrix = np.zeros((prior.size, prior.size))
        matrix[:, outputs] = enforce_epsilon(best.channel, metric_km, epsilon_per_km)
        verify("loss", self._loss_km(weights, matrix), best.claimed_km, float(quality_km.max()))
        over = epsilon_violation(matrix, metric_km, epsilon_per_km)
        if over > VERIFIED:
            raise SolverError(
                f"a log-ratio of the channel is {over:.2g} above epsilon d = {epsilon_per_km} d: try another `solver`",
                code="solver-inaccurate",
            )
        return Solved(matrix, (np.array([epsilon_per_km]), best.places, best.prices))

    def _calibrated(self, prior: FloatArray, budget_km: float) -> Solved:
        """Return the optimal channel for the epsilon at which the loss is the budget."""
        from scipy.optimize import brentq  # slow to import

        metric_km, spanner = self._edges.metric_km, self._edges.spanner
        apart_km = metric_km[metric_km > 0].min(initial=np.inf)
        tried: dict[float, Solved] = {}

        def excess_km(log_epsilon: float) -> float:
            if log_epsilon not in tried:
                tried[log_epsilon] = self._with_epsilon(prior, float(np.exp(log_epsilon)))
            excess = self._loss_km(prior, tried[log_epsilon].channel) - budget_km
            return 0.0 if abs(excess) <= BUDGET_TOLERANCE_KM else excess  # zero ends the search

        # Beyond this epsilon, no constraint between cells at a positive distance is binding.
        strongest = float(np.log(50 * spanner.dilation / apart_km)) if np.isfinite(apart_km) else -np.inf
        low = high = min(float(np.log(2 / max(budget_km, BUDGET_TOLERANCE_KM))), strongest)
        while excess_km(high) > 0:
            if high >= strongest:
                raise InputError(
                    f"quality_budget_km {budget_km} is infeasible: cells at distance 0 km of the metric "
                    f"({self._other.kind}) must be indistinguishable, which loses at least "
                    f"{excess_km(high) + budget_km:.4g} km; increase the budget or change the metric",
                    code="infeasible-budget",
                )
            low, high = high, min(high + np.log(2), strongest)
        while low == high or excess_km(low) < 0:
            low -= np.log(2)
        return tried[float(brentq(excess_km, low, high))]
