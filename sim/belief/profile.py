"""Sporadic beliefs: queries are independent draws from a profile, which is known or learned from the reports."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from sim.estimate import EM_ITERATIONS, NEWTON_ITERATIONS, Estimate, Likelihoods, constrained_newton, em
from sim.inference import condition, distribution, normalise
from sim.interfaces import FloatArray

Solver = Literal["newton", "em"]
Start = Literal["uniform", "initial"]


class FixedProfile:
    """Believe in one profile for ever: the hardwired sporadic model."""

    fixed: bool = True

    def __init__(self, *, profile: ArrayLike) -> None:
        self._profile = distribution(profile, "profile")
        self.fallbacks = 0
        """How many reports the profile held impossible: there the likelihood alone was believed."""

    def prior(self, time_s: int) -> FloatArray:  # noqa: ARG002 - the same at all times
        """Return the profile, always the same read-only array, so that a caller may cache by identity."""
        return self._profile

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return the posterior; nothing is learned."""
        posterior, mass = condition(self.prior(time_s), likelihood)
        if mass > 0:
            return posterior
        posterior = normalise(likelihood)
        self.fallbacks += 1
        return posterior


class EstimatedProfile:
    """Learn the profile from the reports: the profile estimation-based (PEB) belief.

    Before the r-th query it is the initial profile with weight r^-fading and else the maximum likelihood profile
    of z^1 .. z^{r-1} (Oya et al. 2019, eq. (pinorm)). `fading` (gamma of the paper) is in [0, inf). `start` is
    where EM starts, and for both solvers gives the proportions in which cells that the reports cannot tell apart
    share their mass.
    """

    fixed: bool = False

    def __init__(
        self,
        *,
        initial_profile: ArrayLike,
        fading: float = 0.5,
        solver: Solver = "newton",
        gap: float = 1e-6,
        start: Start = "uniform",
        max_iterations: int | None = None,
    ) -> None:
        if not 0 <= fading < np.inf:
            raise ValueError(f"fading must be in [0, inf), got {fading}")
        if solver not in get_args(Solver):
            raise ValueError(f"solver must be one of {get_args(Solver)}, got {solver!r}")
        if not 0 < gap < np.inf:
            raise ValueError(f"gap must be in (0, inf), got {gap}")
        if start not in get_args(Start):
            raise ValueError(f"start must be one of {get_args(Start)}, got {start!r}")
        if max_iterations is not None and max_iterations < 0:
            raise ValueError(f"max_iterations must be in [0, inf), got {max_iterations}")
        self._initial = distribution(initial_profile, "initial_profile")
        self._fading = fading
        self._solver = solver
        self._gap = gap
        n_cells = len(self._initial)
        self._start = self._initial if start == "initial" else np.full(n_cells, 1 / n_cells)
        if max_iterations is None:
            max_iterations = EM_ITERATIONS if solver == "em" else NEWTON_ITERATIONS
        self._max_iterations = max_iterations
        self._seen = Likelihoods(n_cells)
        self._estimate: Estimate | None = None
        self._estimated_from = 0
        self._prior: FloatArray | None = self._initial
        self.worst_gap = 0.0
        """The largest certified gap of any estimate so far: how far the likelihood may be from the best."""
        self.fallbacks = 0
        """How many reports the prior held impossible: there the likelihood alone was believed."""

    @property
    def index(self) -> int:
        """Return r, the number of the next query, from 1."""
        return len(self._seen) + 1

    @property
    def estimate(self) -> Estimate | None:
        """Return the maximum likelihood estimate from all reports so far, None before the first."""
        if self._estimated_from < len(self._seen):
            self._estimate = self._solve()
            self.worst_gap = max(self.worst_gap, self._estimate.gap)
            self._estimated_from = len(self._seen)
        return self._estimate

    def prior(self, time_s: int) -> FloatArray:  # noqa: ARG002 - counts queries, not seconds
        """Return the profile before the next query, the same read-only array until the next report."""
        if self._prior is None:
            self._prior = self._mix()
        return self._prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Keep the report's likelihood for the next estimate; return the posterior under the prior before it."""
        prior = self.prior(time_s)
        self._seen.append(likelihood)
        self._prior = None
        posterior, mass = condition(prior, likelihood)
        if mass > 0:
            return posterior
        self.fallbacks += 1
        return normalise(likelihood)

    def _mix(self) -> FloatArray:
        weight = float(self.index) ** -self._fading
        estimate = self.estimate if weight < 1 else None
        if estimate is None:
            return self._initial
        mixed: FloatArray = weight * self._initial + (1 - weight) * estimate.profile
        mixed.flags.writeable = False
        return mixed

    def _solve(self) -> Estimate:
        rows = self._seen.rows
        if self._solver == "em":
            return em(rows, start=self._start, gap=self._gap, max_iterations=self._max_iterations)
        return constrained_newton(
            rows,
            start=None if self._estimate is None else self._estimate.profile,
            proportions=self._start,
            groups=self._seen.groups,
            unseen=len(rows) - self._estimated_from,
            gap=self._gap,
            max_iterations=self._max_iterations,
        )
