"""Optimal designs: the best channel there is for a prior, by linear programming.

Either the most privacy within a budget of quality, or the best quality within a promise of geo-indistinguishability.
Cells without mass are not left to chance: each design says what it does there. What a solver returns is not believed
but put right, worked out anew and compared with what it claims. Channels are kept (`sim.lppm.kept`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from sim.errors import InputError
from sim.inference import decide
from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.channel import MatrixChannel
from sim.lppm.designs import BUDGET_TOLERANCE_KM, require_budget, require_one
from sim.lppm.kept import digest_of, kept
from sim.lppm.linear import Solver, SolverError, require
from sim.lppm.programs import exceeded, guesses_of, least_loss, most_error, promised, unbeaten
from sim.lppm.spanner import Spanner, greedy_spanner, metric
from sim.world.distance import Distance

NO_MASS = 1e-9
"""A cell with no more of the prior counts as one without mass: solvers cannot tell it from nought."""

VERIFIED = 1e-6
"""Error and loss of a channel, as shares of the longest distance, may differ by this from what the solver claims."""

_SPARED_KM = 1e-6
"""A loss up to this is none."""

_UNSEEN = 1e-6
"""What all cells without mass weigh together in a loss: enough to tell a good row of theirs from a bad one."""


class _Optimal(ABC):
    """Solve a program for each prior, once."""

    uses_prior = True

    def __init__(self, *, quality_distance: Distance, other: Distance, solver: Solver, parameters: str) -> None:
        self._quality = quality_distance
        self._other = other
        self._solver: Solver = solver
        self._decides = f"{type(self).__name__} {parameters} {require(solver)}"

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        digest = digest_of(
            f"{self._decides} {self._quality.shape} {self._other.shape}",
            prior,
            self._quality.matrix_km,
            self._other.matrix_km,
        )
        return MatrixChannel(kept(digest, lambda: self.matrix(prior)))

    @abstractmethod
    def matrix(self, prior: FloatArray) -> FloatArray:
        """Solve for this prior, whatever is kept, and return the best channel, shape (n_cells, n_cells)."""

    def _best_constant(self, prior: FloatArray) -> tuple[FloatArray, float]:
        """Return the channel that reveals nothing at the least loss, and that loss."""
        best = decide(prior, self._quality.matrix_km, self._quality.shape)
        matrix = np.zeros((prior.size, prior.size))
        matrix[:, best] = 1
        return matrix, float(prior @ self._quality.matrix_km[:, best])


class OptimalPrivacy(_Optimal):
    """The most error of the best adversary within a budget of expected loss: Shokri et al., CCS 2012.

    quality_budget_km in [0, inf). Any d_P and d_Q; by far the quickest with d_P Manhattan. The adversary is one who
    knows the prior and the channel, and guesses best for d_P. With a belief that follows the reports it is the
    mechanism of Theodorakopoulos et al., WPES 2014, greedily for each query. A cell without mass has the row of
    the nearest one with mass, by d_Q. A budget beyond what is lost by revealing nothing is not spent.
    """

    def __init__(
        self,
        *,
        quality_distance: Distance,
        privacy_distance: Distance,
        quality_budget_km: float = 1.0,
        solver: Solver = "ipm",
    ) -> None:
        require_budget(quality_budget_km)
        super().__init__(
            quality_distance=quality_distance,
            other=privacy_distance,
            solver=solver,
            parameters=repr(float(quality_budget_km)),
        )
        self._budget_km = quality_budget_km

    def matrix(self, prior: FloatArray) -> FloatArray:
        """Return the channel of most error."""
        cells, own = _with_mass(prior)
        constant, most_km = self._best_constant(prior)
        if self._budget_km >= most_km:
            return constant
        quality_km = self._quality.matrix_km[cells]
        if self._budget_km <= BUDGET_TOLERANCE_KM and (self._quality.matrix_km + np.eye(prior.size)).all():
            return np.eye(prior.size)
        outputs = unbeaten(quality_km, cells)
        guesses = guesses_of(self._other, cells)
        found, claimed_km = most_error(own, guesses, quality_km[:, outputs], self._budget_km, self._solver)
        matrix = np.zeros((cells.size, prior.size))
        matrix[:, outputs] = found
        # What a solver's tolerance spends too much is given back by telling the truth now and then. Of next to no
        # budget, which cells at no distance may have all the same, hardly any would be left.
        loss_km = float(own @ (matrix * quality_km).sum(axis=1))
        truth = max(1 - self._budget_km / loss_km, 0.0) if loss_km > _SPARED_KM else 0.0
        matrix *= 1 - truth
        matrix[np.arange(cells.size), cells] += truth
        error_km = float((matrix.T * own @ self._other.matrix_km[cells]).min(axis=1).sum())
        _verify("error", error_km, claimed_km, float(self._other.matrix_km.max()))
        nearest = self._quality.matrix_km[:, cells].argmin(axis=1)
        nearest[cells] = np.arange(cells.size)  # others may be at no distance
        return np.asarray(matrix[nearest])


class OptimalQuality(_Optimal):
    """The least expected loss under epsilon-geo-indistinguishability: Bordenabe et al., CCS 2014.

    f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all cells, with mass or without, and all outputs; d is `metric`, or
    the greatest metric below it if it is none. Give one of epsilon_per_km in [0, inf) and quality_budget_km in
    [0, inf): the latter sets epsilon for each prior so that the loss is the budget. The program has the promise on the
    edges of a spanner of at most spanner_dilation, in [1, inf): more is quicker, and promises a little more than
    asked for. Cells without mass take part with next to no weight.
    """

    def __init__(
        self,
        *,
        quality_distance: Distance,
        metric: Distance,
        epsilon_per_km: float | None = None,
        quality_budget_km: float | None = None,
        spanner_dilation: float = 1.1,
        solver: Solver = "ipm",
    ) -> None:
        require_one("epsilon_per_km", epsilon_per_km, quality_budget_km)
        require_budget(quality_budget_km)
        if epsilon_per_km is not None and not 0 <= epsilon_per_km < np.inf:
            raise ValueError(f"epsilon_per_km must be in [0, inf), got {epsilon_per_km}")
        if not 1 <= spanner_dilation < np.inf:
            raise ValueError(f"spanner_dilation must be in [1, inf), got {spanner_dilation}")
        super().__init__(
            quality_distance=quality_distance,
            other=metric,
            solver=solver,
            parameters=f"{epsilon_per_km} {quality_budget_km} {float(spanner_dilation)!r}",
        )
        self._epsilon_per_km = epsilon_per_km
        self._budget_km = quality_budget_km
        self._dilation = spanner_dilation

    def matrix(self, prior: FloatArray) -> FloatArray:
        """Return the channel of least loss."""
        if self._epsilon_per_km is not None:
            return self._promising(prior, self._epsilon_per_km)
        return self._calibrated(prior, self._budget_km or 0.0)

    def _promising(self, prior: FloatArray, epsilon_per_km: float) -> FloatArray:
        """Return the best channel that keeps the promise."""
        metric_km, spanner = _edges(self._other, self._dilation)
        if epsilon_per_km == 0 or not metric_km.any():
            return self._best_constant(prior)[0]
        cells, own = _with_mass(prior)
        weights = np.zeros(prior.size)
        weights[cells] = own
        without = weights == 0
        weights[without] = _UNSEEN / max(int(without.sum()), 1)
        quality_km = self._quality.matrix_km
        outputs = unbeaten(quality_km[cells], cells)
        found, claimed_km = least_loss(weights, quality_km[:, outputs], spanner, epsilon_per_km, self._solver)
        matrix = np.zeros((prior.size, prior.size))
        matrix[:, outputs] = promised(found, metric_km, epsilon_per_km)
        _verify("loss", float(weights @ (matrix * quality_km).sum(axis=1)), claimed_km, float(quality_km.max()))
        over = exceeded(matrix, metric_km, epsilon_per_km)
        if over > VERIFIED:
            raise SolverError(f"a log-ratio is {over:.2g} above epsilon d = {epsilon_per_km} d: try another `solver`")
        return matrix

    def _calibrated(self, prior: FloatArray, budget_km: float) -> FloatArray:
        """Return the best channel whose promise is such that it loses the budget."""
        constant, most_km = self._best_constant(prior)
        if budget_km >= most_km:
            return constant
        metric_km, spanner = _edges(self._other, self._dilation)
        apart_km = metric_km[metric_km > 0].min(initial=np.inf)
        if budget_km <= BUDGET_TOLERANCE_KM and (metric_km + np.eye(prior.size)).all():
            return np.eye(prior.size)
        tried: dict[float, FloatArray] = {}

        def excess_km(log_epsilon: float) -> float:
            if log_epsilon not in tried:
                tried[log_epsilon] = self._promising(prior, float(np.exp(log_epsilon)))
            matrix = tried[log_epsilon]
            excess = float(prior @ (matrix * self._quality.matrix_km).sum(axis=1)) - budget_km
            return 0.0 if abs(excess) <= BUDGET_TOLERANCE_KM else excess  # a nought ends the search

        # Beyond this, a ratio between any two cells that are apart binds nothing.
        strongest = float(np.log(50 * spanner.dilation / apart_km)) if np.isfinite(apart_km) else -np.inf
        low = high = min(float(np.log(2 / max(budget_km, BUDGET_TOLERANCE_KM))), strongest)
        while excess_km(high) > 0:
            if high >= strongest:
                raise InputError(
                    f"quality_budget_km {budget_km} cannot be kept: cells at a distance of 0 km by the metric "
                    f"({self._other.kind}) must look alike, which loses {excess_km(high) + budget_km:.4g} km at least"
                )
            low, high = high, min(high + np.log(2), strongest)
        while low == high or excess_km(low) < 0:
            low -= np.log(2)
        return tried[float(brentq(excess_km, low, high))]


@lru_cache(maxsize=4)
def _edges(distance: Distance, dilation: float) -> tuple[FloatArray, Spanner]:
    """Return the metric and its spanner, worked out once for all users."""
    metric_km = metric(distance.matrix_km)
    return metric_km, greedy_spanner(metric_km, dilation)


def _with_mass(prior: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the cells with mass, and theirs."""
    cells = np.flatnonzero(prior > min(NO_MASS, float(prior.max()) / 2))
    return cells, np.asarray(prior[cells] / prior[cells].sum())


def _verify(what: str, found_km: float, claimed_km: float, longest_km: float) -> None:
    allowed_km = VERIFIED * (longest_km or 1.0)
    if not abs(found_km - claimed_km) <= allowed_km:
        raise SolverError(
            f"the channel's {what} is {found_km:.9g} km, the solver claims {claimed_km:.9g} km, "
            f"allowed is a difference of {allowed_km:.2g} km: try another `solver`"
        )
