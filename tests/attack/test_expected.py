"""The exact expected error of every attack in a world of three cells, over all true paths and all reports.

The correct estimate for each sequence of reports is computed by summing over all paths, independently of the simulator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sim.attack import bayesian, identification
from sim.attack.assumed import AssumingAttack
from sim.attack.bayesian import AnyAttack
from sim.attack.face_value import FaceValueAttack
from sim.attack.hindsight import Hindsight, PathAttack, SmoothingAttack
from sim.attack.optimal import HiddenChannel, OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.events import Report
from sim.interfaces import Attack, Channel
from sim.lppm.channels.hiding import identity
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.outputs import CellsOrNothing, Points, Regions, Sets
from sim.mobility.statistics import Statistics
from sim.scenario.models import Scenario
from sim.world import World
from sim.world.distance import Distance, MatrixDistance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import raises_code

Array = NDArray[np.float64]

N, REPORTS = 3, 3
GRID = Grid.rectangle(rows=1, cols=N, width_km=3.0, height_km=1.0)
DISTANCE = manhattan(GRID)
UPHILL = MatrixDistance(kind="file", matrix_km=np.array([[0.0, 2.5, 4.0], [0.5, 0.0, 1.5], [2.0, 0.25, 0.0]]))
"""An asymmetric privacy distance, which detects transposed arguments."""
DISTANCES = pytest.mark.parametrize("distance", [DISTANCE, UPHILL], ids=["manhattan", "uphill"])
PATHS = list(itertools.product(range(N), repeat=REPORTS))
"""All sequences of cells, also used as the sequences of outputs."""
Errors = dict[tuple[int, int], float]
"""The expected error about query s after report r."""


class Model:
    """A random user, a random mechanism and a random assumed mechanism, with some zero probabilities."""

    def __init__(self, seed: int, distance: Distance = DISTANCE) -> None:
        rng = np.random.default_rng(seed)
        self.km = distance.matrix_km.tolist()
        """d_P[from the true cell, to the estimate]."""

        def drawn(rows: int, zeros: float) -> Array:
            weights = rng.random((rows, N)) * (rng.random((rows, N)) > zeros)
            weights[weights.sum(axis=1) == 0] = 1.0
            return np.array(weights / weights.sum(axis=1, keepdims=True))

        self.start, self.move = drawn(1, 0.2)[0], drawn(N, 0.3)
        self.channel, self.other = drawn(N, 0.2), drawn(N, 0.2)
        self.profile = drawn(1, 0.0)[0]
        self.weights = {z: [self.weight(path, z, self.channel) for path in PATHS] for z in PATHS}
        """p(x, z) of each path, by outputs."""

    def filter(self) -> MarkovFilter:
        return MarkovFilter(start_profile=self.start, transition=self.move)

    def weight(self, path: tuple[int, ...], outputs: tuple[int, ...], channel: Array) -> float:
        """Return p(x^1 .. x^r, z^1 .. z^r) for as many queries as there are outputs."""
        p = self.start[path[0]]
        for a, b in itertools.pairwise(path[: len(outputs)]):
            p *= self.move[a, b]
        for x, z in zip(path, outputs, strict=False):
            p *= channel[x, z]
        return float(p)

    def estimates(self, outputs: tuple[int, ...], s: int, channel: Array) -> tuple[int, int]:
        """Return the optimal estimate of query s after these outputs, and that of the most likely path."""
        r = len(outputs)
        paths = [(path, self.weight(path, outputs, channel)) for path in itertools.product(range(N), repeat=r)]
        costs = [sum(p * self.km[path[s - 1]][y] for path, p in paths) for y in range(N)]
        total, most = sum(p for _, p in paths), max(p for _, p in paths)
        best = next(y for y in range(N) if costs[y] <= min(costs) + 1e-12 * total)
        likeliest = min((path for path, p in paths if p >= most * (1 - 1e-9)), key=lambda path: path[::-1])
        return best, likeliest[s - 1]


def estimates_of(attack: Attack, channel: Channel | None, outputs: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Return the attack's estimate of query s after report r, by (r, s)."""
    estimates = {}
    guesses = [attack.observe(Report("ann", r, r, z, channel)) for r, z in enumerate(outputs, start=1)]
    for guess in (*guesses, *getattr(attack, "conclude", tuple)()):
        estimates[guess.index, guess.index] = guesses[guess.index - 1].estimate
        estimates |= {(guess.index, s): estimate for s, estimate in guess.revised}
    return estimates


