"""The Markov filter compared with enumeration of all paths in tiny worlds."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from sim.belief.markov_filter import MarkovFilter
from sim.interfaces import Belief, FloatArray

DAY_S = 86_400


def random_model(n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(n, 0.5), size=n)


def enumerated_posterior(start: FloatArray, transition: FloatArray, likelihoods: FloatArray) -> FloatArray:
    """Sum p(x^1) f(z^1|x^1) prod M(x^s|x^{s-1}) f(z^s|x^s) over all paths that end in each cell."""
    n = len(start)
    table = np.zeros(n)
    for path in itertools.product(range(n), repeat=len(likelihoods)):
        probability = start[path[0]]
        for step in itertools.pairwise(path):
            probability *= transition[step]
        for likelihood, cell in zip(likelihoods, path, strict=True):
            probability *= likelihood[cell]
        table[path[-1]] += probability
    return np.asarray(table / table.sum())


@pytest.mark.parametrize(("n", "queries"), [(4, 4), (6, 3), (9, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_posteriors_and_priors_equal_enumeration(n: int, queries: int, seed: int) -> None:
    start, transition = random_model(n, seed)
    likelihoods = np.random.default_rng(seed + 10).random((queries, n))
    belief = MarkovFilter(start_profile=start, transition=transition)
    as_protocol: Belief = belief
    for r in range(1, queries + 1):
        blind = np.vstack([likelihoods[: r - 1], np.ones(n)])
        assert as_protocol.prior(r) == pytest.approx(enumerated_posterior(start, transition, blind), abs=1e-12)
        posterior = as_protocol.observe(r, likelihoods[r - 1])
        assert posterior == pytest.approx(enumerated_posterior(start, transition, likelihoods[:r]), abs=1e-12)
    assert belief.fallbacks == 0


def test_filter_restarts_on_a_new_day_only() -> None:
    start, transition = random_model(4, 5)
    likelihoods = np.random.default_rng(6).random((3, 4))
    daily = MarkovFilter(start_profile=start, transition=transition, restart_s=DAY_S)
    for time_s in (DAY_S - 600, DAY_S - 1):
        daily.observe(time_s, likelihoods[0])
    assert daily.prior(DAY_S).tolist() == start.tolist()
    assert daily.prior(DAY_S - 1).tolist() != start.tolist()
    posterior = daily.observe(DAY_S, likelihoods[1])
    assert posterior == pytest.approx(start * likelihoods[1] / (start @ likelihoods[1]))
    assert daily.prior(DAY_S + 1) == pytest.approx(posterior @ transition)


def test_without_restarts_days_do_not_matter() -> None:
    start, transition = random_model(4, 5)
    belief = MarkovFilter(start_profile=start, transition=transition)
    posterior = belief.observe(0, np.array([0.1, 0.2, 0.3, 0.4]))
    assert belief.prior(10 * DAY_S) == pytest.approx(posterior @ transition)


def test_prediction_is_computed_once_per_query() -> None:
    start, transition = random_model(4, 7)
    belief = MarkovFilter(start_profile=start, transition=transition)
    belief.observe(0, np.ones(4))
    first = belief.prior(1)
    assert belief.prior(2) is first
    belief.observe(2, np.array([1.0, 0.5, 0.5, 0.5]))
    assert belief.prior(3) is not first


def test_an_impossible_report_restarts_at_the_start_profile_then_at_the_likelihood() -> None:
    start = np.array([0.5, 0.3, 0.2, 0.0])
    belief = MarkovFilter(start_profile=start, transition=np.eye(4))
    belief.observe(0, np.array([1.0, 0.0, 0.0, 0.0]))
    assert belief.observe(1, np.array([0.0, 0.2, 0.6, 0.9])) == pytest.approx([0, 1 / 3, 2 / 3, 0])
    assert belief.fallbacks == 1
    assert belief.observe(2, np.array([0.0, 0.0, 0.0, 0.5])) == pytest.approx([0, 0, 0, 1])
    assert belief.fallbacks == 2
    before = belief.prior(3).tolist()
    with pytest.raises(ValueError, match=r"got 0\.0"):
        belief.observe(3, np.zeros(4))
    assert belief.prior(3).tolist() == before
    assert belief.fallbacks == 2


def test_inputs_and_answers_are_not_aliased() -> None:
    start, transition = random_model(4, 8)
    held_start, held_transition = start.copy(), transition.copy()
    belief = MarkovFilter(start_profile=start, transition=transition)
    start[:], transition[:] = 0, 0
    likelihood = np.array([0.1, 0.2, 0.3, 0.4])
    posterior = belief.observe(0, likelihood)
    expected = (held_start * likelihood / (held_start @ likelihood)) @ held_transition
    posterior[:], likelihood[:] = 0, 0
    assert belief.prior(1) == pytest.approx(expected)


def test_pickled_copy_continues_like_the_original() -> None:
    start, transition = random_model(4, 9)
    belief = MarkovFilter(start_profile=start, transition=transition, restart_s=DAY_S)
    belief.observe(0, np.array([0.1, 0.2, 0.3, 0.4]))
    copy = pickle.loads(pickle.dumps(belief))
    assert copy.prior(1).tolist() == belief.prior(1).tolist()
    assert copy.observe(1, np.array([0.4, 0.1, 0.1, 0.2])).tolist() == (
        belief.observe(1, np.array([0.4, 0.1, 0.1, 0.2])).tolist()
    )


def test_invalid_parameters_are_rejected_with_their_value() -> None:
    with pytest.raises(ValueError, match=r"^transition .*\b2\b.*, got 3$"):
        MarkovFilter(start_profile=[0.5, 0.5], transition=np.eye(3))
    with pytest.raises(ValueError, match=r"^restart_s .*got 0"):
        MarkovFilter(start_profile=[0.5, 0.5], transition=np.eye(2), restart_s=0)
    with pytest.raises(ValueError, match=r"^transition .*\b1\b"):
        MarkovFilter(start_profile=[0.5, 0.5], transition=2 * np.eye(2))
