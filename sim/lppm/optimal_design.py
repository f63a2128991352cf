"""Optimal designs: the optimal channel for a prior, computed by linear programming.

A design maximises privacy within a quality budget, or maximises quality under geo-indistinguishability. Each design
defines the rows of cells without prior mass. The solver's output is corrected, its value is recomputed, and the result
is compared with the value that the solver reports. Channels are cached (`sim.lppm.cache`) with a dual certificate. A
cached channel is used only after verification against the problem: shape, distributions, budget, privacy guarantee,
and optimality by weak duality.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.cache import ChannelCache, Solved, digest_of
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.linear import Solver, SolverError, require
from sim.world.distance import Distance

NO_MASS = 1e-9
"""Cells with at most this prior probability count as cells without mass: solvers cannot distinguish it from zero."""

VERIFIED = 1e-6
"""Tolerated difference between a channel's value and the solver's value, relative to the largest distance."""

NEGLIGIBLE_LOSS_KM = 1e-6
"""Losses up to this value count as zero."""

ROUNDING = 1e-9
"""Tolerance of the row sums of a cached channel, and in km of its loss above the budget."""

MASSLESS_WEIGHT = 1e-6
"""Total weight of all cells without mass in a loss: it makes the optimiser choose good rows for them."""

NO_CERTIFICATE = "it has no certificate for this problem"

CHANNELS = ChannelCache()
"""Cache of the channels of all optimal designs in this process."""


class OptimalDesign(ABC):
    """Design that solves a linear program for each prior and caches the solution.

    `other` is the second distance of the problem, besides the quality distance. `parameters` identifies the problem
    in the cache.
    """

    uses_prior = True

    def __init__(self, *, quality_distance: Distance, other: Distance, solver: Solver, parameters: str) -> None:
        self._quality = quality_distance
        self._other = other
        self._solver: Solver = solver
        self._problem = f"{type(self).__name__} {parameters} {require(solver)}"

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        digest = digest_of(
            f"{self._problem} {self._quality.shape} {self._other.shape}",
            prior,
            self._quality.matrix_km,
            self._other.matrix_km,
        )
        return MatrixChannel(
            CHANNELS.channel(digest, lambda: self.solved(prior), lambda solved: self.fault(prior, solved))
        )

    def matrix(self, prior: FloatArray) -> FloatArray:
        """Solve for this prior without the cache and return the optimal channel, shape (n_cells, n_cells)."""
        return self.solved(prior).channel

    def solved(self, prior: FloatArray) -> Solved:
        """Solve for this prior; return the optimal channel and its certificate (empty for closed forms)."""
        closed = self._closed_form(prior)
        return self._solved(prior) if closed is None else Solved(closed)

    def fault(self, prior: FloatArray, solved: Solved) -> str | None:
        """Verify a solution against the problem without solving it; return the first fault, or None."""
        channel = solved.channel
        if channel.shape != (prior.size, prior.size):
            return f"its shape is {channel.shape}, not {(prior.size, prior.size)}"
        if not np.isfinite(channel).all() or (channel < 0).any():
            return "it has probabilities that are negative or not finite"
        if (np.abs(channel.sum(axis=1) - 1) > ROUNDING).any():
            return "its rows do not sum to 1"
        closed = self._closed_form(prior)
        if closed is not None:
            return None if np.array_equal(channel, closed) else "it is not the channel of this problem"
        return self._fault(prior, solved)

    @abstractmethod
    def _closed_form(self, prior: FloatArray) -> FloatArray | None:
        """Return the optimal channel if it is known without a solver, otherwise None."""

    @abstractmethod
    def _solved(self, prior: FloatArray) -> Solved:
        """Solve the program."""

    @abstractmethod
    def _fault(self, prior: FloatArray, solved: Solved) -> str | None:
        """Return the first fault of a solution of the program, or None."""

    def _loss_km(self, prior: FloatArray, channel: FloatArray) -> float:
        return float(prior @ (channel * self._quality.matrix_km).sum(axis=1))

    def _best_constant(self, prior: FloatArray) -> tuple[FloatArray, float]:
        """Return the channel that always reports the same cell at the smallest expected loss, and that loss in km."""
        best = self._quality.best_cell(prior)
        matrix = np.zeros((prior.size, prior.size))
        matrix[:, best] = 1
        return matrix, float(prior @ self._quality.matrix_km[:, best])


def with_mass(prior: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the cells with mass and their normalised probabilities."""
    cells = np.flatnonzero(prior > min(NO_MASS, float(prior.max()) / 2))
    return cells, np.asarray(prior[cells] / prior[cells].sum())


def loss_weights(prior: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the cells with mass, and the weights of all cells in a loss."""
    cells, masses = with_mass(prior)
    weights = np.zeros(prior.size)
    weights[cells] = masses
    without = weights == 0
    weights[without] = MASSLESS_WEIGHT / max(int(without.sum()), 1)
    return cells, weights


def verify(quantity: str, actual_km: float, claimed_km: float, longest_km: float) -> None:
    """Raise SolverError if the value of a channel differs from the value that the solver reports."""
    allowed_km = VERIFIED * (longest_km or 1.0)
    if not abs(actual_km - claimed_km) <= allowed_km:
        raise SolverError(
            f"the {quantity} of the channel is {actual_km:.9g} km, but the solver reports {claimed_km:.9g} km; "
            f"the allowed difference is {allowed_km:.2g} km: try another `solver`",
            code="solver-inaccurate",
        )


def gap_fault(quantity: str, actual_km: float, bound_km: float, longest_km: float) -> str | None:
    """Return a fault if the value of a channel differs from the bound that its certificate proves, otherwise None."""
    if abs(actual_km - bound_km) <= 2 * VERIFIED * (longest_km or 1.0):
        return None
    return f"its {quantity} is {actual_km:.9g} km, its certificate proves a bound of {bound_km:.9g} km"


def has_form(solved: Solved, *forms: str) -> bool:
    """Return whether the arrays of a certificate have these dtype kinds and numbers of dimensions, such as "f2"."""
    return tuple(f"{array.dtype.kind}{array.ndim}" for array in solved.certificate) == forms
