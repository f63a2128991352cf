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
from sim.lppm.optimal_design import ROUNDING, SPARED_KM, UNPROVEN, OptimalDesign, gap_fault, has_form, verify, with_mass
from sim.lppm.parameters import DesignParameters, ShortNames
from sim.lppm.programs import error_bound_km, guesses_of, most_error, unbeaten
from sim.world import World
from sim.world.distance import Distance


@component("design")
class OptimalPrivacyParameters(DesignParameters):
    """Linear program: the most error of the best adversary within a budget of loss (Shokri et al. 2012)."""

    short_names: ClassVar = ShortNames(design="Opt", beliefs=("SP", "MK", "PEB"))

    kind: Literal["optimal_privacy"] = "optimal_privacy"
    quality_budget_km: NonNegative = 1.0
    """Upper bound of the expected loss by d_Q on the mechanism's own model."""
    solver: Solver = "ipm"
    """HiGHS by interior point without crossover or by simplex, or Clarabel (`pip install 'lppm-sim[optimal]'`)."""

    @property
    def budget_km(self) -> float | None:
        """The expected loss that the design is calibrated to."""
        return self.quality_budget_km

    def build(self, world: World) -> OptimalPrivacy:
        """Return the design for both distances of a world."""
        return OptimalPrivacy(self, quality_distance=world.quality_distance, privacy_distance=world.privacy_distance)


class OptimalPrivacy(OptimalDesign):
    """The most error of the best adversary within a budget of expected loss: Shokri et al., CCS 2012.

    Any d_P and d_Q; by far the quickest with d_P Manhattan. The adversary is one who
    knows the prior and the channel, and guesses best for d_P. With a belief that follows the reports it is the
    mechanism of Theodorakopoulos et al., WPES 2014, greedily for each query. A cell without mass has the row of
    the nearest one with mass, by d_Q. A budget beyond what is lost by revealing nothing is not spent.
    """

    def __init__(
        self, parameters: OptimalPrivacyParameters, *, quality_distance: Distance, privacy_distance: Distance
    ) -> None:
        super().__init__(
            quality_distance=quality_distance,
            other=privacy_distance,
            solver=parameters.solver,
            parameters=repr(float(parameters.quality_budget_km)),
        )
        self._budget_km = parameters.quality_budget_km

    def _closed_form(self, prior: FloatArray) -> FloatArray | None:
        constant, most_km = self._best_constant(prior)
        if self._budget_km >= most_km:
            return constant
        if self._budget_km <= BUDGET_TOLERANCE_KM and (self._quality.matrix_km + np.eye(prior.size)).all():
            return np.eye(prior.size)
        return None

    def _solved(self, prior: FloatArray) -> Solved:
        cells, own = with_mass(prior)
        quality_km = self._quality.matrix_km[cells]
        outputs = unbeaten(quality_km, cells)
        guesses = guesses_of(self._other, cells)
        found = most_error(own, guesses, quality_km[:, outputs], self._budget_km, self._solver)
        matrix = np.zeros((cells.size, prior.size))
        matrix[:, outputs] = found.channel
        # What a solver's tolerance spends too much is given back by telling the truth now and then. Of next to no
        # budget, which cells at no distance may have all the same, hardly any would be left.
        loss_km = float(own @ (matrix * quality_km).sum(axis=1))
        truth = max(1 - self._budget_km / loss_km, 0.0) if loss_km > SPARED_KM else 0.0
        matrix *= 1 - truth
        matrix[np.arange(cells.size), cells] += truth
        verify("error", self._error_km(own, matrix, cells), found.claimed_km, float(self._other.matrix_km.max()))
        return Solved(np.asarray(matrix[self._nearest(cells)]), (found.guesses, np.array([found.price])))

    def _fault(self, prior: FloatArray, solved: Solved) -> str | None:
        cells, own = with_mass(prior)
        matrix = solved.channel[cells]
        if not np.array_equal(matrix[self._nearest(cells)], solved.channel):
            return "cells without mass do not have the row of the nearest cell with mass"
        quality_km = self._quality.matrix_km[cells]
        loss_km = float(own @ (matrix * quality_km).sum(axis=1))
        if not loss_km <= max(self._budget_km, SPARED_KM) + ROUNDING:
            return f"it loses {loss_km:.9g} km, the budget is {self._budget_km:.9g} km"
        if not has_form(solved, "f2", "f1") or solved.certificate[1].size != 1:
            return UNPROVEN
        answers, price = solved.certificate
        guesses = guesses_of(self._other, cells)
        options_km = quality_km[:, unbeaten(quality_km, cells)]
        most_km = error_bound_km(own, guesses, options_km, self._budget_km, answers, float(price[0]))
        return gap_fault("error", self._error_km(own, matrix, cells), most_km, float(self._other.matrix_km.max()))

    def _error_km(self, own: FloatArray, matrix: FloatArray, cells: IntArray) -> float:
        """Return the error of the best adversary against rows of the cells with mass."""
        return float((matrix.T * own @ self._other.matrix_km[cells]).min(axis=1).sum())

    def _nearest(self, cells: IntArray) -> IntArray:
        """Return, for each cell, the position of the nearest one with mass."""
        nearest: IntArray = self._quality.matrix_km[:, cells].argmin(axis=1)
        nearest[cells] = np.arange(cells.size)  # others may be at no distance
        return nearest
