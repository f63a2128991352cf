"""The posterior of a user's cell by enumeration of all paths and all secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from sim.interfaces import FloatArray
from sim.lppm.hidden.secret import SecretState

Times = Sequence[int]
PathWeight = Callable[[Sequence[int]], float]
"""The probability of a sequence of cells."""


def sporadic(profile: FloatArray) -> PathWeight:
    return lambda path: float(np.prod(profile[list(path)]))


def chain(start: FloatArray, transition: FloatArray, new_period: Sequence[bool] | None = None) -> PathWeight:
    """A Markov chain that restarts where a new period begins."""

    def weight(path: Sequence[int]) -> float:
        total = float(start[path[0]])
        for place in range(1, len(path)):
            restarts = new_period is not None and new_period[place]
            total *= start[path[place]] if restarts else transition[path[place - 1], path[place]]
        return total

    return weight


def posterior_of_secrets(
    state: SecretState, times_s: Times, outputs: Sequence[int], path_weight: PathWeight
) -> FloatArray:
    """Return p(x^r, z^1..z^r) for each last cell, by a sum over all sequences of cells and of secrets."""
    kernels, clock = [], None
    for time_s in times_s:
        correlation, clock = state.clock.advance(clock, time_s)
        kernels.append(state.law.move(np.eye(state.n_states), correlation))
    joint = np.zeros(state.n_cells)
    secrets = [
        (s, _probability(state.law.weights, kernels, s)) for s in product(range(state.n_states), repeat=len(times_s))
    ]
    secrets = [(s, weight) for s, weight in secrets if weight > 0]
    for path in product(range(state.n_cells), repeat=len(times_s)):
        weight = path_weight(path)
        for states, probability in secrets:
            if all(state.emission[x, s] == z for x, s, z in zip(path, states, outputs, strict=True)):
                joint[path[-1]] += weight * probability
    return joint


def _probability(weights: FloatArray, kernels: Sequence[FloatArray], states: Sequence[int]) -> float:
    probability = float(weights[states[0]])
    for place in range(1, len(states)):
        probability *= kernels[place][states[place - 1], states[place]]
    return probability


def posterior_of_tables(matrices: Sequence[FloatArray], outputs: Sequence[int], path_weight: PathWeight) -> FloatArray:
    """Return p(x^r, z^1..z^r) for each last cell, if answers are repeated.

    `matrices` has the channel in force at each query, from which a cell's answer is drawn at its first visit.
    """
    n_cells = len(matrices[0])
    joint = np.zeros(n_cells)
    for path in product(range(n_cells), repeat=len(outputs)):
        answers: dict[int, int] = {}
        weight = path_weight(path)
        for matrix, cell, output in zip(matrices, path, outputs, strict=True):
            if cell not in answers:
                weight *= matrix[cell, output]
                answers[cell] = output
            weight *= answers[cell] == output
        joint[path[-1]] += weight
    return joint


def sequences(n_outputs: int, length: int) -> Iterator[tuple[int, ...]]:
    """Yield all sequences of outputs."""
    yield from product(range(n_outputs), repeat=length)


def posteriors_by_tables(
    matrix: FloatArray, outputs: Sequence[int], start: FloatArray, transition: FloatArray
) -> Iterator[FloatArray]:
    """Yield p(x^r | z^1..z^r) after each report, if answers are repeated, by a sum over all tables of answers.

    Given a table the cells are a hidden Markov chain, whose forward algorithm allows more queries than all paths do.
    """
    n_cells, n_outputs = matrix.shape
    tables = np.array(list(product(range(n_outputs), repeat=n_cells)))
    forward = matrix[np.arange(n_cells), tables].prod(axis=1, keepdims=True) * start
    for place, output in enumerate(outputs):
        forward = (forward @ transition if place else forward) * (tables == output)
        forward /= forward.sum()
        yield forward.sum(axis=0)