def expected(model: Model, make: Callable[[], Attack], *, hidden: bool = False) -> Errors:
    """Return the expected errors of an attack."""
    channel = MatrixChannel(model.channel)
    errors: Errors = {}
    for outputs, weights in model.weights.items():
        if any(weights):
            for key, estimate in estimates_of(make(), None if hidden else channel, outputs).items():
                error = sum(p * model.km[path[key[1] - 1]][estimate] for path, p in zip(PATHS, weights, strict=True))
                errors[key] = errors.get(key, 0.0) + error
    return errors


def oracle(model: Model, estimate_of: Callable[[tuple[int, ...], int], int]) -> Errors:
    """Return the expected errors of an estimator, a function of the outputs up to r and of s."""
    cached_estimate_of = cache(estimate_of)
    errors: Errors = {(r, s): 0.0 for r in range(1, REPORTS + 1) for s in range(1, r + 1)}
    for outputs, weights in model.weights.items():
        if any(weights):
            for r, s in errors:
                estimate = cached_estimate_of(outputs[:r], s)
                errors[r, s] += sum(p * model.km[path[s - 1]][estimate] for path, p in zip(PATHS, weights, strict=True))
    return errors


def online(errors: Errors) -> Errors:
    return {(r, s): error for (r, s), error in errors.items() if r == s}


@DISTANCES
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_every_attack_has_its_exact_expected_error_and_none_beats_the_optimum(distance: Distance, seed: int) -> None:
    model = Model(seed, distance)
    other = MatrixChannel(model.other)

    def make_belief(_: str) -> Any:
        return model.filter()

    def assuming() -> Attack:
        belief = model.filter()
        attack = OptimalAttack(belief_of=lambda _: belief, distance=distance)
        return AssumingAttack(attack=attack, belief_of=lambda _: belief, design=lambda _: other)

    errors_of = {
        "markov": expected(model, lambda: OptimalAttack(belief_of=make_belief, distance=distance)),
        "sporadic": expected(
            model, lambda: OptimalAttack(belief_of=lambda _: FixedProfile(profile=model.profile), distance=distance)
        ),
        "smoothing": expected(model, lambda: SmoothingAttack(Hindsight(), belief_of=make_belief, distance=distance)),
        "path": expected(model, lambda: PathAttack(Hindsight(), belief_of=make_belief)),
        "face value": expected(
            model, lambda: FaceValueAttack(profile_of=lambda _: model.profile, distance=distance), hidden=True
        ),
        "assuming": expected(model, assuming, hidden=True),
    }
    best = oracle(model, lambda outputs, s: model.estimates(outputs, s, model.channel)[0])
    assert errors_of["markov"] == pytest.approx(online(best), abs=1e-12)
    assert errors_of["smoothing"] == pytest.approx(best, abs=1e-12)
    path = oracle(model, lambda outputs, s: model.estimates(outputs, s, model.channel)[1])
    assert errors_of["path"] == pytest.approx(path, abs=1e-12)
    face = oracle(model, lambda outputs, s: outputs[s - 1])
    assert errors_of["face value"] == pytest.approx(online(face), abs=1e-12)
    for name, errors in errors_of.items():
        assert all(errors[key] >= best[key] - 1e-12 for key in errors), name
    for r, s in best:
        # Later reports never increase the expected error of the optimal estimate.
        assert errors_of["smoothing"][r, s] <= errors_of["markov"][s, s] + 1e-12


def test_smoothing_and_models_strictly_reduce_the_error() -> None:
    """Sum over some models: the inequalities above would also hold for identical attacks."""
    smoothing = markov = path = face = 0.0
    for seed in range(5):
        model = Model(seed)
        best = oracle(model, lambda outputs, s, m=model: m.estimates(outputs, s, m.channel)[0])  # type: ignore[misc]
        smoothing, markov = smoothing + best[3, 1], markov + best[1, 1]
        path += oracle(model, lambda outputs, s, m=model: m.estimates(outputs, s, m.channel)[1])[3, 1]  # type: ignore[misc]
        face += oracle(model, lambda outputs, s: outputs[s - 1])[1, 1]
    assert smoothing < 0.95 * markov
    assert smoothing < path - 1e-3
    assert markov < 0.5 * face


@DISTANCES
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_assuming_is_bayes_with_the_assumed_channel(distance: Distance, seed: int) -> None:
    """Check all sequences of reports that are possible under the assumed channel."""
    model = Model(seed, distance)
    channel, real = MatrixChannel(model.other), MatrixChannel(model.channel)
    for outputs in itertools.product(range(N), repeat=REPORTS):
        if not any(model.weight(path, outputs, model.other) for path in PATHS):
            continue
        for make in (OptimalAttack, partial(SmoothingAttack, Hindsight())):
            belief = model.filter()
            attack = AssumingAttack(
                attack=make(belief_of=lambda _, b=belief: b, distance=distance, all_outputs=True),  # type: ignore[misc]
                belief_of=lambda _, b=belief: b,  # type: ignore[misc]
                design=lambda _: channel,
            )
            # The true channel in the report, if any, must be ignored.
            estimates = estimates_of(attack, real if make is OptimalAttack else None, outputs)
            assert estimates == {(r, s): model.estimates(outputs[:r], s, model.other)[0] for r, s in estimates}
            assert len(estimates) == (3 if make is OptimalAttack else 6)
            assert attack.fallbacks == 0


