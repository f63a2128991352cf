"""Optimal designs: the best channel there is for a prior, by linear programming.

Either the most privacy within a budget of quality, or the best quality within a promise of geo-indistinguishability.
Cells without mass are not left to chance: each design says what it does there. What a solver returns is not believed
but put right, worked out anew and compared with what it claims. Channels are cached (`sim.lppm.cache`) with a dual
certificate, and one from the cache is used only if it is verified against the problem: shape, distributions, budget,
promise, and value by weak duality.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sim.inference.bayes import decide
from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.cache import ChannelCache, Solved, digest_of
from sim.lppm.channel import MatrixChannel
from sim.lppm.linear import Solver, SolverError, require
from sim.world.distance import Distance

NO_MASS = 1e-9
"""A cell with no more of the prior counts as one without mass: solvers cannot tell it from nought."""

VERIFIED = 1e-6
"""Error and loss of a channel, as shares of the longest distance, may differ by this from what the solver claims."""

SPARED_KM = 1e-6
"""A loss up to this is none."""

ROUNDING = 1e-9
"""Rows of a cached channel sum to 1 within this, and its loss is within the budget but for so many km."""

UNSEEN = 1e-6
"""What all cells without mass weigh together in a loss: enough to tell a good row of theirs from a bad one."""

UNPROVEN = "it has no certificate of this problem"

CHANNELS = ChannelCache()
"""Channels of all optimal designs in this process."""


class OptimalDesign(ABC):
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
        if (np.abs(channel.sum(axis=1) - 1) > ROUNDING).any():
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


def with_mass(prior: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the cells with mass, and theirs."""
    cells = np.flatnonzero(prior > min(NO_MASS, float(prior.max()) / 2))
    return cells, np.asarray(prior[cells] / prior[cells].sum())


def weighed(prior: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the cells with mass, and the weights of all cells in a loss."""
    cells, own = with_mass(prior)
    weights = np.zeros(prior.size)
    weights[cells] = own
    without = weights == 0
    weights[without] = UNSEEN / max(int(without.sum()), 1)
    return cells, weights


def verify(what: str, found_km: float, claimed_km: float, longest_km: float) -> None:
    """Raise SolverError if the value of a channel is not what the solver claims."""
    allowed_km = VERIFIED * (longest_km or 1.0)
    if not abs(found_km - claimed_km) <= allowed_km:
        raise SolverError(
            f"the channel's {what} is {found_km:.9g} km, the solver claims {claimed_km:.9g} km, "
            f"allowed is a difference of {allowed_km:.2g} km: try another `solver`"
        )


def gap_fault(what: str, found_km: float, bound_km: float, longest_km: float) -> str | None:
    """Say it if a channel's value is not the one that its certificate proves to be the best."""
    if abs(found_km - bound_km) <= 2 * VERIFIED * (longest_km or 1.0):
        return None
    return f"its {what} is {found_km:.9g} km, its certificate proves a bound of {bound_km:.9g} km"


def has_form(solved: Solved, *forms: str) -> bool:
    """Tell whether the arrays of a certificate are of these kinds and numbers of dimensions."""
    return tuple(f"{array.dtype.kind}{array.ndim}" for array in solved.certificate) == forms
