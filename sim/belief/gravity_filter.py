"""The blank-slate Markov belief (PEB-MK): transitions that nobody has seen are learned from the reports.

A law of gravity M(x'|x) = stay 1{x' = x} + (1 - stay) A(x') exp(-d(x, x') / reach) / norm(x) needs no transition data:
only how attractive the cells are, how far people go from one query to the next, and how often they do not go at all.
The attraction A is learned cell by cell. For reach and stay there is a bank of laws, weighted by how well each has
foretold the reports so far: cross-validation on what was released, and on nothing else.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from sim.belief.forgetting import retention
from sim.belief.gravity_kernels import GravityKernels
from sim.belief.parameters import BeliefParameters
from sim.components.registry import component
from sim.components.spec import Positive
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.interfaces import FloatArray, IntArray
from sim.mobility.statistics import Statistics
from sim.world import World
from sim.world.distance import Distance

_ANYWHERE = 0.01  # of the initial profile is uniform: no cell is impossible
_DEALT_ANEW = 0.01  # of the laws' weights at each report: what was wrong for long can come back
_UNTIL_TRUSTED = 1.0  # transitions from a cell that are counted before counts and gravity have an equal say
_LIKELIEST = 16  # cells before a report and after it among which a transition is counted
_STEPS_PER_OCTAVE = 2  # of the growth of reach with time: each has kernels of its own
_LEAST_GROWTH, _MOST_GROWTH = 0.25, 8.0  # eleven steps


@component("belief")
class GravityFilterParameters(BeliefParameters):
    """Markov, blank-slate (PEB-MK): filters the reports with transitions that it learns from them, by gravity."""

    short_name: ClassVar = "PEB-MK"

    kind: Literal["gravity_filter"] = "gravity_filter"
    initial: Literal["training", "uniform", "roads"] = "training"
    """What attracts before the first report: where others went, all cells alike, or cells by their crossings."""
    reaches_km: Annotated[list[Positive], Field(min_length=1, max_length=8)] = [2.5, 12.0]
    """How far people go from one query to the next, along roads where there are any: one law for each."""
    stays: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=1, max_length=8)] = [0.1, 0.5]
    """How often they stay in a cell: one law for each."""
    prior_reports: Positive = 1.0
    """How many reports the initial attraction is worth, which is never forgotten."""
    half_life_queries: Literal["none"] | Positive = 10.0
    """Half-life of a report's weight in the attraction, in reports; none for no decay."""
    transitions: Literal["training", "learned", "none"] = "training"
    """Counts of transitions as one more law: those of the training, where there are any; these and what reports add."""

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> GravityFilter:
        """Return the filter, with distances along the roads where there are any."""
        trained = self.transitions != "none" and statistics.n_transitions > 0
        return GravityFilter(
            self,
            initial_profile=self._initial_profile(statistics, world),
            kernels=world.derived(("gravity", *self.reaches_km), lambda: self.kernels(world.travel_distance)),
            transition=statistics.transition if trained else None,
            counted=statistics.counted if trained else None,
            restart_s=restart_s,
        )

    def kernels(self, distance: Distance) -> GravityKernels:
        """Return the kernels that the filters of all users share."""
        return GravityKernels(distance, self.reaches_km)

    def _initial_profile(self, statistics: Statistics, world: World) -> FloatArray:
        if self.initial != "roads":
            return statistics.initial_profile(self.initial)
        if world.roads is None:
            raise ValueError("`initial: roads` needs roads, found none: add them to the world")
        return world.roads.share_of_cells(statistics.n_cells)