# Impossible reports and outputs other than cells -----------------------------------------------------------------


def assuming(belief: Any, channel: Channel, **arguments: Any) -> AssumingAttack:
    attack = OptimalAttack(belief_of=lambda _: belief, distance=DISTANCE, all_outputs=True)
    return AssumingAttack(attack=attack, belief_of=lambda _: belief, design=lambda _: channel, **arguments)


@pytest.mark.parametrize("belief", ["fixed", "markov"])
def test_report_impossible_under_the_assumed_channel_is_uninformative_and_counted(belief: str) -> None:
    profile = np.array([0.1, 0.2, 0.7])
    made: Any = (
        FixedProfile(profile=profile)
        if belief == "fixed"
        else MarkovFilter(start_profile=profile, transition=np.tile(profile, (N, 1)))
    )
    never_2 = MatrixChannel(np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.9, 0.1, 0.0]]))
    attack = assuming(made, never_2)
    for index, (output, estimate, count) in enumerate([(2, 2, 1), (1, 1, 1), (2, 2, 2), (0, 2, 2)], start=1):
        guess = attack.observe(Report("ann", index, index, output, None))
        assert guess.estimate == estimate
        assert guess.estimate_by_output is not None
        assert guess.estimate_by_output.tolist() == [2, 1, 2]
        assert attack.fallbacks == count


def test_outputs_of_another_space_are_uninformative() -> None:
    attack = assuming(FixedProfile(profile=np.array([0.1, 0.2, 0.7])), identity(N), readable=False)
    for index, output in enumerate((0, 7, 2**40), start=1):
        guess = attack.observe(Report("ann", index, index, output, None))
        assert (guess.estimate, guess.estimate_by_output) == (2, None)
    assert attack.fallbacks == 3


def test_assumed_channel_uses_the_adversarys_prior_and_is_cached_by_it() -> None:
    priors: list[list[float]] = []
    design = Exponential(ExponentialParameters(epsilon_per_km=1.0), distance=DISTANCE)

    def counted(prior: Array) -> Channel:
        priors.append(prior.tolist())
        return design(prior)

    profile = np.array([0.5, 0.25, 0.25])
    for belief, times in (
        (FixedProfile(profile=profile), 1),
        (MarkovFilter(start_profile=profile, transition=np.full((N, N), 1 / N)), 3),
    ):
        priors.clear()
        made: Any = belief
        attack = AssumingAttack(
            attack=OptimalAttack(belief_of=lambda _, b=made: b, distance=DISTANCE),  # type: ignore[misc]
            belief_of=lambda _, b=made: b,  # type: ignore[misc]
            design=counted,
        )
        for index in (1, 2, 3):
            attack.observe(Report("ann", index, index, 1, None))
        assert len(priors) == times
        assert priors[0] == profile.tolist()


@pytest.mark.parametrize("attack", ["optimal", "smoothing", "path"])
def test_attacks_that_need_the_channel_reject_a_report_without_one(attack: str) -> None:
    def make_belief(_: str) -> Any:
        return Model(0).filter()

    made: dict[str, Attack] = {
        "optimal": OptimalAttack(belief_of=make_belief, distance=DISTANCE),
        "smoothing": SmoothingAttack(Hindsight(), belief_of=make_belief, distance=DISTANCE),
        "path": PathAttack(Hindsight(), belief_of=make_belief),
    }
    with raises_code(HiddenChannel, "no-channel") as error:
        made[attack].observe(Report("ann", 1, 0, 0, None))
    assert all(part in str(error.value) for part in ("query 1 of ann", "`face-value`", "`assumes`"))


PROFILE = np.array([0.1, 0.0, 0.2, 0.3, 0.0, 0.4])
WIDE = Grid.rectangle(rows=1, cols=6, width_km=6.0, height_km=1.0)


