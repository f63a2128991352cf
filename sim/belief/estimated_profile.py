"""The profile estimation-based belief (PEB): learn the profile from the reports (Oya et al. 2019, Sect. IV)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from sim.belief.cross_validated import CrossValidated
from sim.belief.forgetting import ChangeTest, Forgetting, Memory, change_point
from sim.belief.parameters import BeliefParameters
from sim.belief.regularisation import CANDIDATES, Regularisation, lifted
from sim.components.registry import component
from sim.components.spec import Count, NonNegative
from sim.errors import InvalidValue
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.inference.blas_threads import one_blas_thread
from sim.inference.compact_newton import compact_newton
from sim.inference.compact_rows import CompactRow
from sim.inference.em import EM_ITERATIONS, em
from sim.inference.estimate import Estimate
from sim.inference.newton import NEWTON_ITERATIONS, constrained_newton
from sim.inference.posterior_mode import posterior_mode
from sim.interfaces import Belief, FloatArray
from sim.mobility.statistics import Statistics
from sim.world import World

Solver = Literal["newton", "em"]

COMPACT_CELLS = 1_500
"""Number of cells from which on likelihoods are stored in compact form, which is then also faster."""
_TEST_GAP = 1e-3  # gap of the estimate from recent reports, which is used only by the change test


@component("belief")
class EstimatedProfileParameters(BeliefParameters):
    """Sporadic, blank-slate (PEB): estimates the profile from the reports by maximum likelihood."""

    short_name: ClassVar = "PEB"

    kind: Literal["estimated_profile"] = "estimated_profile"
    fading: NonNegative = 0.5
    """Exponent gamma of the paper: at query r the initial profile has weight r^-fading. 0 keeps its weight at 1."""
    initial: Literal["training", "uniform"] = "training"
    """Initial profile pi_ini of the paper: that of the training data, or uniform over all cells."""
    solver: Solver = "newton"
    """newton: constrained Newton, fast with a certified gap; em: expectation-maximisation, as in the paper."""
    gap: Annotated[float, Field(gt=0, le=1e6)] = 1e-6
    """Stop when the mean log-likelihood is certified to be within this of its maximum. A large gap acts as early
    stopping and yields a different estimator."""
    start: Literal["uniform", "initial"] = "uniform"
    """Profile at which the iteration starts: uniform, or `initial`. Cells that no report distinguishes share their mass
    in the proportions of this profile."""
    max_iterations: Count | None = None
    """Limit on solver iterations per estimate. The default is far above the number needed; the manifest records the gap
    that was reached."""
    forget: Literal["none"] | Forgetting = "none"
    """Decay of the weight of past reports; none: all reports have equal weight, as in the paper."""
    regularise: Literal["none"] | Literal["cross_validated"] | Regularisation = "none"
    """Dirichlet prior over profiles, which replaces `fading` and `start`; cross_validated: average several such priors,
    weighted by how well each predicted the reports so far."""

    @model_validator(mode="after")
    def _one_prior(self) -> Self:
        # Manifests contain every default, so a key with its default value does not count as given.
        defaults = {name: type(self).model_fields[name].default for name in ("fading", "start")}
        given = [f"`{name}`" for name, default in defaults.items() if vars(self)[name] != default]
        if self.regularise != "none" and given:
            raise InvalidValue(
                f"found {' and '.join(given)} together with `regularise`, whose prior replaces them: "
                f"remove {' and '.join(given)} or `regularise`",
                code="exclusive-keys",
            )
        return self

    @property
    def forgetting(self) -> Forgetting | None:
        """The decay of past reports, None if there is none."""
        return self.forget if isinstance(self.forget, Forgetting) else None

    @property
    def iteration_limit(self) -> int:
        """The limit on solver iterations per estimate."""
        if self.max_iterations is not None:
            return self.max_iterations
        return EM_ITERATIONS if self.solver == "em" else NEWTON_ITERATIONS

    def stores_compact_rows(self, n_cells: int) -> bool:
        """Return whether likelihoods are stored in compact form: on large grids, for the solver that supports it."""
        plain = self.solver == "newton" and self.regularise == "none"
        adaptive = self.forgetting is not None and self.forgetting.adaptive
        return plain and not adaptive and n_cells >= COMPACT_CELLS

    def of_recent(self, forget: Forgetting) -> EstimatedProfileParameters:
        """Return the parameters of the estimate from recent reports alone, for the change test."""
        changes = {
            "solver": "newton",
            "max_iterations": None,
            "gap": max(self.gap, _TEST_GAP),
            "forget": Forgetting(window=forget.recent),
        }
        return self.model_copy(update=changes)

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> Belief:  # noqa: ARG002
        """Return the belief, which starts at the training profile or a uniform one."""
        initial = statistics.initial_profile(self.initial)
        if self.regularise == "cross_validated":
            candidates = [self._regularised(regularise, initial, world) for regularise in CANDIDATES]
            half_life = None if self.forgetting is None else self.forgetting.half_life_queries
            return CrossValidated(candidates=candidates, half_life_queries=half_life)
        if isinstance(self.regularise, Regularisation):
            return self._regularised(self.regularise, initial, world)
        return EstimatedProfile(self, initial_profile=initial)

    def _regularised(self, regularise: Regularisation, initial: FloatArray, world: World) -> EstimatedProfile:
        parameters = self.model_copy(update={"regularise": regularise})
        return EstimatedProfile(
            parameters, initial_profile=initial, kernel=world.smoothing_kernel(regularise.smooth_km)
        )


class EstimatedProfile:
    """Learn the profile from the reports: the profile estimation-based (PEB) belief.

    The prior at query r mixes the initial profile, with weight r^-fading, and the maximum likelihood profile of
    z^1 .. z^{r-1}, with weight 1 - r^-fading (Oya et al. 2019, eq. (pinorm)). `fading` is gamma of the paper. EM starts
    at `start`; for both solvers, cells that no report distinguishes share their mass in the proportions of `start`.

    With `forget`, each report has a weight. The estimate maximises the weighted likelihood, and its gap refers to that.
    r is then 1 plus the sum of the weights, so that the initial profile regains weight as reports are forgotten.

    With `regularise`, the estimate is the mode of the posterior under a Dirichlet prior centred on the initial profile,
    also with a certified gap. This prior replaces r^-fading and `start`. With a `kernel` S, shape (n_cells, n_cells),
    the estimate is S theta, where theta is the mode under the rows L S: each place is blurred by the kernel.
    """

    fixed: bool = False

    def __init__(
        self, parameters: EstimatedProfileParameters, *, initial_profile: ArrayLike, kernel: FloatArray | None = None
    ) -> None:
        initial = distribution(initial_profile, "initial_profile")
        n_cells = len(initial)
        self._fading = parameters.fading
        self._solver = parameters.solver
        self._gap = parameters.gap
        self._start = initial if parameters.start == "initial" else np.full(n_cells, 1 / n_cells)
        self._max_iterations = parameters.iteration_limit
        self._kernel = kernel
        self._pseudo: FloatArray | None = None
        if isinstance(parameters.regularise, Regularisation):
            initial = read_only(lifted(initial))
            self._pseudo = parameters.regularise.prior_reports * initial
        self._initial = initial
        forget = parameters.forgetting
        self._memory = Memory(n_cells, forget, compact=parameters.stores_compact_rows(n_cells))
        self._observed = 0
        self._estimate: Estimate | None = None
        self._unseen: int | None = 0
        """Number of latest reports that the estimate does not include; None if the weights of older ones changed."""
        self._mixed: FloatArray = self._initial
        """The prior before the kernel is applied, aligned with the columns of the remembered rows."""
        self._prior: FloatArray | None = self._spread(self._mixed)
        self._prior_s: int | None = None
        self._test: ChangeTest | None = None
        if forget is not None and forget.adaptive:
            self._test = ChangeTest(forget.queries_per_false_alarm)
            self._window = forget.recent
            self._recent = EstimatedProfile(
                parameters.of_recent(forget), initial_profile=initial_profile, kernel=kernel
            )
        self.worst_gap = 0.0
        """The largest certified gap of any estimate so far: bound on the distance to the maximum mean log-likelihood.
        """
        self.fallbacks = 0
        """Number of reports without mass under the prior. Their posterior is the normalised likelihood."""
        self.alarms = 0
        """Number of changes detected. Each makes the belief forget all reports before the change."""

    @property
    def index(self) -> int:
        """The index of the next query, from 1."""
        return self._observed + 1

    @property
    def remembered(self) -> int:
        """The number of reports that the estimate uses."""
        return len(self._memory)

    @property
    def estimate(self) -> Estimate | None:
        """The (weighted) maximum likelihood estimate from the remembered reports, None before the first report.

        With `regularise` it is the mode of the posterior. With a kernel, its gap and likelihood are those of theta.
        """
        estimate = self._solved()
        if estimate is None or self._kernel is None:
            return estimate
        return replace(estimate, profile=self._spread(estimate.profile))

    def _solved(self) -> Estimate | None:
        if self._unseen != 0:
            self._take(self._solve(self._memory.weights))
        return self._estimate

    def _take(self, estimate: Estimate) -> None:
        self._estimate = estimate
        self._unseen = 0
        self.worst_gap = max(self.worst_gap, estimate.gap)

    def solution(self) -> FloatArray | None:
        """Return the solver's estimate from the reports so far, if it was computed: see `Estimate.as_vector`."""
        return None if self._estimate is None or self._unseen != 0 else self._estimate.as_vector()

    def resume(self, solution: FloatArray) -> None:
        """Take the result of `solution` instead of computing it."""
        self._take(Estimate.of_vector(solution, self._initial.size))

    def prior(self, time_s: int) -> FloatArray:
        """Return the prior of the next query, the same read-only array until the next report.

        With a half-life in days it depends on `time_s`: the share of the initial profile grows with the time since the
        last report.
        """
        if self._prior is None or (self._memory.ages_with_time and self._prior_s != time_s):
            self._mixed = self._mix(time_s)
            self._prior = self._spread(self._mixed)
            self._prior_s = time_s
        return self._prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Store the likelihood for the next estimate; return the posterior under the prior before the report."""
        return self.observe_compact(time_s, likelihood, lambda: None)

    def observe_compact(
        self, time_s: int, likelihood: FloatArray, compact: Callable[[], CompactRow | None]
    ) -> FloatArray:
        """Do the same as `observe`; on large grids, store the compact form of the likelihood."""
        prior = self.prior(time_s)
        self._learn(time_s, likelihood, compact)
        if self._test is not None:
            self._detect_change(self._test, time_s, likelihood, prior)
        posterior, mass = condition(prior, likelihood)
        if mass > 0:
            return posterior
        self.fallbacks += 1
        return normalise(likelihood)

    def _learn(
        self, time_s: int, likelihood: FloatArray, compact: Callable[[], CompactRow | None] = lambda: None
    ) -> None:
        row = likelihood if self._kernel is None else likelihood @ self._kernel
        forgotten = self._memory.append(time_s, row, compact)
        self._observed += 1
        # In a full window one report replaces another, so the relative weights of the others do not change.
        self._unseen = None if self._unseen is None or forgotten > 1 else self._unseen + 1
        self._prior = None

    def _detect_change(self, test: ChangeTest, time_s: int, likelihood: FloatArray, prior: FloatArray) -> None:
        """Compare the prior with that from recent reports alone; after a change, forget all reports before it."""
        recent = self._recent.prior(time_s)
        self._recent._learn(time_s, likelihood)
        if len(self._memory) <= self._window + 1:
            return  # both estimates use the same reports
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
        """Return the mode of the posterior under the weights of the reports at this time."""
        estimate = self._solved()
        if estimate is None:
            return self._initial
        if self._memory.ages_with_time and time_s != self._memory.last_s:
            estimate = self._solve(self._memory.weights_at(time_s))
            self.worst_gap = max(self.worst_gap, estimate.gap)
        return estimate.profile

    def _solve(self, weights: FloatArray | None) -> Estimate:
        with one_blas_thread():
            return self._maximise(weights)

    def _maximise(self, weights: FloatArray | None) -> Estimate:
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
        if memory.compact is not None:
            return compact_newton(
                memory.compact,
                start=None if self._estimate is None else self._estimate.profile,
                proportions=self._start,
                weights=weights,
                unseen=None if self._unseen is None else min(self._unseen, len(memory)),
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