class GravityFilter:
    """Follow the user by a hidden Markov filter with learned transitions.

    A law has one of `reaches_km` (in (0, inf)) and one of `stays` (in [0, 1)). All share the attraction A, in which the
    initial profile is worth `prior_reports` (in (0, inf)) and each report counts by the posterior that it led to; a
    report loses half of its weight in `half_life_queries`. The filter predicts by the mean of all laws by weight. A
    report multiplies a law's weight by how likely the law held it.

    Where queries come at irregular times, reach grows with the square root of the time since the last report, and stay
    falls exponentially with it, both as said at the usual time between reports (their geometric mean so far).

    `transition[from, to]` with `counted[from]`, the number of transitions that each row was made from, is what training
    knows. It makes one more law, which trusts a row the more the more was counted, and gravity for the rest. With
    `count_transitions` there is such a law in any case, and each report adds to its counts the transition that it tells
    of, by the posterior of both cells. Days are apart: with `restart_s` the filter starts anew at the attraction when
    time_s // restart_s is another.
    """

    fixed: bool = False

    def __init__(
        self,
        parameters: GravityFilterParameters,
        *,
        initial_profile: ArrayLike,
        kernels: GravityKernels,
        transition: ArrayLike | None = None,
        counted: ArrayLike | None = None,
        restart_s: int | None = None,
    ) -> None:
        n_cells = kernels.distance.n_cells
        initial = distribution(initial_profile, "initial_profile")
        if initial.shape != (n_cells,):
            raise ValueError(f"initial_profile must have the distance's {n_cells} cells, got shape {initial.shape}")
        if restart_s is not None and restart_s < 1:
            raise ValueError(f"restart_s must be in [1, inf), got {restart_s}")
        if (transition is None) != (counted is None):
            raise ValueError("transition and counted go together, got one of them")
        self._initial = (1 - _ANYWHERE) * initial + _ANYWHERE / n_cells
        self._kernels = kernels
        self._prior_reports = parameters.prior_reports
        self._reaches_km = tuple(map(float, parameters.reaches_km))
        self._stays = np.array(parameters.stays, dtype=np.float64)
        self._keep = retention(parameters.half_life_queries)
        self._restart_s = restart_s
        trained = None if transition is None or counted is None else _Trained(transition, counted, n_cells)
        self._counts: _Trained | _Learned | None = (
            _Learned(n_cells, trained) if parameters.transitions == "learned" else trained
        )
        self._start_weights = self._deal()
        self._weights = self._start_weights
        self._visits = np.zeros(n_cells)
        self._posterior: FloatArray | None = None
        self._last_s = 0
        self._gaps = 0
        self._mean_log_gap = 0.0
        self._prediction: tuple[int, _Prediction] | None = None
        self._laws: tuple[float, FloatArray] | None = None
        self.fallbacks = 0
        """How many reports the prediction held impossible: there the likelihood alone was believed."""

    @property
    def weights(self) -> FloatArray:
        """How far each law is trusted, by reach and then by stay; that of counts, if there are any, is the last."""
        return self._weights

    @property
    def attraction(self) -> FloatArray:
        """A, learned so far, shape (n_cells,)."""
        return normalise(self._prior_reports * self._initial + self._visits)

    def prior(self, time_s: int) -> FloatArray:
        """Return p(x^r | z^{r-1}), the same read-only array until the next report."""
        return self._predict(time_s).prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return p(x^r | z^r), go on from there, and learn from the report which laws hold and what attracts."""
        prediction = self._predict(time_s)
        posterior, mass = condition(prediction.prior, likelihood)
        if mass > 0:
            if isinstance(self._counts, _Learned) and prediction.moves is not None:
                self._counts.add(prediction.moves.pairs(self._counts, likelihood, posterior))
            told = self._weights * (prediction.laws @ (prediction.parts @ likelihood))
            self._weights = (1 - _DEALT_ANEW) * told / told.sum() + _DEALT_ANEW * self._start_weights
        else:
            self.fallbacks += 1
            posterior = normalise(likelihood)
        if self._goes_on(time_s) and time_s > self._last_s:
            self._gaps += 1
            self._mean_log_gap += (math.log(time_s - self._last_s) - self._mean_log_gap) / self._gaps
        self._visits = self._keep * self._visits + posterior
        self._posterior = posterior.copy()
        self._last_s = time_s
        self._prediction = None
        return posterior

    def _deal(self) -> FloatArray:
        """Return the weights before the first report: half to counts, if there are any, the rest to gravity."""
        n_laws = len(self._reaches_km) * self._stays.size
        if self._counts is None:
            return np.full(n_laws, 1 / n_laws)
        return np.append(np.full(n_laws, 0.5 / n_laws), 0.5)

    def _goes_on(self, time_s: int) -> bool:
        """Whether the filter goes on from the last report, and does not start anew."""
        if self._posterior is None:
            return False
        return self._restart_s is None or time_s // self._restart_s == self._last_s // self._restart_s

    def _predict(self, time_s: int) -> _Prediction:
        if self._prediction is None or self._prediction[0] != time_s:
            found = self._go_on(time_s, self._posterior) if self._goes_on(time_s) else self._start_anew()
            self._prediction = (time_s, found)
        return self._prediction[1]

    def _start_anew(self) -> _Prediction:
        """Return what all laws start from: the attraction."""
        return _Prediction.of(self.attraction[np.newaxis], np.ones((self._weights.size, 1)), self._weights)

    def _go_on(self, time_s: int, posterior: FloatArray | None) -> _Prediction:
        """Return where the laws lead from the last posterior: to stay there, to move, or where counts say."""
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
        if self._counts is None:
            return _Prediction.of(parts, laws, self._weights)
        known, rest = self._counts.lead(posterior)
        weights = self._weights[:-1]
        share = weights @ laws[:-1, :-1] / weights.sum()
        parts[-1] = known + share[0] * rest + share[1:] @ (attraction * pull.to_each(rest / norm))
        if not isinstance(self._counts, _Learned):
            return _Prediction.of(parts, laws, self._weights)
        moves = _Moves(
            posterior, attraction, norm, share, self._kernels.distance, pull.reaches_km, float(self._weights[-1])
        )
        return _Prediction.of(parts, laws, self._weights, moves)

    def _laws_after(self, elapsed: float) -> FloatArray:
        """Return how much of each part a law takes: the posterior itself, moves of each reach, what counts say."""
        if self._laws is None or self._laws[0] != elapsed:
            stay = self._stays**elapsed
            n_moves = len(self._reaches_km)
            laws = np.zeros((self._weights.size, n_moves + 1 + (self._counts is not None)))
            gravity = np.arange(n_moves * stay.size)
            laws[gravity, 0] = np.tile(stay, n_moves)
            laws[gravity, 1 + gravity // stay.size] = np.tile(1 - stay, n_moves)
            if self._counts is not None:
                laws[-1, -1] = 1.0
            self._laws = (elapsed, laws)
        return self._laws[1]

    def _elapsed(self, time_s: int) -> float:
        """Return the time since the last report by the usual time between reports; 1 until that is known."""
        if self._gaps == 0 or time_s <= self._last_s:
            return 1.0
        return (time_s - self._last_s) / math.exp(self._mean_log_gap)


class _Prediction:
    """What all laws expect: each is a mean of the same few parts."""

    __slots__ = ("laws", "moves", "parts", "prior")

    def __init__(self, prior: FloatArray, parts: FloatArray, laws: FloatArray, moves: _Moves | None) -> None:
        self.prior = prior
        self.parts = parts
        """Distributions over cells, one a row."""
        self.laws = laws
        """[law, part]: how much of each part a law takes."""
        self.moves = moves
        """How it came about, where transitions are counted."""

    @classmethod
    def of(cls, parts: FloatArray, laws: FloatArray, weights: FloatArray, moves: _Moves | None = None) -> _Prediction:
        return cls(read_only(normalise(weights @ laws @ parts)), parts, laws, moves)


class _Moves(NamedTuple):
    """The transitions behind a prediction: gravity, whose `share` says how much to stay and to move, and counts."""

    before: FloatArray
    attraction: FloatArray
    norm: FloatArray
    share: FloatArray
    distance: Distance
    reaches_km: FloatArray
    trust: float
    """The weight of the law of counts."""

    def pairs(self, counts: _Learned, likelihood: FloatArray, after: FloatArray) -> _Pairs:
        """Return p(x^{r-1}, x^r | z^r) among the likeliest cells before and after a report."""
        start = _likeliest(self.before)
        end = _likeliest(after)
        block = np.ix_(start, end)
        gravity = self.share[0] * (start[:, None] == end)
        for share, reach_km, norm in zip(self.share[1:], self.reaches_km, self.norm, strict=True):
            pull = np.exp(-self.distance.matrix_km[block] / reach_km)
            gravity = gravity + share * self.attraction[end] * pull / norm[start, None]
        counted = (counts.pairs[block] + _UNTIL_TRUSTED * gravity) / (counts.rows[start, None] + _UNTIL_TRUSTED)
        transition = (1 - self.trust) * gravity + self.trust * counted
        mass = self.before[start, None] * transition * likelihood[end]
        return _Pairs(start, end, mass / mass.sum())


class _Pairs(NamedTuple):
    """How likely each pair of cells is."""

    start: IntArray
    end: IntArray
    mass: FloatArray


def _likeliest(weights: FloatArray) -> IntArray:
    """Return the cells of the largest weights, or all where there are few."""
    if weights.size <= _LIKELIEST:
        return np.arange(weights.size)
    return np.argpartition(weights, -_LIKELIEST)[-_LIKELIEST:]


class _Trained:
    """Transitions that were counted in training, and how far to trust them."""

    def __init__(self, transition: ArrayLike, counted: ArrayLike, n_cells: int) -> None:
        self.transition = distribution(transition, "transition")
        self.rows = np.asarray(counted, dtype=np.float64)
        if self.transition.shape != (n_cells, n_cells) or self.rows.shape != (n_cells,):
            raise ValueError(
                f"transition and counted must have shapes {(n_cells, n_cells)} and {(n_cells,)}, "
                f"got {self.transition.shape} and {self.rows.shape}"
            )
        if not (np.isfinite(self.rows).all() and self.rows.min() >= 0):
            raise ValueError(f"counted must be in [0, inf), got {self.rows.min()}")
        self._trust = self.rows / (self.rows + _UNTIL_TRUSTED)

    def lead(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return where the counts lead, and what of the posterior is left to gravity."""
        return (posterior * self._trust) @ self.transition, posterior * (1 - self._trust)


