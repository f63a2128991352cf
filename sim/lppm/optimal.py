"""Optimal designs: the best channel there is for a prior, by linear programming.

Either the most privacy within a budget of quality, or the best quality within a promise of geo-indistinguishability.
Cells without mass are not left to chance: each design says what it does there. What a solver returns is not believed
but put right, worked out anew and compared with what it claims. Channels are cached (`sim.lppm.cache`) with a dual
certificate, and one from the cache is used only if it is verified against the problem: shape, distributions, budget,
promise, and value by weak duality.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from sim.errors import InputError
from sim.inference.bayes import decide
from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.cache import ChannelCache, Solved, digest_of
from sim.lppm.channel import MatrixChannel
from sim.lppm.designs import BUDGET_TOLERANCE_KM, require_budget, require_one
from sim.lppm.linear import Solver, SolverError, require
from sim.lppm.programs import (
    error_bound_km,
    exceeded,
    guesses_of,
    least_loss,
    loss_bound_km,
    most_error,
    promised,
    unbeaten,
)
from sim.lppm.spanner import Spanner, greedy_spanner, metric
from sim.world.distance import Distance

NO_MASS = 1e-9
"""A cell with no more of the prior counts as one without mass: solvers cannot tell it from nought."""

VERIFIED = 1e-6
"""Error and loss of a channel, as shares of the longest distance, may differ by this from what the solver claims."""

_SPARED_KM = 1e-6
"""A loss up to this is none."""

_ROUNDING = 1e-9
"""Rows of a cached channel sum to 1 within this, and its loss is within the budget but for so many km."""

_UNSEEN = 1e-6
"""What all cells without mass weigh together in a loss: enough to tell a good row of theirs from a bad one."""

CHANNELS = ChannelCache()
"""Channels of all optimal designs in this process."""

_UNPROVEN = "it has no certificate of this problem"


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
        return MatrixChannel(
            CHANNELS.channel(digest, lambda: self.solved(prior), lambda solved: self.fault(prior, solved))
        )

    def matrix(self, prior: FloatArray) -> FloatArray:
        """Solve for this prior, whatever is cached, and return the best channel, shape (n_cells, n_cells)."""
        return self.solved(prior).channel

    def solved(self, prior: FloatArray) -> Solved:
        """Solve for this prior; return the best channel and its certificate, which closed forms do not need."""
        closed = self._closed_form(prior)
        return self._solved(prior) if closed is None else Solved(closed)

    def fault(self, prior: FloatArray, solved: Solved) -> str | None:
        """Verify a solution, wherever it comes from, against the problem; return what is wrong, without solving it."""
        channel = solved.channel
        if channel.shape != (prior.size, prior.size):
            return f"its shape is {channel.shape}, not {(prior.size, prior.size)}"
        if not np.isfinite(channel).all() or (channel < 0).any():
            return "it has probabilities that are negative or not finite"
        if (np.abs(channel.sum(axis=1) - 1) > _ROUNDING).any():
            return "its rows do not sum to 1"
        closed = self._closed_form(prior)
        if closed is not None:
            return None if np.array_equal(channel, closed) else "it is not the channel of this problem"
        return self._fault(prior, solved)

    @abstractmethod
    def _closed_form(self, prior: FloatArray) -> FloatArray | None:
        """Return the best channel where it is known without a solver."""

    @abstractmethod
    def _solved(self, prior: FloatArray) -> Solved:
        """Solve the program."""

    @abstractmethod
    def _fault(self, prior: FloatArray, solved: Solved) -> str | None:
        """Return what is wrong with a solution of the program."""

    def _loss_km(self, prior: FloatArray, channel: FloatArray) -> float:
        return float(prior @ (channel * self._quality.matrix_km).sum(axis=1))

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

    def _closed_form(self, prior: FloatArray) -> FloatArray | None:
        constant, most_km = self._best_constant(prior)
        if self._budget_km >= most_km:
            return constant
        if self._budget_km <= BUDGET_TOLERANCE_KM and (self._quality.matrix_km + np.eye(prior.size)).all():
            return np.eye(prior.size)
        return None

    def _solved(self, prior: FloatArray) -> Solved:
        cells, own = _with_mass(prior)
        quality_km = self._quality.matrix_km[cells]
        outputs = unbeaten(quality_km, cells)
        guesses = guesses_of(self._other, cells)
        found = most_error(own, guesses, quality_km[:, outputs], self._budget_km, self._solver)
        matrix = np.zeros((cells.size, prior.size))
        matrix[:, outputs] = found.channel
        # What a solver's tolerance spends too much is given back by telling the truth now and then. Of next to no
        # budget, which cells at no distance may have all the same, hardly any would be left.
        loss_km = float(own @ (matrix * quality_km).sum(axis=1))
        truth = max(1 - self._budget_km / loss_km, 0.0) if loss_km > _SPARED_KM else 0.0
        matrix *= 1 - truth
        matrix[np.arange(cells.size), cells] += truth
        _verify("error", self._error_km(own, matrix, cells), found.claimed_km, float(self._other.matrix_km.max()))
        return Solved(np.asarray(matrix[self._nearest(cells)]), (found.guesses, np.array([found.price])))

    def _fault(self, prior: FloatArray, solved: Solved) -> str | None:
        cells, own = _with_mass(prior)
        matrix = solved.channel[cells]
        if not np.array_equal(matrix[self._nearest(cells)], solved.channel):
            return "cells without mass do not have the row of the nearest cell with mass"
        quality_km = self._quality.matrix_km[cells]
        loss_km = float(own @ (matrix * quality_km).sum(axis=1))
        if not loss_km <= max(self._budget_km, _SPARED_KM) + _ROUNDING:
            return f"it loses {loss_km:.9g} km, the budget is {self._budget_km:.9g} km"
        if not _has_form(solved, "f2", "f1") or solved.certificate[1].size != 1:
            return _UNPROVEN
        answers, price = solved.certificate
        guesses = guesses_of(self._other, cells)
        options_km = quality_km[:, unbeaten(quality_km, cells)]
        most_km = error_bound_km(own, guesses, options_km, self._budget_km, answers, float(price[0]))
        return _gap("error", self._error_km(own, matrix, cells), most_km, float(self._other.matrix_km.max()))

    def _error_km(self, own: FloatArray, matrix: FloatArray, cells: IntArray) -> float:
        """Return the error of the best adversary against rows of the cells with mass."""
        return float((matrix.T * own @ self._other.matrix_km[cells]).min(axis=1).sum())

    def _nearest(self, cells: IntArray) -> IntArray:
        """Return, for each cell, the position of the nearest one with mass."""
        nearest: IntArray = self._quality.matrix_km[:, cells].argmin(axis=1)
        nearest[cells] = np.arange(cells.size)  # others may be at no distance
        return nearest


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

    def _closed_form(self, prior: FloatArray) -> FloatArray | None:
        constant, most_km = self._best_constant(prior)
        metric_km, _ = _edges(self._other, self._dilation)
        if self._budget_km is None:
            return constant if self._epsilon_per_km == 0 or not metric_km.any() else None
        if self._budget_km >= most_km:
            return constant
        if self._budget_km <= BUDGET_TOLERANCE_KM and (metric_km + np.eye(prior.size)).all():
            return np.eye(prior.size)
        return None

    def _solved(self, prior: FloatArray) -> Solved:
        if self._epsilon_per_km is not None:
            return self._promising(prior, self._epsilon_per_km)
        return self._calibrated(prior, self._budget_km or 0.0)

    def _fault(self, prior: FloatArray, solved: Solved) -> str | None:
        if not _has_form(solved, "f1", "i1", "f1") or solved.certificate[0].size != 1:
            return _UNPROVEN
        epsilon_per_km = float(solved.certificate[0][0])
        if self._budget_km is None and epsilon_per_km != self._epsilon_per_km:
            return f"its epsilon_per_km is {epsilon_per_km:.9g}, not {self._epsilon_per_km}"
        if not 0 < epsilon_per_km < np.inf:
            return f"its epsilon_per_km is {epsilon_per_km:.9g}"
        loss_km = self._loss_km(prior, solved.channel)
        if self._budget_km is not None and not abs(loss_km - self._budget_km) <= BUDGET_TOLERANCE_KM:
            return f"it loses {loss_km:.9g} km, the budget is {self._budget_km:.9g} km"
        metric_km, spanner = _edges(self._other, self._dilation)
        over = exceeded(solved.channel, metric_km, epsilon_per_km)
        if not over <= VERIFIED:
            return f"a log-ratio is {over:.2g} above epsilon d = {epsilon_per_km:.9g} d"
        cells, weights = _weighed(prior)
        quality_km = self._quality.matrix_km
        outputs = unbeaten(quality_km[cells], cells)
        least_km = loss_bound_km(weights, quality_km[:, outputs], spanner, epsilon_per_km, *solved.certificate[1:])
        return _gap("loss", self._loss_km(weights, solved.channel), least_km, float(quality_km.max()))

    def _promising(self, prior: FloatArray, epsilon_per_km: float) -> Solved:
        """Return the best channel that keeps the promise."""
        metric_km, spanner = _edges(self._other, self._dilation)
        if epsilon_per_km == 0 or not metric_km.any():
            return Solved(self._best_constant(prior)[0])
        cells, weights = _weighed(prior)
        quality_km = self._quality.matrix_km
        outputs = unbeaten(quality_km[cells], cells)
        found = least_loss(weights, quality_km[:, outputs], spanner, epsilon_per_km, self._solver)
        matrix = np.zeros((prior.size, prior.size))
        matrix[:, outputs] = promised(found.channel, metric_km, epsilon_per_km)
        _verify("loss", self._loss_km(weights, matrix), found.claimed_km, float(quality_km.max()))
        over = exceeded(matrix, metric_km, epsilon_per_km)
        if over > VERIFIED:
            raise SolverError(f"a log-ratio is {over:.2g} above epsilon d = {epsilon_per_km} d: try another `solver`")
        return Solved(matrix, (np.array([epsilon_per_km]), found.places, found.prices))

    def _calibrated(self, prior: FloatArray, budget_km: float) -> Solved:
        """Return the best channel whose promise is such that it loses the budget."""
        metric_km, spanner = _edges(self._other, self._dilation)
        apart_km = metric_km[metric_km > 0].min(initial=np.inf)
        tried: dict[float, Solved] = {}

        def excess_km(log_epsilon: float) -> float:
            if log_epsilon not in tried:
                tried[log_epsilon] = self._promising(prior, float(np.exp(log_epsilon)))
            excess = self._loss_km(prior, tried[log_epsilon].channel) - budget_km
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


def _weighed(prior: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the cells with mass, and the weights of all cells in a loss."""
    cells, own = _with_mass(prior)
    weights = np.zeros(prior.size)
    weights[cells] = own
    without = weights == 0
    weights[without] = _UNSEEN / max(int(without.sum()), 1)
    return cells, weights


def _verify(what: str, found_km: float, claimed_km: float, longest_km: float) -> None:
    allowed_km = VERIFIED * (longest_km or 1.0)
    if not abs(found_km - claimed_km) <= allowed_km:
        raise SolverError(
            f"the channel's {what} is {found_km:.9g} km, the solver claims {claimed_km:.9g} km, "
            f"allowed is a difference of {allowed_km:.2g} km: try another `solver`"
        )


def _gap(what: str, found_km: float, bound_km: float, longest_km: float) -> str | None:
    """Say it if a channel's value is not the one that its certificate proves to be the best."""
    if abs(found_km - bound_km) <= 2 * VERIFIED * (longest_km or 1.0):
        return None
    return f"its {what} is {found_km:.9g} km, its certificate proves a bound of {bound_km:.9g} km"


def _has_form(solved: Solved, *forms: str) -> bool:
    """Tell whether the arrays of a certificate are of these kinds and numbers of dimensions."""
    return tuple(f"{array.dtype.kind}{array.ndim}" for array in solved.certificate) == forms
