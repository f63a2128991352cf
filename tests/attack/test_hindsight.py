"""Smoothing and most likely paths compared with sums and maxima over all sequences of cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sim.attack.hindsight import Hindsight, PathAttack, SmoothingAttack
from sim.belief.in_force import InForce
from sim.belief.markov_filter import MarkovFilter
from sim.events import Guess, Report
from sim.inference.bayes import condition
from sim.inference.smoothing import likeliest, logarithm, look_back, smooth, trace_back
from sim.inference.transitions import DenseTransitions
from sim.interfaces import IntArray
from sim.lppm.channels.matrix import MatrixChannel
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

Array = NDArray[np.float64]

N = 3
GRID = Grid.rectangle(rows=1, cols=N, width_km=3.0, height_km=1.0)
DISTANCE = manhattan(GRID)


def some_distributions(seed: int, rows: int, zeros: float = 0.3) -> Array:
    """Draw distributions over cells with some zeros."""
    rng = np.random.default_rng(seed)
    weights = rng.random((rows, N)) * (rng.random((rows, N)) > zeros)
    weights[weights.sum(axis=1) == 0] = 1.0
    return np.array(weights / weights.sum(axis=1, keepdims=True))


def weights_of_paths(start: Array, links: Sequence[Array], rows: Sequence[Array]) -> dict[tuple[int, ...], float]:
    """Return p(x^1 .. x^r, z^1 .. z^r) of each path; `links[s]` leads to query s, `links[0]` is ignored."""
    weights = {}
    for path in itertools.product(range(N), repeat=len(rows)):
        p = start[path[0]]
        for s in range(1, len(path)):
            p *= links[s][path[s - 1], path[s]]
        for row, x in zip(rows, path, strict=True):
            p *= row[x]
        weights[path] = float(p)
    return weights


def chains(start: Array, links: Sequence[Array | None], rows: Sequence[Array]) -> list[dict[tuple[int, ...], float]]:
    """Return the weights of all paths of each chain; a chain starts at a missing link or an impossible report."""
    weights: list[dict[tuple[int, ...], float]] = []
    begin, opening = 0, start
    for s, link in enumerate(links):
        if link is not None:
            linked = [np.empty(0), *(m for m in links[begin + 1 : s + 1] if m is not None)]
            longer = weights_of_paths(opening, linked, rows[begin : s + 1])
            if any(longer.values()):
                weights[-1] = longer
                continue
        begin, opening = s, start if (start * rows[s]).any() else np.ones(N)
        weights.append(weights_of_paths(opening, [np.empty(0)], rows[s : s + 1]))
    return weights


def marginals(chain: dict[tuple[int, ...], float]) -> Array:
    total = np.zeros((len(next(iter(chain))), N))
    for path, p in chain.items():
        for s, x in enumerate(path):
            total[s, x] += p
    return np.array(total / total.sum(axis=1, keepdims=True))


def best_path(chain: dict[tuple[int, ...], float]) -> tuple[int, ...]:
    """Return the most likely path; ties go to the lowest last cell, then the lowest cell before it, and so on."""
    most = max(chain.values())
    return min((path for path, p in chain.items() if p > most * (1 - 1e-9)), key=lambda path: path[::-1])


def best_cell(weights: Array) -> int:
    costs = [sum(weights[x] * abs(x - y) for x in range(N)) for y in range(N)]
    return next(y for y in range(N) if costs[y] <= min(costs) + 1e-12)


seeds = st.integers(0, 10_000)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, reports=st.integers(1, 5))
def test_smoothing_equals_the_sum_over_all_paths(seed: int, reports: int) -> None:
    start, *rows = some_distributions(seed, reports + 1)
    links = [some_distributions(seed + 100 * s, N) for s in range(reports)]
    weights = weights_of_paths(start, links, rows)
    if not any(weights.values()):
        return
    prior, filtered = start, []
    for s, row in enumerate(rows):
        filtered.append(condition(prior, row)[0])
        prior = filtered[-1] @ links[min(s + 1, reports - 1)]
    chain = [DenseTransitions(link) for link in links]
    smoothed = smooth(np.array(filtered), chain)
    assert smoothed == pytest.approx(marginals(weights), abs=1e-12)
    if reports > 2:
        # Smoothing two reports back needs only the last three posteriors.
        assert smooth(np.array(filtered[-3:]), chain[-3:]) == pytest.approx(smoothed[-3:], abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, reports=st.integers(1, 5))
def test_most_likely_path_equals_the_maximum_over_all_paths(seed: int, reports: int) -> None:
    start, *rows = some_distributions(seed, reports + 1)
    links = [some_distributions(seed + 100 * s, N) for s in range(reports)]
    weights = weights_of_paths(start, links, rows)
    if not any(weights.values()):
        return
    came_from: list[IntArray | None] = [None]
    scores = logarithm(start) + logarithm(rows[0])
    for row, link in zip(rows[1:], links[1:], strict=True):
        extended, before = DenseTransitions(link).extend(scores)
        scores = extended + logarithm(row)
        came_from.append(before)
    path = tuple(trace_back(came_from, int(likeliest(scores))))
    assert path == best_path(weights)


def test_ties_go_to_the_lowest_cell() -> None:
    scores, before = DenseTransitions(np.full((N, N), 1 / N)).extend(np.log(np.full(N, 0.1)))
    assert before.tolist() == [0, 0, 0]
    assert likeliest(scores) == 0
    assert likeliest(np.log([0.1 + 0.2, 0.3, 0.3])) == 0  # rounding makes no difference
    assert likeliest(np.log([0.3, 0.1 + 0.2, 0.3])) == 0


def test_long_chains_neither_underflow_nor_overflow() -> None:
    """The world has two parts without transitions between them; all reports favour the part without prior mass."""
    reports = 3000
    link = np.array([[0.9, 0.1, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    row = np.array([1e-6, 2e-6, 1.0])
    prior, filtered = np.array([0.5, 0.5, 0.0]), []
    for _ in range(reports):
        filtered.append(condition(prior, row)[0])
        prior = filtered[-1] @ link
    with np.errstate(all="raise", under="ignore"):
        smoothed = smooth(np.array(filtered), [None, *[DenseTransitions(link)] * (reports - 1)])
    assert np.isfinite(smoothed).all()
    assert smoothed.sum(axis=1) == pytest.approx(1.0)
    assert (smoothed[:, 2] == 0).all()
    # Far from both ends the smoothed distribution is stationary and differs from the filtered one.
    assert smoothed[1000] == pytest.approx(smoothed[2000], abs=1e-12)
    assert abs(smoothed[1000] - filtered[1000]).max() > 0.01


def test_smoothing_without_mass_returns_the_filtered_distribution() -> None:
    filtered = np.array([1.0, 0.0])
    assert look_back(filtered, np.array([0.0, 1.0]), DenseTransitions(np.eye(2))).tolist() == [1.0, 0.0]


# Attacks ----------------------------------------------------------------------------------------------------------

TIMES = [0, 5, 12, 13, 14]


def guesses_of(
    attack: SmoothingAttack | PathAttack, channels: Sequence[MatrixChannel], outputs: Sequence[int]
) -> list[Guess]:
    reports = zip(TIMES, outputs, channels, strict=True)
    guesses = [attack.observe(Report("ann", i, t, z, f)) for i, (t, z, f) in enumerate(reports, start=1)]
    return [*guesses, *attack.conclude()]


def sparse_model(seed: int) -> tuple[Array, list[Array], list[MatrixChannel], list[int]]:
    """Return a model with many zeros, under which most sequences contain an impossible report."""
    rng = np.random.default_rng(seed)
    start = some_distributions(seed, 1, 0.5)[0]
    moves = [some_distributions(seed + k, N, 0.6) for k in (1, 2)]
    channels = [MatrixChannel(some_distributions(seed + 10 + s, N, 0.5)) for s in range(len(TIMES))]
    outputs = [int(rng.choice(f.likelihoods()[0])) for f in channels]
    return start, moves, channels, outputs


@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_attacks_revise_estimates_within_the_chains_of_the_filter(seed: int, changing: bool) -> None:
    """A new day or an impossible report starts a new chain; transitions may change at the fourth query."""
    start, moves, channels, outputs = sparse_model(seed)
    first, second = (MarkovFilter(start_profile=start, transition=move, restart_s=10) for move in moves)
    rows = [f.likelihood(z) for f, z in zip(channels, outputs, strict=True)]
    in_force = [moves[0]] * 3 + [moves[changing]] * 2
    links = [m if s and TIMES[s] // 10 == TIMES[s - 1] // 10 else None for s, m in enumerate(in_force)]

    def belief() -> Any:
        return InForce([(1, first), (4, second)]) if changing else first

    distance: dict[str, Any] = {"distance": DISTANCE}
    for make, oracle in ((SmoothingAttack, marginals), (PathAttack, best_path)):
        first, second = (MarkovFilter(start_profile=start, transition=move, restart_s=10) for move in moves)
        attack: Any = make(
            Hindsight(lags=[1, 3]),
            belief_of=partial(lambda one, _: one, belief()),
            all_outputs=True,
            **(distance if make is SmoothingAttack else {}),
        )
        *guesses, last = guesses_of(attack, channels, outputs)
        for r, guess in enumerate(guesses, start=1):
            queries: list[Any] = [query for chain in chains(start, links[:r], rows[:r]) for query in oracle(chain)]
            cells = [best_cell(query) if make is SmoothingAttack else query for query in queries]
            assert guess.estimate == cells[-1]
            assert guess.estimate_by_output is not None
            assert guess.estimate_by_output[outputs[r - 1]] == guess.estimate
            assert list(guess.revised) == [(r - lag, cells[r - lag - 1]) for lag in (1, 3) if lag < r]
        # Estimates revised at the last report are not repeated.
        assert list(last.revised) == [(s, cells[s - 1]) for s in (3, 1)]
        assert attack.fallbacks == len(chains(start, links, rows)) - 2 + count_lone(start, links, rows)


def count_lone(start: Array, links: Sequence[Array | None], rows: Sequence[Array]) -> int:
    """Return the number of reports without a link that are impossible under the start profile too."""
    return sum(not (start * row).any() for link, row in zip(links, rows, strict=True) if link is None)


def test_sparse_models_contain_impossible_reports() -> None:
    """Check that the test above exercises chains broken by impossible reports."""
    broken = 0
    for seed in range(25):
        start, moves, channels, outputs = sparse_model(seed)
        rows = [f.likelihood(z) for f, z in zip(channels, outputs, strict=True)]
        links = [None, moves[0], None, moves[0], moves[0]]
        broken += len(chains(start, links, rows)) > 2
    assert 5 < broken < 25


@pytest.mark.parametrize("make", [SmoothingAttack, PathAttack])
def test_without_lags_and_final_estimates_nothing_is_revised(make: Any) -> None:
    start, (move, _), channels, outputs = sparse_model(3)
    arguments: dict[str, Any] = {"distance": DISTANCE} if make is SmoothingAttack else {}

    def attack(with_posterior: bool = False, **hindsight: Any) -> Any:
        parameters = Hindsight(**hindsight)
        belief_of = partial(lambda _: MarkovFilter(start_profile=start, transition=move))
        return make(parameters, belief_of=belief_of, with_posterior=with_posterior, **arguments)

    guesses = guesses_of(attack(lags=[], final=False), channels, outputs)
    assert len(guesses) == len(TIMES)
    assert all(not guess.revised and guess.posterior is None for guess in guesses)
    *_, last = guesses_of(attack(lags=[]), channels, outputs)
    assert sorted(index for index, _ in last.revised) == [1, 2, 3, 4]
    guesses = guesses_of(attack(with_posterior=True, final=False), channels, outputs)
    assert all(guess.posterior is not None and guess.posterior.sum() == pytest.approx(1) for guess in guesses)
    with pytest.raises(ValueError, match=r"(?s)lags.*input_value=0"):
        attack(lags=[0])
