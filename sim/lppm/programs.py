"""The linear programs of optimal mechanisms: assembled sparsely, solved, and what comes of it made a channel.

All take d_P and d_Q of the cells with mass alone, and of the guesses and outputs that are worth a thought (`unbeaten`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.lppm.linear import LinearProgram, Solver, solve
from sim.lppm.spanner import Spanner
from sim.world.distance import Distance

_MOOT = 20.0
"""A ratio of exp(20) and more binds nothing that a solver could tell from nought."""

_FARTHEST = 600.0
"""Nothing that is raised becomes less than exp(-600) of its like, which a float can still hold."""

_NOUGHT = 1e-9
"""Outputs with no more than this from any cell are left to rounding: they are not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """What an adversary can do about one report: her errors by cell are errors @ v, for any v within the limits."""

    errors: sparse.csr_array
    """Shape (m, k)."""
    limits: sparse.csr_array
    """least <= limits @ v <= most, and lower <= v."""
    least: FloatArray
    most: FloatArray
    lower: float


def guesses_of(distance: Distance, cells: IntArray) -> Guesses:
    """Return what can be guessed about these cells with this d_P, as small as it can be said."""
    if distance.shape is not None:
        return _by_line(distance, cells)
    distance_km = distance.matrix_km[cells]
    return drawn_guesses(distance_km[:, unbeaten(distance_km, cells)])


def drawn_guesses(distance_km: FloatArray) -> Guesses:
    """Return the guesses with any d_P: v is a distribution over them, for none is better than the best of them."""
    one = np.ones(1)
    certain = sparse.csr_array(np.ones((1, distance_km.shape[1])))
    return Guesses(errors=sparse.csr_array(distance_km), limits=certain, least=one, most=one, lower=0.0)


def _by_line(distance: Distance, cells: IntArray) -> Guesses:
    """Return the guesses with d_P Manhattan: v are the errors by row and by column, which add up to a cell's.

    Those of a guess drawn at will change by no more than the way from one line to the next, and at the first and the
    last line add up to the whole way; all that do so are those of some guess, or worse.
    """
    assert distance.shape is not None
    errors, limits, least, most = [], [], [], []
    for lines, line_km in zip(np.divmod(cells, distance.shape[1]), distance.axes_km, strict=True):
        used, position = np.unique(lines, return_inverse=True)
        gaps_km = line_km[used[:-1], used[1:]]
        ends = np.zeros(used.size)
        ends[0] += 1
        ends[-1] += 1
        errors.append(np.eye(used.size)[position])
        limits.append(np.vstack([np.diff(np.eye(used.size), axis=0), ends]))
        least += [-gaps_km, [gaps_km.sum()]]
        most += [gaps_km, [np.inf]]
    return Guesses(
        errors=sparse.csr_array(np.hstack(errors)),
        limits=sparse.csr_array(sparse.block_diag(limits)),
        least=np.concatenate(least),
        most=np.concatenate(most),
        lower=-np.inf,
    )


def most_error(
    prior: FloatArray, guesses: Guesses, quality_km: FloatArray, budget_km: float, solver: Solver
) -> tuple[FloatArray, float]:
    """Return the channel (m, outputs) with the most error within a budget, and that error: Shokri et al. 2012, Sect. 4.

    The prior (m,) has mass everywhere. What is solved is the dual of their program,

        min  sum_x prior(x) mu(x) + budget lambda
        s.t. sum_y q_z(y) d_P(x, y) <= mu(x) + lambda d_Q(x, z)  for all x, z

    with q_z the adversary's guess at report z: half the time, and with d_P Manhattan a thirtieth. The multipliers of
    its rows are the joint probabilities of cell and report.
    """
    n_cells, n_outputs = quality_km.shape
    n_errors = guesses.errors.shape[1]
    each = sparse.eye_array(n_outputs)
    pairs = n_outputs * n_cells
    matrix = sparse.block_array(
        [
            [
                sparse.kron(each, -guesses.errors),
                sparse.kron(np.ones((n_outputs, 1)), sparse.eye_array(n_cells)),
                sparse.csr_array(quality_km.T.reshape(-1, 1)),
            ],
            [sparse.kron(each, guesses.limits), None, None],
        ],
        format="csc",
    )
    program = LinearProgram(
        cost=np.concatenate([np.zeros(n_outputs * n_errors), prior, [budget_km]]),
        matrix=matrix,
        row_lower=np.concatenate([np.zeros(pairs), np.tile(guesses.least, n_outputs)]),
        row_upper=np.concatenate([np.full(pairs, np.inf), np.tile(guesses.most, n_outputs)]),
        lower=np.concatenate([np.full(n_outputs * n_errors, guesses.lower), np.full(n_cells, -np.inf), [0.0]]),
    )
    found = solve(program, solver)
    return stochastic(found.multipliers[:pairs].reshape(n_outputs, n_cells).T), found.value


