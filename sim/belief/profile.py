"""Sporadic beliefs: queries are independent draws from a profile, which is known or learned from the reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from sim.belief.forgetting import ChangeTest, Forgetting, Memory, change_point
from sim.belief.regularised import Regularisation, lifted
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.inference.em import EM_ITERATIONS, em
from sim.inference.estimate import Estimate
from sim.inference.newton import NEWTON_ITERATIONS, constrained_newton
from sim.inference.posterior_mode import posterior_mode
from sim.interfaces import FloatArray

Solver = Literal["newton", "em"]
Start = Literal["uniform", "initial"]

_TEST_GAP = 1e-3  # of the estimate from recent reports alone, which is only compared


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


def _check(fading: float, solver: Solver, gap: float, start: Start, max_iterations: int | None) -> None:
    """Raise `ValueError` if a parameter is outside its interval or choices."""
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


class EstimatedProfile:
    """Learn the profile from the reports: the profile estimation-based (PEB) belief.

    Before the r-th query it is the initial profile with weight r^-fading and else the maximum likelihood profile
    of z^1 .. z^{r-1} (Oya et al. 2019, eq. (pinorm)). `fading` (gamma of the paper) is in [0, inf). `start` is
    where EM starts, and for both solvers gives the proportions in which cells that the reports cannot tell apart
    share their mass.

    With `forget`, reports have weights, the estimate maximises the weighted likelihood (its gap is that of the
    weighted one too), and r is 1 plus the sum of the weights: where little is remembered, the initial profile is back.

    With `regularise`, the estimate is the mode of the posterior under a Dirichlet prior centred on the initial profile,
    certified as well. That prior takes the place of r^-fading and of `start`. With its kernel S, the estimate is
    S theta, where theta is the mode under the rows L S: places come as blots of the kernel's width.
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
        forget: Forgetting | None = None,
        regularise: Regularisation | None = None,
    ) -> None:
        _check(fading, solver, gap, start, max_iterations)
        self._initial = distribution(initial_profile, "initial_profile")
        self._fading = fading
        self._solver = solver
        self._gap = gap
        n_cells = len(self._initial)
        self._start = self._initial if start == "initial" else np.full(n_cells, 1 / n_cells)
        if max_iterations is None:
            max_iterations = EM_ITERATIONS if solver == "em" else NEWTON_ITERATIONS
        self._max_iterations = max_iterations
        self._pseudo: FloatArray | None = None
        self._kernel: FloatArray | None = None
        if regularise is not None:
            self._initial = read_only(lifted(self._initial))
            self._pseudo = regularise.prior_reports * self._initial
            self._kernel = regularise.kernel
        self._memory = Memory(n_cells, forget)
        self._observed = 0
        self._estimate: Estimate | None = None
        self._unseen: int | None = 0
        """How many of the last reports the estimate does not know yet; None if it may be far off for the others too."""
        self._mixed: FloatArray = self._initial
        """What is believed, by the columns of the remembered rows: before the kernel, if there is one."""
        self._prior: FloatArray | None = self._spread(self._mixed)
        self._prior_s: int | None = None
        self._test: ChangeTest | None = None
        if forget is not None and forget.adaptive:
            self._test = ChangeTest(forget.queries_per_false_alarm)
            self._window = forget.recent
            self._recent = EstimatedProfile(
                initial_profile=initial_profile,
                fading=fading,
                gap=max(gap, _TEST_GAP),
                start=start,
                forget=Forgetting(window=forget.recent),
                regularise=regularise,
            )
        self.worst_gap = 0.0
        """The largest certified gap of any estimate so far: how far the likelihood may be from the best."""
        self.fallbacks = 0
        """How many reports the prior held impossible: there the likelihood alone was believed."""
        self.alarms = 0
        """How many times the reports showed a change and what was older was forgotten."""

    @property
    def index(self) -> int:
        """Return the number of the next query, from 1."""
        return self._observed + 1

    @property
    def remembered(self) -> int:
        """Return how many reports the estimate is made from."""
        return len(self._memory)

    @property
    def estimate(self) -> Estimate | None:
        """Return the (weighted) maximum likelihood estimate from what is remembered, None before the first report.

        If it is regularised, it is the mode of the posterior; its gap and likelihood are those of theta where there
        is a kernel.
        """
        estimate = self._solved()
        if estimate is None or self._kernel is None:
            return estimate
        return replace(estimate, profile=self._spread(estimate.profile))

    def _solved(self) -> Estimate | None:
        if self._unseen != 0:
            self._estimate = self._solve(self._memory.weights)
            self.worst_gap = max(self.worst_gap, self._estimate.gap)
            self._unseen = 0
        return self._estimate

    def prior(self, time_s: int) -> FloatArray:
        """Return the profile before the next query, the same read-only array until the next report.

        With a half-life in days, the longer ago the last report is, the more of the initial profile is in it.
        """
        if self._prior is None or (self._memory.ages_with_time and self._prior_s != time_s):
            self._mixed = self._mix(time_s)
            self._prior = self._spread(self._mixed)
            self._prior_s = time_s
        return self._prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Keep the report's likelihood for the next estimate; return the posterior under the prior before it."""
        prior = self.prior(time_s)
        self._learn(time_s, likelihood)
        if self._test is not None:
            self._look_for_a_change(self._test, time_s, likelihood, prior)
        posterior, mass = condition(prior, likelihood)
        if mass > 0:
            return posterior
        self.fallbacks += 1
        return normalise(likelihood)

    def _learn(self, time_s: int, likelihood: FloatArray) -> None:
        forgotten = self._memory.append(time_s, likelihood if self._kernel is None else likelihood @ self._kernel)
        self._observed += 1
        # Where one is forgotten for each that comes, the others weigh no more than before.
        self._unseen = None if self._unseen is None or forgotten > 1 else self._unseen + 1
        self._prior = None

    def _look_for_a_change(self, test: ChangeTest, time_s: int, likelihood: FloatArray, prior: FloatArray) -> None:
        """Compare what was believed with what recent reports alone say; forget what is older than a change."""
        recent = self._recent.prior(time_s)
        self._recent._learn(time_s, likelihood)
        if len(self._memory) <= self._window + 1:
            return  # the recent reports are all there is, or more
        if not test.observe(float(likelihood @ prior), float(likelihood @ recent)):
            return
        self.alarms += 1
        self.prior(time_s)
        self._recent.prior(time_s)
        self._memory.forget(change_point(self._memory.rows, self._mixed, self._recent._mixed))
        self._estimate = self._unseen = self._prior = None

    def _spread(self, theta: FloatArray) -> FloatArray:
        return theta if self._kernel is None else read_only(normalise(self._kernel @ theta))

    def _mix(self, time_s: int) -> FloatArray:
        if self._pseudo is not None:
            return self._mode(time_s)
        weight = (1.0 + self._memory.amount(time_s)) ** -self._fading
        estimate = self._solved() if weight < 1 else None
        if estimate is None:
            return self._initial
        mixed: FloatArray = weight * self._initial + (1 - weight) * estimate.profile
        mixed.flags.writeable = False
        return mixed

    def _mode(self, time_s: int) -> FloatArray:
        """Return the mode of the posterior with the weights that the reports have at this time."""
        estimate = self._solved()
        if estimate is None:
            return self._initial
        if self._memory.ages_with_time and time_s != self._memory.last_s:
            estimate = self._solve(self._memory.weights_at(time_s))
            self.worst_gap = max(self.worst_gap, estimate.gap)
        return estimate.profile

    def _solve(self, weights: FloatArray | None) -> Estimate:
        memory = self._memory
        if self._solver == "em":
            return em(
                memory.rows,
                start=self._start if self._pseudo is None else self._initial,
                weights=weights,
                pseudo_counts=self._pseudo,
                gap=self._gap,
                max_iterations=self._max_iterations,
            )
        if self._pseudo is not None:
            return posterior_mode(
                memory.rows,
                pseudo_counts=self._pseudo,
                start=None if self._estimate is None else self._estimate.profile,
                weights=weights,
                groups=memory.groups,
                gap=self._gap,
                max_iterations=self._max_iterations,
            )
        return constrained_newton(
            memory.rows,
            start=None if self._estimate is None else self._estimate.profile,
            proportions=self._start,
            weights=weights,
            groups=memory.groups,
            unseen=None if self._unseen is None else min(self._unseen, len(memory)),
            gap=self._gap,
            max_iterations=self._max_iterations,
        )
