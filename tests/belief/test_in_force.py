"""The belief in force compared with enumeration of all paths under the statistics of each period."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Sequence

import numpy as np
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.belief.in_force import InForce
from sim.belief.markov_filter import MarkovFilter
from sim.events import Report
from sim.interfaces import FloatArray
from sim.lppm.channels.matrix import MatrixChannel
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

N = 6
FIRSTS = [1, 3, 4]
DAY_S = 86_400
GRID = Grid.rectangle(rows=2, cols=3, width_km=3, height_km=2)


def models(seed: int = 0) -> list[tuple[FloatArray, FloatArray]]:
    """Return a profile and transitions for each period, with many zeros in both."""
    rng = np.random.default_rng(seed)
    statistics = []
    for _ in FIRSTS:
        weights = rng.dirichlet(np.full(N, 0.4), size=N + 1)
        weights[weights < 0.02] = 0
        weights /= weights.sum(axis=1, keepdims=True)
        statistics.append((weights[0], weights[1:]))
    return statistics


def in_force(index: int) -> int:
    """Return the period of a query."""
    return sum(first <= index for first in FIRSTS) - 1


def markov(statistics: Sequence[tuple[FloatArray, FloatArray]], restart_s: int | None = None) -> InForce:
    return InForce(
        [
            (first, MarkovFilter(start_profile=profile, transition=transition, restart_s=restart_s))
            for first, (profile, transition) in zip(FIRSTS, statistics, strict=True)
        ]
    )


def sporadic(statistics: Sequence[tuple[FloatArray, FloatArray]]) -> InForce:
    profiles = [profile for profile, _ in statistics]
    return InForce([(first, FixedProfile(profile=profile)) for first, profile in zip(FIRSTS, profiles, strict=True)])


def enumerated_prior(
    statistics: Sequence[tuple[FloatArray, FloatArray]], likelihoods: Sequence[FloatArray], starts: Sequence[int] = (1,)
) -> FloatArray:
    """Sum over all paths up to the query after these reports; each step uses the transitions in force at its end.

    At the queries of `starts` a day begins: the cell is a draw from the profile in force.
    """
    total = np.zeros(N)
    for path in itertools.product(range(N), repeat=len(likelihoods) + 1):
        p = statistics[0][0][path[0]]
        for index, (a, b) in enumerate(itertools.pairwise(path), start=2):
            profile, transition = statistics[in_force(index)]
            p *= profile[b] if index in starts else transition[a, b]
        for likelihood, cell in zip(likelihoods, path[:-1], strict=True):
            p *= likelihood[cell]
        total[path[-1]] += p
    return np.asarray(total / total.sum())


@pytest.mark.parametrize("seed", range(3))
def test_markov_belief_equals_enumeration(seed: int) -> None:
    statistics = models(seed)
    belief = markov(statistics)
    likelihoods = list(np.random.default_rng(seed + 9).random((5, N)))
    for r in range(5):
        np.testing.assert_allclose(belief.prior(r), enumerated_prior(statistics, likelihoods[:r]), atol=1e-12)
        prior = belief.prior(r)
        joint = prior * likelihoods[r]
        np.testing.assert_allclose(belief.observe(r, likelihoods[r]), joint / joint.sum(), atol=1e-12)
    assert belief.fallbacks == 0


def test_days_start_with_the_profile_in_force() -> None:
    statistics = models(4)
    belief = markov(statistics, restart_s=DAY_S)
    times_s = [0, DAY_S - 1, DAY_S - 1, DAY_S, 2 * DAY_S]  # day 2 starts with query 4, as does the third period
    likelihoods = list(np.random.default_rng(1).random((5, N)))
    for r, time_s in enumerate(times_s):
        starts = [index for index in (1, 4, 5) if index <= r + 1]
        expected = enumerated_prior(statistics, likelihoods[:r], starts)
        np.testing.assert_allclose(belief.prior(time_s), expected, atol=1e-12)
        belief.observe(time_s, likelihoods[r])


def test_sporadic_prior_is_the_profile_in_force() -> None:
    statistics = models()
    belief = sporadic(statistics)
    for index in range(1, 7):
        assert belief.prior(0).tolist() == statistics[in_force(index)][0].tolist()
        belief.observe(0, np.ones(N))


def test_prior_is_pure_and_copies_are_independent() -> None:
    belief = markov(models())
    belief.observe(0, np.ones(N))
    twin = pickle.loads(pickle.dumps(belief))
    for _ in range(3):
        belief.prior(1)
    belief.observe(1, np.ones(N))
    assert belief.prior(2).tolist() != twin.prior(2).tolist()
    twin.observe(1, np.ones(N))
    assert belief.prior(2).tolist() == twin.prior(2).tolist()


@pytest.mark.parametrize("kind", ["sporadic", "markov"])
def test_estimate_by_output_equals_the_estimate_for_each_output(kind: str) -> None:
    """Check every output at every query; some outputs are impossible under the belief in force."""
    statistics = models(2)
    rng = np.random.default_rng(3)
    matrix = rng.dirichlet(np.full(N, 0.2), size=N)
    matrix[matrix < 0.03] = 0
    channel = MatrixChannel(matrix / matrix.sum(axis=1, keepdims=True))
    make = markov if kind == "markov" else sporadic
    attack = OptimalAttack(belief_of=lambda _: make(statistics), distance=manhattan(GRID), all_outputs=True)
    plain = OptimalAttack(belief_of=lambda _: make(statistics), distance=manhattan(GRID))
    fallbacks = 0
    for index in range(1, 7):
        outputs = channel.likelihoods()[0].tolist()
        guess = None
        for output in outputs:
            report = Report("ann", index, index, output, channel)
            guess = copy.deepcopy(attack).observe(report).estimate_by_output
            plain_copy, attack_copy = copy.deepcopy(plain), copy.deepcopy(attack)
            assert guess is not None
            assert guess[output] == plain_copy.observe(report).estimate == attack_copy.observe(report).estimate
            assert plain_copy.fallbacks == attack_copy.fallbacks
            fallbacks += plain_copy.fallbacks - plain.fallbacks
        report = Report("ann", index, index, int(rng.choice(outputs)), channel)
        assert guess is not None
        attack.observe(report)
        plain.observe(report)
    assert fallbacks > 0, "some report must have no mass under the prior"


@pytest.mark.parametrize("firsts", [[2], [1, 1], [1, 5, 3], []])
def test_first_queries_must_start_at_1_and_increase(firsts: list[int]) -> None:
    belief = FixedProfile(profile=np.full(N, 1 / N))
    with pytest.raises(ValueError, match=r"^beliefs\b") as error:
        InForce([(first, belief) for first in firsts])
    assert str(firsts) in str(error.value)
