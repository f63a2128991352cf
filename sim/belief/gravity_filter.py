"""The blank-slate Markov belief (PEB-MK): learn transitions from the reports by a gravity model.

The gravity model M(x'|x) = stay 1{x' = x} + (1 - stay) A(x') exp(-d(x, x') / reach) / norm(x) needs no transition data,
only the attraction of each cell, the distance users travel between queries (reach) and the probability of staying. The
attraction A is learned cell by cell. For reach and stay there is a bank of models, here called laws, one for each pair
of values, weighted by the predictive likelihood of the reports so far: cross-validation on released reports alone. A
further law of independent queries serves users whose next cell does not depend on the last one.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from sim.belief.forgetting import retention
from sim.belief.gravity_counts import LearnedCounts, Moves, TrainedCounts
from sim.belief.gravity_kernels import GravityKernels
from sim.belief.parameters import BeliefParameters
from sim.components.registry import component
from sim.components.spec import Positive
from sim.errors import InvalidValue
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.inference.transitions import Transitions, transitions_of
from sim.interfaces import FloatArray
from sim.mobility.smoothed_statistics import SmoothedStatistics
from sim.mobility.statistics import Statistics
from sim.world import World
from sim.world.distance import Distance

_UNIFORM_SHARE = 0.01  # share of the initial profile that is uniform, so that no cell is impossible
_TRAINED_WEIGHT, _TRAINED_RESET_SHARE = 0.98, 0.002  # defaults with counts of the user or a population chain
_LEARNED_WEIGHT, _RESET_SHARE = 0.5, 0.01  # defaults with counts of other people or from reports, or without counts
_STEPS_PER_OCTAVE = 2  # resolution of the growth of reach with time; each step has separate kernels
_LEAST_GROWTH, _MOST_GROWTH = 0.25, 8.0  # eleven steps


@component("belief")
class GravityFilterParameters(BeliefParameters):
    """Markov, blank-slate (PEB-MK): filters the reports with transitions learned from them by a gravity model."""

    short_name: ClassVar = "PEB-MK"
    variants: ClassVar = {"PEB-SPMK": {"independent_share": 0.5}}

    kind: Literal["gravity_filter"] = "gravity_filter"
    initial: Literal["training", "uniform", "roads"] = "training"
    """Initial attraction of the cells: the profile of the training data, uniform, or proportional to the number of road
    crossings in a cell."""
    reaches_km: Annotated[list[Positive], Field(min_length=1, max_length=8)] = [2.5, 12.0]
    """Length scales of the gravity kernel exp(-distance / reach) between consecutive queries, in km along the roads if
    the world has any. Each combination of a reach and a stay is one transition model of the mixture."""
    stays: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=1, max_length=8)] = [0.1, 0.5]
    """Probabilities of staying in the cell between consecutive queries, each in [0, 1), combined with each reach."""
    prior_reports: Positive = 1.0
    """Weight of the initial attraction, in reports. It does not decay."""
    half_life_queries: Literal["none"] | Positive = 10.0
    """Half-life of a report's weight in the attraction, in reports; none: no decay."""
    transitions: Literal["training", "learned", "none"] = "training"
    """Further transition model of the mixture, from counted transitions: those of the training data, if it has any
    (training); these and the transitions estimated from the reports (learned); or no such model (none). A training set
    of kind own_and_others adds two models: the user's own counts, if there are any, and the population chain."""
    trained_weight: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Initial weight of the models of counted transitions together, in (0, 1); the models of gravity share the
    remainder equally (default: 0.98 with the user's own transitions or a training set of kind own_and_others, 0.5 with
    transitions pooled from other people)."""
    reset_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the models' weights that is reset to the initial weights at each report, in (0, 1), so that a model can
    regain weight (default: 0.002 with the user's own transitions or a training set of kind own_and_others, otherwise
    0.01)."""

    independent_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Initial weight of a further model, under which a cell does not depend on the last one and is drawn from the
    attraction, in [0, 1); 0: no such model. The models of gravity, and those of transitions pooled from other people or
    learned, share the remainder. Next to the user's own transitions or a training set of kind own_and_others, which
    keep `trained_weight`, it is a share of the weight of gravity."""

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> GravityFilter:
        """Return the filter, with distances along the roads if the world has any."""
        chain = statistics if isinstance(statistics, SmoothedStatistics) else None
        own = statistics if chain is None else chain.own
        uses_training = self.transitions != "none"
        trained = uses_training and own.n_transitions > 0
        return GravityFilter(
            self,
            initial_profile=self._initial_profile(statistics, world),
            kernels=world.derived(("gravity", *self.reaches_km), lambda: self.kernels(world.travel_distance)),
            transition=own.transitions if trained else None,
            counted=own.counted if trained else None,
            population=chain.transitions if uses_training and chain is not None else None,
            pooled=statistics.pooled,
            restart_s=restart_s,
        )

    def kernels(self, distance: Distance) -> GravityKernels:
        """Return the kernels that the filters of all users share."""
        return GravityKernels(distance, self.reaches_km)

    def _initial_profile(self, statistics: Statistics, world: World) -> FloatArray:
        if self.initial != "roads":
            return statistics.initial_profile(self.initial)
        if world.roads is None:
            raise InvalidValue("`initial: roads` requires `world.roads`, found none: add roads", code="no-roads")
        return world.roads.share_of_cells(statistics.n_cells)


class GravityFilter:
    """Track the user by a hidden Markov filter with learned transitions.

    A law has one of `reaches_km` (in (0, inf)) and one of `stays` (in [0, 1)). All laws share the attraction A: the
    initial profile with weight `prior_reports` (in (0, inf)) plus the posterior of each report, whose weight halves
    every `half_life_queries` reports. The prediction is the mean of the laws' predictions by weight. Each report
    multiplies the weight of a law by the probability of the report under that law.

    If the time between queries varies, reach grows with the square root of the time since the last report and stay
    decreases exponentially with it. Both have the given values at the geometric mean of the times between reports.

    After each report a share `reset_share` (in (0, 1)) of the weights is reset to the initial weights, so that a law
    can regain weight: the fixed share of Herbster and Warmuth (1998), towards the initial weights.

    `transition`, as `Transitions` or as a matrix [from, to], and `counted[from]`, the number of transitions from which
    each row was estimated, are the training statistics. They form one further law, which mixes row and gravity; the
    row's share grows with `counted`. With ``transitions: learned`` this law always exists, and each report adds to its
    counts the posterior of the transition p(x^{r-1}, x^r | z^r). `population` are the transitions of the population
    chain, the user's smoothed by those of other people, and form one more law. The laws of counts share the initial
    weight `trained_weight` (in (0, 1)) equally; the default is smaller if they are `pooled` from other people. With
    `independent_share` above 0 (in [0, 1)) there is one more law: the cell is independent of the last one and has the
    attraction as its distribution, as in RPEB. It takes this share of the initial weight of gravity and of counts that
    are `pooled` or learned. With `restart_s` (in [1, inf) s) the filter restarts at the attraction whenever time_s //
    restart_s changes, so that transitions do not cross days.
    """

    fixed: bool = False

    def __init__(
        self,
        parameters: GravityFilterParameters,
        *,
        initial_profile: ArrayLike,
        kernels: GravityKernels,
        transition: ArrayLike | Transitions | None = None,
        counted: ArrayLike | None = None,
        population: ArrayLike | Transitions | None = None,
        pooled: bool = False,
        restart_s: int | None = None,
    ) -> None:
        n_cells = kernels.distance.n_cells
        initial = distribution(initial_profile, "initial_profile")
        if initial.shape != (n_cells,):
            raise ValueError(f"initial_profile must have shape {(n_cells,)}, got {initial.shape}")
        if restart_s is not None and restart_s < 1:
            raise ValueError(f"restart_s must be in [1, inf), got {restart_s}")
        if (transition is None) != (counted is None):
            missing = "transition" if transition is None else "counted"
            raise ValueError(f"{missing} must be given: transition and counted require each other, got one of them")
        self._initial = (1 - _UNIFORM_SHARE) * initial + _UNIFORM_SHARE / n_cells
        self._kernels = kernels
        self._prior_reports = parameters.prior_reports
        self._reaches_km = tuple(map(float, parameters.reaches_km))
        self._stays = np.array(parameters.stays, dtype=np.float64)
        self._retention = retention(parameters.half_life_queries)
        self._restart_s = restart_s
        trained = None if transition is None or counted is None else TrainedCounts(transition, counted, n_cells)
        self._counts: TrainedCounts | LearnedCounts | None = (
            LearnedCounts(n_cells, trained) if parameters.transitions == "learned" else trained
        )
        self._population = None if population is None else transitions_of(population)
        if self._population is not None and self._population.n_cells != n_cells:
            raise ValueError(f"population must have {n_cells} cells, got {self._population.n_cells}")
        self._n_gravity = len(self._reaches_km) * self._stays.size
        of_user = not pooled and (trained is not None or self._population is not None)
        defaults = (_TRAINED_WEIGHT, _TRAINED_RESET_SHARE) if of_user else (_LEARNED_WEIGHT, _RESET_SHARE)
        given = (parameters.trained_weight, parameters.reset_share)
        trained_weight, self._reset_share = (
            default if value is None else value for value, default in zip(given, defaults, strict=True)
        )
        self._independent = parameters.independent_share > 0
        self._start_weights = self._initial_weights(trained_weight, parameters.independent_share, of_user=of_user)
        self._weights = self._start_weights
        self._visits = np.zeros(n_cells)
        self._posterior: FloatArray | None = None
        self._last_s = 0
        self._gaps = 0
        self._mean_log_gap = 0.0
        self._prediction: tuple[int, _Prediction] | None = None
        self._laws: tuple[float, FloatArray] | None = None
        self.fallbacks = 0
        """Number of reports without mass under the prediction. Their posterior is the normalised likelihood."""

    @property
    def weights(self) -> FloatArray:
        """The weights of the laws, by reach and then by stay, then of the counts, others and independence, if any."""
        return self._weights

    @property
    def attraction(self) -> FloatArray:
        """The attraction A learned so far, shape (n_cells,)."""
        return normalise(self._prior_reports * self._initial + self._visits)

    def prior(self, time_s: int) -> FloatArray:
        """Return p(x^r | z^{r-1}), the same read-only array until the next report."""
        return self._predict(time_s).prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return p(x^r | z^r); update the filter, the weights of the laws, the attraction and the counts."""
        prediction = self._predict(time_s)
        posterior, mass = condition(prediction.prior, likelihood)
        if mass > 0:
            if isinstance(self._counts, LearnedCounts) and prediction.moves is not None:
                self._counts.add(prediction.moves.pairs(self._counts, likelihood, posterior))
            weights = self._weights * (prediction.laws @ (prediction.parts @ likelihood))
            self._weights = (1 - self._reset_share) * weights / weights.sum() + self._reset_share * self._start_weights
        else:
            self.fallbacks += 1
            posterior = normalise(likelihood)
        if self._continues(time_s) and time_s > self._last_s:
            self._gaps += 1
            self._mean_log_gap += (math.log(time_s - self._last_s) - self._mean_log_gap) / self._gaps
        self._visits = self._retention * self._visits + posterior
        self._posterior = posterior.copy()
        self._last_s = time_s
        self._prediction = None
        return posterior

    def _initial_weights(self, trained_weight: float, independent_share: float, *, of_user: bool) -> FloatArray:
        """Return the weights before the first report: of gravity, the laws of counts, and independence, if any."""
        n_further = (self._counts is not None) + (self._population is not None)
        gravity = np.full(self._n_gravity, (1 - trained_weight if n_further else 1.0) / self._n_gravity)
        further = np.full(n_further, trained_weight / max(n_further, 1))
        if not self._independent:
            return np.append(gravity, further)
        gravity, further = (1 - independent_share) * gravity, further if of_user else (1 - independent_share) * further
        return np.concatenate([gravity, further, [1 - gravity.sum() - further.sum()]])

    def _continues(self, time_s: int) -> bool:
        """Return whether the filter continues from the last report, rather than restarts."""
        if self._posterior is None:
            return False
        return self._restart_s is None or time_s // self._restart_s == self._last_s // self._restart_s

    def _predict(self, time_s: int) -> _Prediction:
        if self._prediction is None or self._prediction[0] != time_s:
            prediction = self._step(time_s, self._posterior) if self._continues(time_s) else self._restart()
            self._prediction = (time_s, prediction)
        return self._prediction[1]

    def _restart(self) -> _Prediction:
        """Return the prediction without a preceding report: the attraction under every law."""
        return _Prediction.of(self.attraction[np.newaxis], np.ones((self._weights.size, 1)), self._weights)

    def _step(self, time_s: int, posterior: FloatArray | None) -> _Prediction:
        """Return the prediction from the last posterior: the user stays, moves by gravity, or moves by the counts."""
        assert posterior is not None
        elapsed = self._elapsed(time_s)
        attraction = self.attraction
        pull = self._kernels.at(_growth(elapsed))
        norm = pull.from_each(attraction)
        laws = self._laws_after(elapsed)
        parts = np.empty((laws.shape[1], posterior.size))
        n_moves = len(self._reaches_km)
        parts[0] = posterior
        parts[1 : n_moves + 1] = attraction * pull.to_each(posterior / norm)
        further = n_moves + 1 + (self._counts is not None)
        if self._population is not None:
            parts[further] = self._population.forward(posterior)
        if self._independent:
            parts[-1] = attraction
        if self._counts is None:
            return _Prediction.of(parts, laws, self._weights)
        known, rest = self._counts.lead(posterior)
        weights = self._weights[: self._n_gravity]
        share = weights @ laws[: self._n_gravity, : n_moves + 1] / weights.sum()
        parts[n_moves + 1] = known + share[0] * rest + share[1:] @ (attraction * pull.to_each(rest / norm))
        if not isinstance(self._counts, LearnedCounts):
            return _Prediction.of(parts, laws, self._weights)
        by_kind = np.append(1 - self._weights[self._n_gravity :].sum(), self._weights[self._n_gravity :])
        moves = Moves(
            before=posterior,
            attraction=attraction,
            norm=norm,
            share=share,
            distance=self._kernels.distance,
            reaches_km=pull.reaches_km,
            weights=by_kind,
            population=self._population,
            independent=self._independent,
        )
        return _Prediction.of(parts, laws, self._weights, moves)

    def _laws_after(self, elapsed: float) -> FloatArray:
        """Return the shares of the parts in each law: the posterior, moves by each reach, by the counts, by others."""
        if self._laws is None or self._laws[0] != elapsed:
            stay = self._stays**elapsed
            n_moves = len(self._reaches_km)
            n_further = self._weights.size - self._n_gravity
            laws = np.zeros((self._weights.size, n_moves + 1 + n_further))
            gravity = np.arange(self._n_gravity)
            laws[gravity, 0] = np.tile(stay, n_moves)
            laws[gravity, 1 + gravity // stay.size] = np.tile(1 - stay, n_moves)
            laws[self._n_gravity :, n_moves + 1 :] = np.eye(n_further)
            self._laws = (elapsed, laws)
        return self._laws[1]

    def _elapsed(self, time_s: int) -> float:
        """Return the time since the last report in units of the mean time between reports; 1 until that is known."""
        if self._gaps == 0 or time_s <= self._last_s:
            return 1.0
        return (time_s - self._last_s) / math.exp(self._mean_log_gap)


class _Prediction:
    """The predictions of all laws: each is a weighted mean of the same few parts."""

    __slots__ = ("laws", "moves", "parts", "prior")

    def __init__(self, prior: FloatArray, parts: FloatArray, laws: FloatArray, moves: Moves | None) -> None:
        self.prior = prior
        self.parts = parts
        """Distributions over cells, shape (n_parts, n_cells)."""
        self.laws = laws
        """Share of each part in each law, shape (n_laws, n_parts)."""
        self.moves = moves
        """The transitions behind the prediction, if transitions are learned."""

    @classmethod
    def of(cls, parts: FloatArray, laws: FloatArray, weights: FloatArray, moves: Moves | None = None) -> _Prediction:
        """Return the prediction under these weights of the laws."""
        return cls(read_only(normalise(weights @ laws @ parts)), parts, laws, moves)


def _growth(elapsed: float) -> float:
    """Return the growth of reach after `elapsed` mean times between reports: its square root, rounded to a step.

    >>> _growth(4.0)
    2.0
    """
    growth = min(max(math.sqrt(elapsed), _LEAST_GROWTH), _MOST_GROWTH)
    return float(2.0 ** (round(math.log2(growth) * _STEPS_PER_OCTAVE) / _STEPS_PER_OCTAVE))