class _Learned:
    """Transitions that are counted as reports come, on top of those of training."""

    def __init__(self, n_cells: int, trained: _Trained | None) -> None:
        self.rows = np.zeros(n_cells)
        """How many from each cell."""
        self.pairs = np.zeros((n_cells, n_cells))
        """[from, to]: how many."""
        if trained is not None:
            self.rows = trained.rows.copy()
            self.pairs = trained.rows[:, None] * trained.transition

    def lead(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return where the counts lead, and what of the posterior is left to gravity."""
        each = posterior / (self.rows + _UNTIL_TRUSTED)
        return each @ self.pairs, _UNTIL_TRUSTED * each

    def add(self, pairs: _Pairs) -> None:
        """Count one more transition, spread over the pairs that it may have been."""
        self.pairs[np.ix_(pairs.start, pairs.end)] += pairs.mass
        self.rows[pairs.start] += pairs.mass.sum(axis=1)


def _growth(elapsed: float) -> float:
    """Return how many times farther people get in a time, in units of the usual time, in steps.

    >>> _growth(4.0)
    2.0
    """
    growth = min(max(math.sqrt(elapsed), _LEAST_GROWTH), _MOST_GROWTH)
    return float(2.0 ** (round(math.log2(growth) * _STEPS_PER_OCTAVE) / _STEPS_PER_OCTAVE))
