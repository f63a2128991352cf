"""Smoothing (cells given all reports) and the most likely path (Viterbi), as pure functions.

A chain of reports is given by its links: `links[s]` are the transitions that lead to report s, or None where the chain
restarts: at the first report, on a new day, and at a report that was impossible under the filter. Transitions may
change from report to report. Values are rescaled at every step, so chains of any length neither underflow nor overflow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.inference.ties import LOG_TIE
from sim.inference.transitions import Transitions
from sim.interfaces import FloatArray, IntArray

Link = Transitions | None

_LEAST = 1e-300


def look_back(filtered: FloatArray, later: FloatArray, link: Transitions) -> FloatArray:
    """Return p(x^{s-1} | all reports), given p(x^{s-1} | z^{s-1}) and p(x^s | all reports).

    One step of the backward pass of forward-backward, in the form that needs no likelihoods (Kitagawa 1987):
    p(x | all) = p(x | z^{s-1}) sum_y M(y | x) p(y | all) / p(y | z^{s-1}).

    >>> from sim.inference.transitions import DenseTransitions
    >>> look_back(np.array([0.5, 0.5]), np.array([0.0, 1.0]), DenseTransitions([[1.0, 0.0], [0.5, 0.5]]))
    array([0., 1.])
    """
    ratio = later / np.maximum(link.forward(filtered), _LEAST)
    smoothed: FloatArray = filtered * link.backward(ratio)
    total = float(smoothed.sum())
    # Rounding left no mass: ignore the later reports.
    return smoothed / total if total > 0 else filtered


def smooth(filtered: FloatArray, links: Sequence[Link]) -> FloatArray:
    """Return p(x^s | all reports) for each s, given the filter's p(x^s | z^s), both of shape (reports, n_cells)."""
    smoothed = np.array(filtered)
    for s in range(len(smoothed) - 1, 0, -1):
        link = links[s]
        if link is not None:
            smoothed[s - 1] = look_back(filtered[s - 1], smoothed[s], link)
    return smoothed


def logarithm(weights: FloatArray) -> FloatArray:
    """Return natural logarithms, with -inf for zeros.

    >>> logarithm(np.array([1.0, 0.0]))
    array([  0., -inf])
    """
    with np.errstate(divide="ignore"):
        return np.log(weights)


def likeliest(scores: FloatArray) -> IntArray:
    """Return the lowest cell with the highest log score along the last axis; scores within 1e-9 are ties.

    >>> likeliest(np.log([[0.2, 0.4, 0.4], [0.5, 0.4, 0.1]]))
    array([1, 0])
    """
    return np.asarray((scores >= scores.max(axis=-1, keepdims=True) - LOG_TIE).argmax(axis=-1))


def rescaled(scores: FloatArray) -> FloatArray:
    """Return the scores, shifted so that the highest is 0."""
    return np.asarray(scores - scores.max())


def trace_back(came_from: Sequence[IntArray | None], last: int) -> list[int]:
    """Return the cells of the most likely path that ends in `last`.

    `came_from[s]` is the best predecessor of each cell at s, from `Transitions.extend`, or None where the chain
    restarts. The path begins at the last restart.
    """
    path = [last]
    for before in reversed(came_from[1:]):
        if before is None:
            break
        path.append(int(before[path[-1]]))
    return path[::-1]
