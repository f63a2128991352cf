"""The gravity filter compared with a reference implementation by full matrices, and its learning."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sim.belief.gravity_filter import GravityFilter, GravityFilterParameters
from sim.belief.markov_filter import MarkovFilter
from sim.belief.recursive_profile import RecursiveProfile, RecursiveProfileParameters
from sim.interfaces import Belief, FloatArray
from sim.mobility.smoothed_statistics import SmoothedStatistics
from sim.mobility.statistics import Statistics, count, statistics
from sim.mobility.traces import Trace
from sim.world import World
from sim.world.distance import Distance, MatrixDistance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import made

GRID = Grid.rectangle(rows=3, cols=4, width_km=4.0, height_km=3.0)
N = GRID.n_cells
DAY_S = 86_400
TIMES_S = [0, 300, 600, 600, 1500, 9000, DAY_S, DAY_S + 20, DAY_S + 320]


def one_way() -> Distance:
    """Return an asymmetric distance, as with one-way streets."""
    away_km = euclidean(GRID).matrix_km * np.random.default_rng(1).uniform(1, 3, (N, N))
    return MatrixDistance(kind="road", matrix_km=away_km)


DISTANCES = {"manhattan": manhattan(GRID), "one-way": one_way()}
WORLD = World(
    locations=GRID, roads=None, privacy_distance=DISTANCES["manhattan"], quality_distance=DISTANCES["manhattan"]
)


def gravity_matrix(distance: Distance, attraction: FloatArray, stay: float, reach_km: float) -> FloatArray:
    pull = attraction * np.exp(-distance.matrix_km / reach_km)
    return np.asarray(stay * np.eye(N) + (1 - stay) * pull / pull.sum(axis=1, keepdims=True))


def reports(count: int, seed: int = 3) -> FloatArray:
    return np.random.default_rng(seed).random((count, N))


@pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES)
def test_one_law_with_known_attraction_equals_the_markov_filter_of_that_law(distance: Distance) -> None:
    initial = np.random.default_rng(2).dirichlet(np.ones(N))
    known = 0.99 * initial + 0.01 / N
    law: dict[str, Any] = {"reaches_km": [1.7], "stays": [0.4], "half_life_queries": None, "prior_reports": 1e15}
    belief = made(GravityFilter, initial_profile=initial, distance=distance, unchecked=True, **law)
    chain = MarkovFilter(start_profile=known, transition=gravity_matrix(distance, known, 0.4, 1.7))
    for r, likelihood in enumerate(reports(12)):
        assert belief.prior(300 * r) == pytest.approx(chain.prior(r), abs=1e-12)
        assert belief.observe(300 * r, likelihood) == pytest.approx(chain.observe(r, likelihood), abs=1e-12)


class Reference:
    """The same bank of laws with a full matrix for each, recomputed at every step."""

    def __init__(
        self,
        initial: FloatArray,
        distance: Distance,
        reaches_km: Sequence[float],
        stays: Sequence[float],
        half_life: float,
        counts: FloatArray | None,
        learns: bool,
        restart_s: int | None,
        population: FloatArray | None = None,
        pooled: bool = False,
        trained_weight: float | None = None,
        reset_share: float | None = None,
        independent_share: float = 0.0,
    ) -> None:
        self.initial = 0.99 * initial + 0.01 / N
        self.distance, self.restart_s, self.learns = distance, restart_s, learns
        has_own = not pooled and (counts is not None or population is not None)
        self.counts = np.zeros((N, N)) if learns and counts is None else counts
        self.population = population
        self.laws = list(itertools.product(reaches_km, stays))
        self.retention = 2 ** (-1 / half_life)
        self.visits = np.zeros(N)
        further = [law for law in (self.counts, population) if law is not None]
        trust = (trained_weight or (0.98 if has_own else 0.5)) if further else 0.0
        gravity = [(1 - trust) / len(self.laws)] * len(self.laws)
        self.start = np.array(gravity + [trust / len(further) for _ in further])
        self.independent = independent_share > 0
        if self.independent:
            kept = [1.0] * len(further) if has_own else [1 - independent_share] * len(further)
            self.start = self.start * np.array([1 - independent_share] * len(gravity) + kept)
            self.start = np.append(self.start, 1 - self.start.sum())
        self.reset_share = reset_share or (0.002 if has_own else 0.01)
        self.weights = self.start
        self.posterior: FloatArray | None = None
        self.last_s = 0
        self.gaps_s: list[int] = []

    @property
    def attraction(self) -> FloatArray:
        return np.asarray((0.7 * self.initial + self.visits) / (0.7 + self.visits.sum()))

    def continues(self, time_s: int) -> bool:
        return self.posterior is not None and (
            self.restart_s is None or time_s // self.restart_s == self.last_s // self.restart_s
        )

    def predictions(self, time_s: int) -> FloatArray:
        if not self.continues(time_s):
            return np.tile(self.attraction, (self.weights.size, 1))
        assert self.posterior is not None
        return np.array([self.posterior @ matrix for matrix in self.matrices(time_s)])

    def matrices(self, time_s: int) -> list[FloatArray]:
        elapsed = 1.0
        if self.gaps_s and time_s > self.last_s:
            elapsed = (time_s - self.last_s) / float(np.exp(np.mean(np.log(self.gaps_s))))
        growth = 2 ** (np.rint(2 * np.log2(np.clip(elapsed**0.5, 0.25, 8))) / 2)
        matrices = [
            gravity_matrix(self.distance, self.attraction, stay**elapsed, reach_km * growth)
            for reach_km, stay in self.laws
        ]
        if self.counts is not None:
            shares = self.weights[: len(self.laws)] / self.weights[: len(self.laws)].sum()
            mean = np.tensordot(shares, np.array(matrices), axes=1)
            matrices.append((self.counts + mean) / (self.counts.sum(axis=1, keepdims=True) + 1))
        if self.population is not None:
            matrices.append(self.population)
        if self.independent:
            matrices.append(np.tile(self.attraction, (N, 1)))
        return matrices

    def prior(self, time_s: int) -> FloatArray:
        return np.asarray(self.weights @ self.predictions(time_s))

    def observe(self, time_s: int, likelihood: FloatArray) -> None:
        weights = self.weights * (self.predictions(time_s) @ likelihood)
        posterior = self.prior(time_s) * likelihood
        if self.learns and self.continues(time_s):
            assert self.posterior is not None
            assert self.counts is not None
            transition = np.tensordot(self.weights, np.array(self.matrices(time_s)), axes=1)
            pairs = self.posterior[:, None] * transition * likelihood
            self.counts = self.counts + pairs / pairs.sum()
        if self.continues(time_s) and time_s > self.last_s:
            self.gaps_s.append(time_s - self.last_s)
        self.weights = (1 - self.reset_share) * weights / weights.sum() + self.reset_share * self.start
        self.posterior = posterior / posterior.sum()
        self.visits = self.retention * self.visits + self.posterior
        self.last_s = time_s


@pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES)
@pytest.mark.parametrize("trained", [False, True], ids=["blank slate", "trained"])
@pytest.mark.parametrize("learns", [False, True], ids=["gravity", "counts"])
@pytest.mark.parametrize("others", [False, True], ids=["alone", "population"])
@pytest.mark.parametrize("restart_s", [None, DAY_S])
@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"pooled": True},
        {"trained_weight": 0.6, "reset_share": 0.1},
        {"independent_share": 0.4},
        {"independent_share": 0.4, "pooled": True},
    ],
    ids=["default", "pooled", "chosen", "independent", "independent, pooled"],
)
def test_bank_of_laws_equals_the_reference_implementation(
    distance: Distance, trained: bool, learns: bool, others: bool, restart_s: int | None, weights: dict[str, Any]
) -> None:
    rng = np.random.default_rng(5)
    initial = rng.dirichlet(np.ones(N))
    counts = rng.integers(0, 3, (N, N)).astype(float)
    counts[4] = 0
    row = counts.sum(axis=1)
    transition = np.where(row[:, None] > 0, counts / np.maximum(row, 1)[:, None], 1 / N)
    bank: dict[str, Any] = {
        "reaches_km": [0.8, 3.0],
        "stays": [0.0, 0.6],
        "prior_reports": 0.7,
        "half_life_queries": 2.0,
    }
    population = rng.dirichlet(np.ones(N), N) if others else None
    training: dict[str, Any] = {"transition": transition, "counted": row} if trained else {}
    training |= {"transitions": "learned" if learns else "training", "population": population} | weights
    belief = made(GravityFilter, initial_profile=initial, distance=distance, restart_s=restart_s, **bank, **training)
    reference = Reference(
        initial,
        distance,
        [0.8, 3.0],
        [0.0, 0.6],
        2.0,
        counts if trained else None,
        learns,
        restart_s,
        population,
        **weights,
    )
    as_protocol: Belief = belief
    for time_s, likelihood in zip(TIMES_S, reports(len(TIMES_S)), strict=True):
        assert as_protocol.prior(time_s) == pytest.approx(reference.prior(time_s), abs=1e-12)
        posterior = as_protocol.observe(time_s, likelihood)
        reference.observe(time_s, likelihood)
        assert posterior == pytest.approx(reference.posterior, abs=1e-12)
        assert belief.weights == pytest.approx(reference.weights, abs=1e-12)
    assert belief.attraction == pytest.approx(reference.attraction, abs=1e-12)
    assert belief.fallbacks == 0


def test_initial_weights_depend_on_the_training_data() -> None:
    """The bank of two laws of gravity, the counts and the population chain, built from statistics."""
    nothing = statistics([], n_cells=N)
    own, others = (
        count([Trace("ann", np.arange(20), np.random.default_rng(seed).integers(0, N, 20))], n_cells=N).statistics(
            pooled=pooled
        )
        for seed, pooled in ((1, False), (2, True))
    )
    smoothing: dict[str, float] = {"pseudo_counts": 30.0, "independent_share": 0.01}
    both, alone = (SmoothedStatistics(part, others, **smoothing) for part in (own, nothing))

    def weights(training: Statistics, **parameters: Any) -> list[float]:
        parameters = {"reaches_km": [2.0], "stays": [0.1, 0.5]} | parameters
        return list(GravityFilterParameters(**parameters).build(training, None, WORLD).weights)

    assert weights(nothing) == [0.5, 0.5]
    assert weights(nothing, trained_weight=0.7) == [0.5, 0.5]
    assert weights(nothing, transitions="learned") == [0.25, 0.25, 0.5]
    assert weights(own) == pytest.approx([0.01, 0.01, 0.98])
    assert weights(own, trained_weight=0.6) == pytest.approx([0.2, 0.2, 0.6])
    assert weights(own, transitions="none") == [0.5, 0.5]
    assert weights(both) == pytest.approx([0.01, 0.01, 0.49, 0.49])
    assert weights(both, transitions="none") == [0.5, 0.5]
    assert weights(others) == [0.25, 0.25, 0.5]
    assert weights(alone) == pytest.approx([0.01, 0.01, 0.98])
    assert weights(alone, trained_weight=0.6) == pytest.approx([0.2, 0.2, 0.6])
    assert weights(nothing, independent_share=0.2) == pytest.approx([0.4, 0.4, 0.2])
    assert weights(nothing, transitions="learned", independent_share=0.2) == pytest.approx([0.2, 0.2, 0.4, 0.2])
    assert weights(others, independent_share=0.5) == pytest.approx([0.125, 0.125, 0.25, 0.5])
    assert weights(both, independent_share=0.5) == pytest.approx([0.005, 0.005, 0.49, 0.49, 0.01])


def test_with_almost_all_the_weight_independence_is_the_recursive_profile() -> None:
    """The law of independent queries predicts as RPEB does with the same initial profile and memory."""
    initial = np.random.default_rng(6).dirichlet(np.ones(N))
    shared: dict[str, Any] = {"prior_reports": 0.7, "half_life_queries": 3.0}
    sure: dict[str, Any] = {"independent_share": 1 - 1e-12, "reset_share": 1 - 1e-12}
    distance = DISTANCES["manhattan"]
    profile = RecursiveProfile(RecursiveProfileParameters(**shared), initial_profile=initial)
    same = (profile.prior(0) - 0.01 / N) / 0.99  # each belief mixes its initial profile with a uniform share of its own
    belief = made(GravityFilter, initial_profile=same, distance=distance, **shared, **sure)
    for r, likelihood in enumerate(reports(12)):
        assert belief.prior(300 * r) == pytest.approx(profile.prior(300 * r), abs=1e-9)
        assert belief.observe(300 * r, likelihood) == pytest.approx(profile.observe(300 * r, likelihood), abs=1e-9)


def test_the_population_law_is_the_markov_filter_of_the_population_chain() -> None:
    """With almost all the weight, the law predicts as MK does after the first report."""
    others = statistics([Trace("ann", np.arange(60), np.random.default_rng(1).integers(0, N, 60))], n_cells=N)
    both = SmoothedStatistics(statistics([], n_cells=N), others, pseudo_counts=30.0, independent_share=0.01)
    sure = {"trained_weight": 1 - 1e-12, "reset_share": 1 - 1e-12}
    belief = GravityFilterParameters(**sure).build(both, None, WORLD)  # type: ignore[arg-type]
    chain = MarkovFilter(start_profile=both.profile, transition=both.transitions)
    chain.observe(0, belief.observe(0, reports(1)[0]) / both.profile)
    for r, likelihood in enumerate(reports(8), start=1):
        assert belief.prior(300 * r) == pytest.approx(chain.prior(r), abs=1e-9)
        assert belief.observe(300 * r, likelihood) == pytest.approx(chain.observe(r, likelihood), abs=1e-9)


def walk(transition: FloatArray, steps: int, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    cells = [0]
    for _ in range(steps):
        cells.append(int(rng.choice(N, p=transition[cells[-1]])))
    return cells


def noisy(cell: int, rng: np.random.Generator, epsilon: float = 1.5) -> FloatArray:
    channel = np.exp(-epsilon * DISTANCES["manhattan"].matrix_km)
    channel /= channel.sum(axis=1, keepdims=True)
    return np.asarray(channel[:, rng.choice(N, p=channel[cell])])


@pytest.mark.parametrize("independent", [True, False])
def test_independence_gains_the_weight_if_queries_are_independent(independent: bool) -> None:
    profile = np.random.default_rng(11).dirichlet(np.full(N, 0.5))
    transition = gravity_matrix(DISTANCES["manhattan"], profile, 0.6, 0.5)
    rng = np.random.default_rng(12)
    cells = rng.choice(N, 600, p=profile).tolist() if independent else walk(transition, 600, seed=12)
    belief = made(
        GravityFilter,
        reaches_km=[0.5],
        stays=[0.6],
        half_life_queries=None,
        independent_share=0.5,
        initial_profile=profile,
        distance=DISTANCES["manhattan"],
    )
    average = np.zeros(2)
    for r, cell in enumerate(cells):
        belief.observe(300 * r, noisy(cell, rng))
        average += belief.weights
    assert average[1 if independent else 0] > 0.75 * average.sum()


@pytest.mark.parametrize("short", [True, False])
def test_the_true_law_gains_the_weight(short: bool) -> None:
    even = np.full(N, 1 / N)
    cells = walk(gravity_matrix(DISTANCES["manhattan"], even, 0.1, 0.4 if short else 50.0), 400, seed=7)
    belief = made(
        GravityFilter,
        reaches_km=[0.4, 50.0],
        stays=[0.1],
        half_life_queries=None,
        initial_profile=even,
        distance=DISTANCES["manhattan"],
    )
    rng = np.random.default_rng(8)
    average = np.zeros(2)
    for r, cell in enumerate(cells):
        belief.observe(300 * r, noisy(cell, rng))
        average += belief.weights
    assert average[0 if short else 1] > 0.75 * average.sum()


def test_attraction_is_learned_from_reports() -> None:
    attraction = np.full(N, 0.02)
    attraction[[1, 10]] = 0.4
    attraction /= attraction.sum()
    rng = np.random.default_rng(9)
    belief = made(
        GravityFilter, half_life_queries=None, initial_profile=np.full(N, 1 / N), distance=DISTANCES["manhattan"]
    )
    for r, cell in enumerate(walk(gravity_matrix(DISTANCES["manhattan"], attraction, 0.1, 12.0), 600, seed=9)):
        belief.observe(300 * r, noisy(cell, rng))
    assert set(belief.attraction.argsort()[-2:]) == {1, 10}


def test_transitions_are_counted_among_the_likeliest_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of transitions predict a user who goes around a ring; gravity alone does not."""
    monkeypatch.setattr("sim.belief.gravity_counts._LIKELIEST", 4)
    ring = [0, 1, 2, 3, 7, 11, 10, 9, 8, 4]
    even = np.full(N, 1 / N)
    beliefs = [
        made(
            GravityFilter,
            initial_profile=even,
            distance=DISTANCES["manhattan"],
            transitions="learned" if learns else "training",
        )
        for learns in (False, True)
    ]
    rng = np.random.default_rng(4)
    log_likelihoods = np.zeros(2)
    for r in range(400):
        likelihood = noisy(ring[r % len(ring)], rng, epsilon=4.0)
        if r >= 200:
            log_likelihoods += [float(np.log(belief.prior(300 * r) @ likelihood)) for belief in beliefs]
        for belief in beliefs:
            belief.observe(300 * r, likelihood)
    assert log_likelihoods[1] > log_likelihoods[0] + 100
    assert beliefs[1].weights[-1] > 0.9


