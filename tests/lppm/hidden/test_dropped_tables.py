"""Attacks that drop tables of answers: compared with all tables, calibrated, and no worse than without memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.events import Report
from sim.interfaces import Belief, FloatArray
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.hidden.memo import Memo, MemoTracker
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.lppm.hidden.enumeration import posteriors_by_tables

UNLIMITED = 10**6
LINE = Grid.rectangle(rows=1, cols=5, width_km=5.0, height_km=1.0)
SQUARE = Grid.rectangle(rows=5, cols=5, width_km=5.0, height_km=5.0)


class Walk(NamedTuple):
    """A user with memoised answers, and the model that they follow."""

    start: FloatArray
    moves: FloatArray
    inner: MatrixChannel
    cells: list[int]
    outputs: list[int]


def walk(grid: Grid, seed: int, *, queries: int, favourites: int, chained: bool) -> Walk:
    """Return a user who moves among some cells."""
    rng, n = np.random.default_rng(seed), grid.n_cells
    chosen = rng.choice(n, favourites, replace=False)
    start, moves = np.zeros(n), np.zeros((n, n))
    start[chosen] = rng.dirichlet(np.ones(favourites))
    moves[:, chosen] = rng.dirichlet(np.ones(favourites), size=n) if chained else start[chosen]
    epsilon = 0.5
    inner = exponential(manhattan(grid), epsilon)
    matrix = inner.matrix()
    answers: dict[int, int] = {}
    cells: list[int] = []
    for _ in range(queries):
        cells.append(int(rng.choice(n, p=moves[cells[-1]] if cells else start)))
        answers.setdefault(cells[-1], int(rng.choice(n, p=matrix[cells[-1]])))
    return Walk(start, moves, MatrixChannel(matrix), cells, [answers[cell] for cell in cells])


def attacked(grid: Grid, walk: Walk, *, chained: bool, most_tables: int | None) -> tuple[FloatArray, float]:
    """Return the posteriors, shape (n_queries, n_cells), and the mean error; without tables, memory is ignored."""
    belief: Belief = FixedProfile(profile=walk.start)
    if chained:
        belief = MarkovFilter(start_profile=walk.start, transition=walk.moves)
    distance, channel = manhattan(grid), Memo(most_tables or 1).wrap(walk.inner)
    attack = OptimalAttack(
        belief_of=lambda _: belief, distance=distance, with_posterior=True, ignores_memory=most_tables is None
    )
    guesses = [attack.observe(Report("ann", r, 60 * r, z, channel)) for r, z in enumerate(walk.outputs, 1)]
    assert attack.fallbacks == 0
    errors = [distance.matrix_km[x, guess.estimate] for x, guess in zip(walk.cells, guesses, strict=True)]
    return np.array([guess.posterior for guess in guesses]), float(np.mean(errors))


@pytest.mark.parametrize("chained", [False, True], ids=["sporadic", "markov"])
def test_fewer_tables_are_between_all_tables_and_none(chained: bool) -> None:
    limits = (UNLIMITED, 64, 16, None)
    distances: dict[int | None, list[float]] = {limit: [] for limit in limits}
    for seed in range(8):
        user = walk(LINE, seed, queries=12, favourites=5, chained=chained)
        exact = np.array(list(posteriors_by_tables(user.inner.matrix(), user.outputs, user.start, user.moves)))
        for limit in limits:
            posteriors, _ = attacked(LINE, user, chained=chained, most_tables=limit)
            distances[limit].append(float(np.abs(posteriors - exact).sum(axis=1).mean() / 2))
    all_tables, many, few, none = (float(np.mean(distances[limit])) for limit in limits)
    assert all_tables < 1e-12
    assert 1e-6 < many < few < 0.8 * none


def scores(*, chained: bool, limits: tuple[int | None, ...], users: int, queries: int) -> dict[int | None, FloatArray]:
    """Return the log-probability of the true cell, confidence minus hit rate and error in km, means over users."""
    rows: dict[int | None, list[tuple[float, float, float]]] = {limit: [] for limit in limits}
    for seed in range(users):
        user = walk(SQUARE, seed, queries=queries, favourites=8, chained=chained)
        for limit in limits:
            posteriors, error_km = attacked(SQUARE, user, chained=chained, most_tables=limit)
            truth = posteriors[np.arange(queries), user.cells]
            excess = posteriors.max(axis=1) - (posteriors.argmax(axis=1) == user.cells)
            rows[limit].append((float(np.log(np.maximum(truth, 1e-9)).mean()), float(excess.mean()), error_km))
    return {limit: np.mean(values, axis=0) for limit, values in rows.items()}


@pytest.mark.parametrize("chained", [False, True], ids=["sporadic", "markov"])
def test_dropping_tables_is_calibrated_and_no_worse_than_ignoring_memory(chained: bool) -> None:
    result = scores(chained=chained, limits=(16, 64, None), users=12, queries=60)
    ignoring = result[None]
    for limit in (16, 64):
        log_score, overconfidence, error_km = result[limit]
        assert log_score > ignoring[0]
        assert overconfidence < 0.05
        assert error_km < ignoring[2] + 0.01


def test_dropped_probability_is_zero_until_a_table_is_dropped() -> None:
    """The first report makes five tables, which are kept, the second one more than six."""
    channel, prior = Memo().wrap(exponential(manhattan(LINE), 0.5)), np.full(5, 0.2)
    tracker = MemoTracker(6)
    shares: list[float] = []
    for index, output in enumerate([2, 0, 2, 2], 1):
        likelihood = tracker.likelihood(Report("ann", index, index, output, channel), prior, None)
        tracker.condition(prior * likelihood / (prior @ likelihood))
        shares.append(index * tracker.dropped - sum(shares))
    assert shares[0] == 0 < shares[1] < 1
    only = MemoTracker(1)
    for index, output in enumerate([2, 0, 2], 1):
        likelihood = only.likelihood(Report("ann", index, index, output, channel), prior, None)
        only.condition(prior * likelihood / (prior @ likelihood))
    assert 0.7 < only.dropped < 1


def test_forgotten_answers_count_as_dropped() -> None:
    """The best table has a fifth of the probability after the first report, and a twentieth after the second one."""
    channel, prior = Memo().wrap(MatrixChannel(np.full((5, 5), 0.2))), np.full(5, 0.2)
    tracker = MemoTracker(1)
    dropped = []
    for index, output in enumerate([0, 1, 2, 3], 1):
        likelihood = tracker.likelihood(Report("ann", index, index, output, channel), prior, None)
        tracker.condition(prior * likelihood / (prior @ likelihood))
        dropped.append(index * tracker.dropped)
    assert np.diff([0.0, *dropped]) == pytest.approx([0.8, 0.95, 1.0, 1.0])


def test_repetition_of_a_dropped_answer_that_is_now_impossible_has_no_information() -> None:
    prior = np.full(5, 0.2)
    before, after = (Memo().wrap(MatrixChannel(np.eye(5)[columns])) for columns in ([0, 0, 1, 1, 1], [2, 2, 2, 2, 2]))
    tracker = MemoTracker(1)
    for index, (output, channel) in enumerate([(0, before), (1, before), (2, after)], 1):
        likelihood = tracker.likelihood(Report("ann", index, index, output, channel), prior, None)
        tracker.condition(prior * likelihood / (prior @ likelihood))
    likelihood = tracker.likelihood(Report("ann", 4, 4, 4, after), prior, None)
    assert likelihood.tolist() == [1.0] * 5
