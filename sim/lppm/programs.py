"""The linear programs of optimal mechanisms: assembled sparsely, solved, and what comes of it made a channel.

All take d_P and d_Q of the cells with mass alone, and of the guesses and outputs that are worth a thought (`unbeaten`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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

_INFEASIBLE = 1e-6
"""Guesses of a certificate may break their limits by this, relative to the longest distance or to 1."""

_NO_PRICE = 1e-11
"""Multipliers up to this are left out of a certificate: any non-negative ones prove a bound."""


class MostError(NamedTuple):
    """The channel with the most error, what the solver claims it to be, and what proves that there is no more."""

    channel: FloatArray
    claimed_km: float
    guesses: FloatArray
    """The adversary's answer to each output, shape (outputs, variables of `Guesses`)."""
    price: float
    """Error gained by a unit of budget: lambda of the program."""


class LeastLoss(NamedTuple):
    """The channel with the least loss, what the solver claims it to be, and what proves that there is no less."""

    channel: FloatArray
    claimed_km: float
    places: IntArray
    """Where the multipliers of the promise are not 0, in an array of shape (outputs, directed edges), flat."""
    prices: FloatArray
    """Those multipliers."""


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
) -> MostError:
    """Return the channel (m, outputs) with the most error within a budget: Shokri et al. 2012, Sect. 4.

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
    return MostError(
        stochastic(found.multipliers[:pairs].reshape(n_outputs, n_cells).T),
        found.value,
        found.variables[: n_outputs * n_errors].reshape(n_outputs, n_errors),
        max(float(found.variables[-1]), 0.0),
    )


def error_bound_km(
    prior: FloatArray,
    guesses: Guesses,
    quality_km: FloatArray,
    budget_km: float,
    answers: FloatArray,
    price: float,
) -> float:
    """Return an error that no channel within the budget exceeds, by weak duality; infinite for infeasible answers.

    For any answers (outputs, variables of `guesses`) to the outputs and any price >= 0, the program of `most_error` is
    feasible with mu(x) = max_z [sum_y q_z(y) d_P(x, y) - price d_Q(x, z)]. No solver is needed.
    """
    shape = (quality_km.shape[1], guesses.errors.shape[1])
    if answers.shape != shape or not np.isfinite(answers).all() or not 0 <= price < np.inf:
        return np.inf
    variables = answers.T
    limited = guesses.limits @ variables
    allowed = _INFEASIBLE * max(1.0, float(quality_km.max()), float(abs(guesses.errors).max()))
    over = max(
        float((guesses.least[:, np.newaxis] - limited).max()),
        float((limited - guesses.most[:, np.newaxis]).max()),
        float((guesses.lower - variables).max()),
    )
    if not over <= allowed:
        return np.inf
    mu = (guesses.errors.toarray() @ variables - price * quality_km).max(axis=1)
    return float(prior @ mu + budget_km * price)


def least_loss(
    weights: FloatArray, quality_km: FloatArray, spanner: Spanner, epsilon_per_km: float, solver: Solver
) -> LeastLoss:
    """Return the channel (n, outputs) of least loss under geo-indistinguishability.

    Bordenabe et al., CCS 2014, Sect. 4: f(z | x) <= exp(epsilon / delta d(x, x')) f(z | x') on the edges of a spanner
    of dilation delta. The weights (n,) are those of the cells' losses. The promise holds but for the solver's
    tolerance: see `promised`.
    """
    n_cells, n_outputs = quality_km.shape
    edges = _promise_rows(spanner, epsilon_per_km, n_cells)
    n_rows = n_outputs * edges.shape[0]
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
    prices = -found.multipliers[:n_rows]
    places = np.flatnonzero(prices > _NO_PRICE)
    return LeastLoss(stochastic(found.variables.reshape(n_outputs, n_cells).T), found.bound, places, prices[places])


def loss_bound_km(
    weights: FloatArray,
    quality_km: FloatArray,
    spanner: Spanner,
    epsilon_per_km: float,
    places: IntArray,
    prices: FloatArray,
) -> float:
    """Return a loss that no channel of the program of `least_loss` goes below, by weak duality.

    For any multipliers >= 0 of the promise, `prices` at `places` as in `LeastLoss`, it is
    sum_x min_z [w(x) d_Q(x, z) + (what x's edges cost at z)]. Minus infinity if they are not feasible. No solver is
    needed.
    """
    n_outputs = quality_km.shape[1]
    edges = _promise_rows(spanner, epsilon_per_km, quality_km.shape[0])
    n_edges = edges.shape[0]
    if places.size != prices.size or not np.isfinite(prices).all() or (prices < 0).any():
        return -np.inf
    if ((places < 0) | (places >= n_outputs * n_edges)).any():
        return -np.inf
    by_edge = sparse.csr_array((prices, np.divmod(places, max(n_edges, 1))), shape=(n_outputs, n_edges))
    return float((weights[:, np.newaxis] * quality_km + (by_edge @ edges).T.toarray()).min(axis=1).sum())


def _promise_rows(spanner: Spanner, epsilon_per_km: float, n_cells: int) -> sparse.csr_array:
    """Return the rows of the promise: one for each directed edge that binds, exp(-exponent) f(start) - f(end) <= 0."""
    exponents = epsilon_per_km / spanner.dilation * spanner.length_km
    binding = exponents <= _MOOT
    one, other = spanner.start[binding], spanner.end[binding]
    start, end = np.concatenate([one, other]), np.concatenate([other, one])
    shares = np.exp(-np.tile(exponents[binding], 2))
    row = np.arange(start.size)
    return sparse.csr_array(
        (np.concatenate([shares, -np.ones(row.size)]), (np.tile(row, 2), np.concatenate([start, end]))),
        shape=(row.size, n_cells),
    )


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
