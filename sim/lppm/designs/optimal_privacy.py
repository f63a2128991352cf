"""The optimal mechanism for a quality budget (Shokri et al., CCS 2012)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from sim.components.registry import component
from sim.components.spec import NonNegative
from sim.interfaces import FloatArray, IntArray
from sim.lppm.cache import Solved
from sim.lppm.calibration import BUDGET_TOLERANCE_KM
from sim.lppm.linear import Solver
from sim.lppm.optimal_design import (
    NEGLIGIBLE_LOSS_KM,
    NO_CERTIFICATE,
    ROUNDING,
    OptimalDesign,
    gap_fault,
    has_form,
    verify,
    with_mass,
)
from sim.lppm.parameters import DesignParameters, ShortNames, WorldSize, require_calibrated
from sim.lppm.programs import error_bound_km, guesses_of, most_error, undominated
from sim.lppm.strength import RealisedBudget, StrengthRange
from sim.world import World
from sim.world.distance import Distance

_MOST_BUDGET_KM = 1e3


@component("design")
class OptimalPrivacyParameters(DesignParameters):
    """Optimal mechanism for a quality budget: maximises the error of the optimal attack (Shokri et al. 2012)."""

    short_names: ClassVar = ShortNames(design="Opt", beliefs=("SP", "MK", "PEB"))

    kind: Literal["optimal_privacy"] = "optimal_privacy"
    quality_budget_km: NonNegative | RealisedBudget = 1.0
    """Upper bound in km of the expected quality loss under the mechanism's own prior. `{realised: 0.3}` refers to
    the mean loss of the users in the run instead; with `at: 0.95`, to that of 95 % of them."""
    solver: Solver = "ipm"
    """Solver of the linear program: HiGHS interior point without crossover (`ipm`), HiGHS simplex (`simplex`), or
    Clarabel (`clarabel`, requires `pip install 'lppm-sim[optimal]'`)."""

    @property
    def budget_km(self) -> float | None:
        """Expected loss in km that the design is calibrated to; None for a realised budget."""
        return None if isinstance(self.quality_budget_km, RealisedBudget) else self.quality_budget_km

    @property
    def realised_budget(self) -> RealisedBudget | None:
        """Budget of the loss in the run, which replaces the budget under the mechanism's own model."""
        return self.quality_budget_km if isinstance(self.quality_budget_km, RealisedBudget) else None

    @property
    def strength_range(self) -> StrengthRange:
        """The budget under the mechanism's own model, which a realised budget replaces."""
        return StrengthRange(name="quality_budget_km", least=0, most=_MOST_BUDGET_KM, loss_rises=True)

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the matrix of the channel is too large."""
        size.require_dense()

    def build(self, world: World) -> OptimalPrivacy:
        """Return the design for both distances of a world."""
        return OptimalPrivacy(self, quality_distance=world.quality_distance, privacy_distance=world.privacy_distance)


class OptimalPrivacy(OptimalDesign):
    """Maximise the error of the optimal attack within a budget of expected loss: Shokri et al., CCS 2012.

    The adversary knows the prior and the channel, and minimises the expected d_P. Any d_P and d_Q are supported; a
    Manhattan d_P is by far the fastest. With a belief that filters the reports this is the mechanism of
    Theodorakopoulos et al., WPES 2014, applied greedily to each query. A cell without mass has the row of the nearest
    cell with mass by d_Q. If the budget exceeds the loss of revealing nothing, the channel reveals nothing.
    """

    def __init__(
        self, parameters: OptimalPrivacyParameters, *, quality_distance: Distance, privacy_distance: Distance
    ) -> None:
        require_calibrated(parameters)
        budget_km = float(parameters.budget_km or 0.0)
        super().__init__(
            quality_distance=quality_distance,
            other=privacy_distance,
            solver=parameters.solver,
            parameters=repr(budget_km),
        )
        self._budget_km = budget_km

    def _closed_form(self, prior: FloatArray) -> FloatArray | None:
        constant, most_km = self._best_constant(prior)
        if self._budget_km >= most_km:
            return constant
        if self._budget_km <= BUDGET_TOLERANCE_KM and (self._quality.matrix_km + np.eye(prior.size)).all():
            return np.eye(prior.size)
        return None

    def _solved(self, prior: FloatArray) -> Solved:
        cells, masses = with_mass(prior)
        quality_km = self._quality.matrix_km[cells]
        outputs = undominated(quality_km, cells)
        guesses = guesses_of(self._other, cells)
        best = most_error(masses, guesses, quality_km[:, outputs], self._budget_km, self._solver)
        matrix = np.zeros((cells.size, prior.size))
        matrix[:, outputs] = best.channel
        # If the solver's tolerance exceeds the budget, mix in the identity until the loss is the budget. Negligible
        # losses are exempt: with a budget near 0 the correction would remove almost the whole channel.
        loss_km = float(masses @ (matrix * quality_km).sum(axis=1))
        truth = max(1 - self._budget_km / loss_km, 0.0) if loss_km > NEGLIGIBLE_LOSS_KM else 0.0
        matrix *= 1 - truth
        matrix[np.arange(cells.size), cells] += truth
        verify("error", self._error_km(masses, matrix, cells), best.claimed_km, float(self._other.matrix_km.max()))
        return Solved(np.asarray(matrix[self._nearest(cells)]), (best.guesses, np.array([best.price])))

    def _fault(self, prior: FloatArray, solved: Solved) -> str | None:
        cells, masses = with_mass(prior)
        matrix = solved.channel[cells]
        if not np.array_equal(matrix[self._nearest(cells)], solved.channel):
            return "cells without mass do not have the row of the nearest cell with mass"
        quality_km = self._quality.matrix_km[cells]
        loss_km = float(masses @ (matrix * quality_km).sum(axis=1))
        if not loss_km <= max(self._budget_km, NEGLIGIBLE_LOSS_KM) + ROUNDING:
            return f"its loss is {loss_km:.9g} km, the budget is {self._budget_km:.9g} km"
        if not has_form(solved, "f2", "f1") or solved.certificate[1].size != 1:
            return NO_CERTIFICATE
        answers, price = solved.certificate
        guesses = guesses_of(self._other, cells)
        options_km = quality_km[:, undominated(quality_km, cells)]
        most_km = error_bound_km(masses, guesses, options_km, self._budget_km, answers, float(price[0]))
        return gap_fault("error", self._error_km(masses, matrix, cells), most_km, float(self._other.matrix_km.max()))

    def _error_km(self, masses: FloatArray, matrix: FloatArray, cells: IntArray) -> float:
        """Return the expected error in km of the optimal attack, given the rows of the cells with mass."""
        return float((matrix.T * masses @ self._other.matrix_km[cells]).min(axis=1).sum())

    def _nearest(self, cells: IntArray) -> IntArray:
        """Return, for each cell, the index in `cells` of the nearest cell with mass."""
        nearest: IntArray = self._quality.matrix_km[:, cells].argmin(axis=1)
        nearest[cells] = np.arange(cells.size)  # another cell may be at distance 0
        return nearest