def test_reach_grows_and_stay_decreases_with_the_time_since_the_last_report() -> None:
    belief = made(
        GravityFilter, reaches_km=[0.5], stays=[0.9], initial_profile=np.full(N, 1 / N), distance=DISTANCES["manhattan"]
    )
    here = np.eye(N)[0] + 1e-3
    for r in range(5):
        belief.observe(300 * r, here)
    soon, usual, late = (belief.prior(1200 + gap_s)[0] for gap_s in (30, 300, 7200))
    assert soon > usual > late
    assert belief.prior(1500) == pytest.approx(belief.prior(1500))
    far = [belief.prior(1200 + gap_s)[-1] for gap_s in (300, 7200)]
    assert far[1] > far[0]


def test_prior_is_pure_and_read_only() -> None:
    belief = made(GravityFilter, initial_profile=np.full(N, 1 / N), distance=DISTANCES["manhattan"])
    for r, likelihood in enumerate(reports(4)):
        prior = belief.prior(r)
        assert belief.prior(r) is prior
        assert not prior.flags.writeable
        belief.prior(r + 5)
        assert belief.prior(r).tolist() == prior.tolist()
        assert prior.sum() == pytest.approx(1)
        belief.observe(r, likelihood)
    copy: GravityFilter = pickle.loads(pickle.dumps(belief))
    assert copy.prior(9).tolist() == belief.prior(9).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reaches_km": []}, r"(?s)reaches_km.*input_value=\[\]"),
        ({"reaches_km": [0.0]}, r"(?s)reaches_km.*input_value=0.0"),
        ({"stays": [1.0]}, r"(?s)stays.*input_value=1.0"),
        ({"half_life_queries": 0.0}, r"(?s)half_life_queries.*input_value=0.0"),
        ({"prior_reports": 0.0}, r"(?s)prior_reports.*input_value=0.0"),
        ({"transition": np.eye(N)}, r"^counted\b"),
        ({"counted": np.ones(N)}, r"^transition\b"),
        ({"population": np.eye(3)}, r"^population must have 12 cells, got 3"),
        ({"trained_weight": 1.0}, r"(?s)trained_weight.*input_value=1.0"),
        ({"reset_share": 0.0}, r"(?s)reset_share.*input_value=0.0"),
        ({"restart_s": 0}, r"restart_s must be in \[1, inf\), got 0"),
        ({"initial_profile": [0.5, 0.5]}, r"^initial_profile .* \(12,\), got \(2,\)"),
        (
            {"transition": np.eye(3), "counted": np.ones(3)},
            r"^transition .* 12 cells, got 3 and \(3,\)",
        ),
        ({"transition": np.eye(N), "counted": -np.ones(N)}, r"counted must be in \[0, inf\), got -1.0"),
    ],
)
def test_invalid_arguments_are_rejected_with_their_value(arguments: dict[str, object], message: str) -> None:
    valid = {"initial_profile": np.full(N, 1 / N), "distance": DISTANCES["manhattan"]}
    with pytest.raises(ValueError, match=message):
        made(GravityFilter, **valid | arguments)
