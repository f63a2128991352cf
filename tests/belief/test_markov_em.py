"""Markov EM compared with enumeration of all paths in tiny worlds and with brute-force maximisation."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.markov_em import EstimatedMarkov, EstimatedMarkovParameters
from sim.belief.markov_filter import MarkovFilter
from sim.inference.baum_welch import baum_welch, expected_counts, forward
from sim.inference.posterior_mode import posterior_mode
from sim.interfaces import Belief, BoolArray, FloatArray
from sim.lppm.channels.exponential import exponential
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import made

DAY_S = 86_400


def random_model(n: int, reports: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    rng = np.random.default_rng(seed)
    begins = rng.random(reports) < 0.3
    begins[0] = True
    return rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(n, 0.5), size=n), rng.random((reports, n)), begins


def enumerated(
    start: FloatArray, transition: FloatArray, likelihoods: FloatArray, begins: BoolArray
) -> tuple[FloatArray, float]:
    """Return the expected transition counts [from, to] and the likelihood by summing over all paths."""
    n = len(start)
    pairs, total = np.zeros((n, n)), 0.0
    for path in itertools.product(range(n), repeat=len(likelihoods)):
        probability = 1.0
        steps = []
        for r, cell in enumerate(path):
            probability *= likelihoods[r, cell] * (start[cell] if begins[r] else transition[path[r - 1], cell])
            steps += [] if begins[r] else [(path[r - 1], cell)]
        total += probability
        for step in steps:
            pairs[step] += probability
    return pairs / total, total


@pytest.mark.parametrize(("n", "reports"), [(2, 7), (3, 5)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_expected_counts_and_likelihood_equal_enumeration(n: int, reports: int, seed: int) -> None:
    model = random_model(n, reports, seed)
    pairs, total = enumerated(*model)
    counts = expected_counts(*model)
    assert counts.pairs == pytest.approx(pairs, abs=1e-12)
    assert counts.log_likelihood == pytest.approx(np.log(total))
    assert np.exp(np.log(forward(*model)[1]).sum()) == pytest.approx(total)


def objective(transition: FloatArray, pseudo: FloatArray, model: Any) -> float:
    start, _, likelihoods, begins = model
    logs = pseudo * np.log(transition)
    return expected_counts(start, transition, likelihoods, begins).log_likelihood + float(logs.sum())


@pytest.mark.parametrize("seed", range(4))
def test_no_iteration_lowers_the_posterior(seed: int) -> None:
    model = random_model(6, 40, seed)
    pseudo = np.random.default_rng(seed).random((6, 6)) + 0.01
    transition, values = model[1] * 0.9 + 0.1 / 6, []
    for _ in range(25):
        values.append(objective(transition, pseudo, model))
        transition = baum_welch(model[0], transition, *model[2:], pseudo_counts=pseudo, iterations=1)
    assert transition.sum(axis=1) == pytest.approx(np.ones(6))
    assert np.diff(values).min() > -1e-10
    assert values[-1] > values[0] + 0.1


@pytest.mark.parametrize("seed", [0, 1])
def test_em_converges_to_the_brute_force_maximum(seed: int) -> None:
    """Two cells: grid search, then local optimisation, of a likelihood summed over all paths."""
    start, _, likelihoods, begins = random_model(2, 6, seed)
    pseudo = np.array([[0.3, 0.2], [0.1, 0.4]])

    def brute(free: FloatArray) -> float:
        stay, leave = free
        transition = np.array([[stay, 1 - stay], [leave, 1 - leave]])
        total = enumerated(start, transition, likelihoods, begins)[1]
        return -float(np.log(total) + (pseudo * np.log(transition)).sum())

    grid = itertools.product(np.linspace(0.1, 0.9, 5), repeat=2)
    best = min((np.array(free) for free in grid), key=brute)
    polished = minimize(brute, best, bounds=[(1e-6, 1 - 1e-6)] * 2, method="L-BFGS-B", options={"ftol": 1e-14})
    ends = [
        baum_welch(start, begin, likelihoods, begins, pseudo_counts=pseudo, iterations=600)
        for begin in (np.full((2, 2), 0.5), np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.1, 0.9], [0.9, 0.1]]))
    ]
    reached = [brute(end[:, 0]) for end in ends]
    assert min(reached) == pytest.approx(polished.fun, abs=1e-7)
    assert ends[int(np.argmin(reached))][:, 0] == pytest.approx(polished.x, abs=1e-3)


GRID = Grid.rectangle(rows=3, cols=4, width_km=4.0, height_km=3.0)
UNIFORM = np.full(12, 1 / 12)


def test_belief_equals_a_filter_with_the_fitted_model() -> None:
    """Recompute from all rows: the mode of the profile, EM from the centre, and the filter through all reports."""
    rng = np.random.default_rng(1)
    initial, given = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(12), size=12)
    belief = EstimatedMarkov(
        EstimatedMarkovParameters(prior_reports=2.0, prior_steps=4.0, refit_growth=1.001),
        initial_profile=initial,
        transition=given,
        restart_s=10,
    )
    rows = rng.random((9, 12)) ** 3
    for time_s, row in enumerate(rows):
        belief.observe(3 * time_s, row)
    begins = np.append(True, np.diff(3 * np.arange(9) // 10) != 0)
    even = 0.999 * initial + 0.001 / 12
    profile = posterior_mode(rows, pseudo_counts=2.0 * even).profile
    centre = 9 / 11 * profile + 2 / 11 * (0.999 * given + 0.001 / 12)
    transition = baum_welch(profile, centre, rows, begins, pseudo_counts=4 * centre, iterations=5)
    assert belief.start_profile == pytest.approx(profile, abs=1e-5)
    assert belief.transition == pytest.approx(transition, abs=1e-4)
    after = MarkovFilter(start_profile=belief.start_profile, transition=belief.transition, restart_s=10)
    for time_s, row in enumerate(rows):
        after.observe(3 * time_s, row)
    assert belief.prior(27) == pytest.approx(after.prior(27))
    assert belief.prior(31) == pytest.approx(belief.start_profile)


def test_model_is_refitted_as_reports_grow_and_filters_in_between() -> None:
    belief = EstimatedMarkov(EstimatedMarkovParameters(refit_growth=1.5), initial_profile=UNIFORM)
    rng = np.random.default_rng(2)
    learned = []
    for time_s in range(20):
        before, prior, row = belief.transition, belief.prior(time_s), rng.random(12)
        posterior = belief.observe(time_s, row)
        assert posterior == pytest.approx(prior * row / (prior @ row))
        if belief.transition is before:
            assert belief.prior(time_s + 1) == pytest.approx(posterior @ before)
        else:
            learned.append(time_s + 1)
    assert learned == [1, 2, 3, 5, 8, 12, 18]


def test_fit_uses_only_the_window() -> None:
    rows = np.random.default_rng(3).random((30, 12))
    old, young = (
        EstimatedMarkov(EstimatedMarkovParameters(window=8, refit_growth=1.001), initial_profile=UNIFORM)
        for _ in range(2)
    )
    for time_s, row in enumerate(rows):
        old.observe(time_s, row)
    for time_s, row in enumerate(rows[-8:]):
        young.observe(time_s, row)
    assert old.transition == pytest.approx(young.transition, abs=1e-4)
    assert old.prior(99) == pytest.approx(young.prior(99), abs=1e-4)


def test_no_cell_and_no_transition_becomes_impossible() -> None:
    """After 300 reports from one cell comes a report that is possible only in a cell never visited."""
    belief = EstimatedMarkov(
        EstimatedMarkovParameters(refit_growth=2.0, window=50), initial_profile=np.eye(12)[0], transition=np.eye(12)
    )
    for time_s in range(300):
        belief.observe(time_s, np.eye(12)[0])
    assert belief.prior(300)[0] > 0.99
    assert belief.prior(300).min() > 0
    assert belief.observe(300, np.eye(12)[7]).tolist() == np.eye(12)[7].tolist()
    assert belief.fallbacks == 0


def test_scale_of_likelihoods_is_irrelevant_and_they_are_not_aliased() -> None:
    rng = np.random.default_rng(4)
    plain, tiny = (EstimatedMarkov(EstimatedMarkovParameters(), initial_profile=UNIFORM) for _ in range(2))
    for time_s in range(12):
        row = rng.random(12)
        small = row * 1e-250
        assert tiny.observe(time_s, small) == pytest.approx(plain.observe(time_s, row))
        small[:] = 1.0


def test_markov_em_predicts_a_cycle_better_than_a_profile() -> None:
    """The user visits four places in a cycle: transitions predict the next place, a profile does not."""
    channel = exponential(manhattan(GRID), 1.2)
    rng = np.random.default_rng(5)
    places = [0, 3, 11, 8]
    mass_at_truth = {"profile": 0.0, "markov": 0.0}
    learners: dict[str, Belief] = {
        "profile": EstimatedProfile(EstimatedProfileParameters(), initial_profile=UNIFORM),
        "markov": EstimatedMarkov(EstimatedMarkovParameters(iterations=20, prior_steps=0.3), initial_profile=UNIFORM),
    }
    for r in range(200):
        cell = places[r % 4]
        row = channel.likelihood(channel.sample(cell, rng))
        for name, learner in learners.items():
            posterior = learner.observe(r, row)
            mass_at_truth[name] += posterior[cell] if r >= 100 else 0.0
    assert mass_at_truth["markov"] > 85
    assert mass_at_truth["profile"] < 60


def test_pickled_copy_continues_like_the_original() -> None:
    rng = np.random.default_rng(6)
    belief = EstimatedMarkov(EstimatedMarkovParameters(), initial_profile=UNIFORM, restart_s=DAY_S)
    for time_s in range(7):
        belief.observe(time_s, rng.random(12))
    copy = pickle.loads(pickle.dumps(belief))
    row = rng.random(12)
    assert copy.observe(8, row).tolist() == belief.observe(8, row).tolist()
    assert copy.prior(9).tolist() == belief.prior(9).tolist()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"prior_reports": 0.0}, r"(?s)prior_reports.*input_value=0.0"),
        ({"prior_steps": -1.0}, r"(?s)prior_steps.*input_value=-1.0"),
        ({"refit_growth": 1.0}, r"(?s)refit_growth.*input_value=1.0"),
        ({"iterations": 0}, r"(?s)iterations.*input_value=0"),
        ({"window": 1}, r"(?s)window.*input_value=1"),
        ({"transition": np.eye(3)}, r"transition must have shape \(12, 12\), got \(3, 3\)"),
    ],
)
def test_invalid_parameters_are_rejected_with_their_value(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        made(EstimatedMarkov, initial_profile=UNIFORM, **arguments)
