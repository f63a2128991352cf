"""The profile estimation-based belief (PEB): the profile is learned from the reports (Oya et al. 2019, Sect. IV)."""

from __future__ import annotations

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
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.inference.em import EM_ITERATIONS, em
from sim.inference.estimate import Estimate
from sim.inference.newton import NEWTON_ITERATIONS, constrained_newton
from sim.inference.posterior_mode import posterior_mode
from sim.interfaces import Belief, FloatArray
from sim.mobility.statistics import Statistics
from sim.world import World

Solver = Literal["newton", "em"]

_TEST_GAP = 1e-3  # of the estimate from recent reports alone, which is only compared


@component("belief")
class EstimatedProfileParameters(BeliefParameters):
    """Sporadic, blank-slate (PEB): the profile is estimated from the reports by maximum likelihood."""

    short_name: ClassVar = "PEB"

    kind: Literal["estimated_profile"] = "estimated_profile"
    fading: NonNegative = 0.5
    """gamma of the paper: how fast the initial profile fades."""
    initial: Literal["training", "uniform"] = "training"
    """pi_ini of the paper."""
    solver: Solver = "newton"
    """newton: certified and fast; em: the paper's iteration."""
    gap: Annotated[float, Field(gt=0, le=1e6)] = 1e-6
    """Stop when the mean log-likelihood is certainly within this of the best. A large gap is another estimator."""
    start: Literal["uniform", "initial"] = "uniform"
    """Where the iteration starts; cells that the reports cannot tell apart share their mass as in the start."""
    max_iterations: Count | None = None
    """Limit of the iterations; the gap reached is in the manifest. The default is far more than are needed."""
    forget: Literal["none"] | Forgetting = "none"
    """How past reports lose their weight; with none, all count equally, as in the paper."""
    regularise: Literal["none"] | Literal["cross_validated"] | Regularisation = "none"
    """A prior that replaces `fading` and `start`: given, or chosen by its forecasts of the reports so far."""

    @model_validator(mode="after")
    def _one_prior(self) -> Self:
        # A manifest writes out every default, which must not count as given.
        defaults = {name: type(self).model_fields[name].default for name in ("fading", "start")}
        given = [f"`{name}`" for name, default in defaults.items() if vars(self)[name] != default]
        if self.regularise != "none" and given:
            raise ValueError(
                f"found {' and '.join(given)} with `regularise`, whose prior takes their place: "
                "leave out one or the other"
            )
        return self

    @property
    def forgetting(self) -> Forgetting | None:
        """How past reports lose their weight, if they do."""
        return self.forget if isinstance(self.forget, Forgetting) else None

    @property
    def iteration_limit(self) -> int:
        """The most iterations of the solver."""
        if self.max_iterations is not None:
            return self.max_iterations
        return EM_ITERATIONS if self.solver == "em" else NEWTON_ITERATIONS

    def of_recent(self, forget: Forgetting) -> EstimatedProfileParameters:
        """Return the parameters of the estimate from recent reports, which the test for changes compares with."""
        changes = {
            "solver": "newton",
            "max_iterations": None,
            "gap": max(self.gap, _TEST_GAP),
            "forget": Forgetting(window=forget.recent),
        }
        return self.model_copy(update=changes)

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> Belief:  # noqa: ARG002
        """Return the belief, which starts from the training profile or a uniform one."""
        initial = statistics.initial_profile(self.initial)
        if self.regularise == "cross_validated":
            candidates = [self._regularised(own, initial, world) for own in CANDIDATES]
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

    Before the r-th query it is the initial profile with weight r^-fading and else the maximum likelihood profile
    of z^1 .. z^{r-1} (Oya et al. 2019, eq. (pinorm)). `fading` is gamma of the paper. `start` is
    where EM starts, and for both solvers gives the proportions in which cells that the reports cannot tell apart
    share their mass.

    With `forget`, reports have weights, the estimate maximises the weighted likelihood (its gap is that of the
    weighted one too), and r is 1 plus the sum of the weights: where little is remembered, the initial profile is back.

    With `regularise`, the estimate is the mode of the posterior under a Dirichlet prior centred on the initial profile,
    certified as well. That prior takes the place of r^-fading and of `start`. With a `kernel` S, the estimate is
    S theta, where theta is the mode under the rows L S: places come as blots of the kernel's width.
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
                parameters.of_recent(forget), initial_profile=initial_profile, kernel=kernel
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