def least_loss(
    weights: FloatArray, quality_km: FloatArray, spanner: Spanner, epsilon_per_km: float, solver: Solver
) -> tuple[FloatArray, float]:
    """Return the channel (n, outputs) of least loss under geo-indistinguishability, and the least that can be.

    Bordenabe et al., CCS 2014, Sect. 4: f(z | x) <= exp(epsilon / delta d(x, x')) f(z | x') on the edges of a spanner
    of dilation delta. The weights (n,) are those of the cells' losses. The promise holds but for the solver's
    tolerance: see `promised`.
    """
    n_cells, n_outputs = quality_km.shape
    exponents = epsilon_per_km / spanner.dilation * spanner.length_km
    binding = exponents <= _MOOT
    one, other = spanner.start[binding], spanner.end[binding]
    start, end = np.concatenate([one, other]), np.concatenate([other, one])
    shares = np.exp(-np.tile(exponents[binding], 2))
    row = np.arange(start.size)
    edges = sparse.csr_array(
        (np.concatenate([shares, -np.ones(row.size)]), (np.tile(row, 2), np.concatenate([start, end]))),
        shape=(row.size, n_cells),
    )
    n_rows = n_outputs * row.size
    program = LinearProgram(
        cost=(weights * quality_km.T).ravel(),
        matrix=sparse.csc_array(
            sparse.vstack(
                [
                    sparse.kron(sparse.eye_array(n_outputs), edges),
                    sparse.kron(np.ones((1, n_outputs)), sparse.eye_array(n_cells)),
                ]
            )
        ),
        row_lower=np.concatenate([np.full(n_rows, -np.inf), np.ones(n_cells)]),
        row_upper=np.concatenate([np.zeros(n_rows), np.ones(n_cells)]),
        lower=np.zeros(n_outputs * n_cells),
    )
    found = solve(program, solver)
    return stochastic(found.variables.reshape(n_outputs, n_cells).T), found.bound


def promised(channel: FloatArray, metric_km: FloatArray, epsilon_per_km: float) -> FloatArray:
    """Return the channel next to this one that keeps f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all x, x', z.

    What is too little beside its neighbours is raised to the least that will do. Rows then sum to a hair more than 1;
    scaled back, they get as much of what all rows have in common as makes up for it.
    """
    kept = np.where(channel.max(axis=0) > _NOUGHT, channel, 0.0)
    nearness = np.exp(-np.minimum(epsilon_per_km * metric_km, _FARTHEST))
    raised = kept.copy()
    for cell in range(len(kept)):
        np.maximum(raised, nearness[:, cell, np.newaxis] * kept[cell], out=raised)
    sums = raised.sum(axis=1)
    scaled = stochastic(raised)
    apart = nearness[nearness < 1]
    if not apart.size:
        return np.broadcast_to(scaled.mean(axis=0), scaled.shape)
    over = float(sums.max() / sums.min()) - 1
    common = min(len(kept) * over / float(1 - apart.max()), 1.0)
    return stochastic((1 - common) * scaled + common * scaled.mean(axis=0))


def exceeded(channel: FloatArray, metric_km: FloatArray, epsilon_per_km: float) -> float:
    """Return by how much log f(z | x) / f(z | x') exceeds epsilon d(x, x') at most; nought if nowhere."""
    used = channel[:, channel.any(axis=0)]
    if not used.all():
        return np.inf
    logs = np.log(used)
    return max(
        float((logs[cell] - logs - epsilon_per_km * metric_km[:, cell, None]).max()) for cell in range(len(logs))
    )


def stochastic(weights: FloatArray) -> FloatArray:
    """Return weights (m, k) with what is negative cut off and rows scaled to sum to 1; all alike if a row has nothing.

    >>> stochastic(np.array([[1.0, 3.0], [-1e-9, 0.0]])).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    kept = np.maximum(weights, 0.0)
    kept[~kept.any(axis=1)] = 1.0
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def unbeaten(distance_km: FloatArray, cells: IntArray) -> IntArray:
    """Return the columns of distances (m, n) from these cells that no other beats in all rows, the first of equals.

    To report or to guess another is never better. A cell's own column has a nought and is beaten by none but an equal.

    >>> line_km = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> unbeaten(line_km[:2], np.array([0, 1])).tolist()
    [0, 1]
    """
    kept: BoolArray = np.ones(distance_km.shape[1], dtype=bool)
    for column in np.setdiff1d(np.arange(kept.size), cells)[::-1]:
        others = kept.copy()
        others[column] = False
        kept[column] = not (distance_km[:, others] <= distance_km[:, column, np.newaxis]).all(axis=0).any()
    return np.flatnonzero(kept)