@pytest.mark.parametrize("distance", [manhattan(WIDE), euclidean(WIDE)], ids=["manhattan", "euclidean"])
def test_face_value_estimates_for_every_output_space(distance: Any) -> None:
    def estimates(space: Any, *outputs: int) -> list[int]:
        attack = FaceValueAttack(profile_of=lambda _: PROFILE, distance=distance, space=space, all_outputs=True)
        guesses = [attack.observe(Report("ann", i, i, z, None)) for i, z in enumerate(outputs, start=1)]
        if space is not None and space.kind in ("sets", "points"):
            assert all(guess.estimate_by_output is None for guess in guesses)
        else:
            assert all(guess.estimate_by_output[z] == guess.estimate for guess, z in zip(guesses, outputs, strict=True))  # type: ignore[index]
        return [guess.estimate for guess in guesses]

    assert estimates(None, 4, 0) == [4, 0]
    assert estimates(CellsOrNothing(6), 4, 6) == [4, 3]  # without a report: the median of the profile
    assert estimates(Regions(((0, 1, 2), (3, 4, 5)), (1, 4)), 0, 1) == [1, 4]
    pairs = Sets(6, 2)
    # The likelier cell of a pair; the lower one if both have probability 0 or are tied.
    assert estimates(pairs, pairs.output([0, 5]), pairs.output([1, 4]), pairs.output([0, 2])) == [5, 1, 2]
    places = Points(WIDE)
    assert estimates(places, places.output(3.4, 0.5), places.output(-2.0, 0.5)) == [3, 0]


def test_estimate_without_a_report_uses_the_distance_from_the_true_cell() -> None:
    space, profile = CellsOrNothing(N), np.array([0.4, 0.25, 0.35])
    attack = FaceValueAttack(profile_of=lambda _: profile, distance=UPHILL, space=space)
    costs = [sum(profile[x] * UPHILL.matrix_km[x, y] for x in range(N)) for y in range(N)]
    reversed_costs = [sum(profile[x] * UPHILL.matrix_km[y, x] for x in range(N)) for y in range(N)]
    estimate = attack.observe(Report("ann", 1, 1, N, None)).estimate
    assert estimate == int(np.argmin(costs)) != int(np.argmin(reversed_costs))


EVERY_ATTACK: list[Any] = [
    *bayesian.SHORT_NAMES,
    *identification.SHORT_NAMES,
    "face-value",
    {"kind": "markov", "name": "assuming", "assumes": {"kind": "exponential", "epsilon_per_km": 0.7}},
]


def known_of(seed: int) -> Statistics:
    """Return random statistics of a user."""
    rng = np.random.default_rng(seed)
    profile, pairs = rng.dirichlet(np.full(N, 0.7)), np.arange(N * N)
    return Statistics(profile=profile, n_visits=50, pairs=pairs, counts=rng.integers(0, 9, N * N))


def online_error(attack: Attack, known: Statistics, *, chained: bool, channel: MatrixChannel) -> float:
    """Return the exact expected error of the last estimate over all paths and outputs, if the statistics are true."""
    move = known.transition if chained else np.tile(known.profile, (N, 1))
    total = 0.0
    for number, outputs in enumerate(PATHS):
        estimate = -1
        for r, z in enumerate(outputs, start=1):
            # A separate user for each sequence, so that nothing is carried over. After 22 h, so that it is night.
            estimate = attack.observe(Report(f"u{number}", r, 79_200 + 3600 * r, z, channel)).estimate
        for path in PATHS:
            p = known.profile[path[0]] * math.prod(move[a, b] for a, b in itertools.pairwise(path))
            p *= math.prod(channel.matrix()[x, z] for x, z in zip(path, outputs, strict=True))
            total += p * float(DISTANCE.matrix_km[path[-1], estimate])
    return total


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), chained=st.booleans())
def test_no_attack_of_a_scenario_beats_the_optimal_attack(
    seed: int, chained: bool, make_scenario: Callable[..., Scenario]
) -> None:
    """For a user who follows a model, no attack has a lower expected error than the optimal one for that model."""
    known = known_of(seed)
    weights = np.random.default_rng(seed).dirichlet(np.ones(N), size=N)
    channel = MatrixChannel(weights)
    world = World(locations=GRID, roads=None, privacy_distance=DISTANCE, quality_distance=DISTANCE)
    scenario = make_scenario(record={"expected": False})
    users = {f"u{number}": known for number in range(len(PATHS))} | {"else": known_of(seed + 100)}
    errors = {}
    for data in EVERY_ATTACK:
        spec = TypeAdapter(AnyAttack).validate_python(data)
        attack = spec.build(scenario.attack_context(world, users))
        errors[spec.name] = online_error(attack, known, chained=chained, channel=channel)
    optimal = errors["markov" if chained else "sporadic"]
    assert {name for name, error in errors.items() if error < optimal - 1e-12} == set()
    assert len(errors) == len(EVERY_ATTACK)
