"""Linear programs of optimal mechanisms: sparse assembly, solution, and conversion into channels.

All functions use d_P and d_Q of the cells with mass only, and of the guesses and outputs that are not dominated
(`undominated`).
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

_NOT_BINDING = 20.0
"""Constraints with a ratio of exp(20) or more are omitted: a solver cannot distinguish exp(-20) from zero."""

_LARGEST_EXPONENT = 600.0
"""Probabilities are raised to at least exp(-600) of those of other cells, which a float can still represent."""

_UNUSED = 1e-9
"""Outputs whose probability is at most this from every cell are rounding errors and are removed."""

_INFEASIBLE = 1e-6
"""Tolerated violation of the limits by the guesses of a certificate, relative to the largest distance or to 1."""

_NO_PRICE = 1e-11
"""Multipliers up to this value are omitted from a certificate: any non-negative multipliers prove a bound."""


class MostError(NamedTuple):
    """The channel with the largest adversary error, and a certificate of its optimality."""

    channel: FloatArray
    claimed_km: float
    """Optimal value according to the solver."""
    guesses: FloatArray
    """The adversary's guess for each output, shape (outputs, variables of `Guesses`)."""
    price: float
    """Error gained per unit of budget: lambda of the program."""


class LeastLoss(NamedTuple):
    """The channel with the smallest loss, and a certificate of its optimality."""

    channel: FloatArray
    claimed_km: float
    """Optimal value according to the solver."""
    places: IntArray
    """Flat indices of the non-zero multipliers of the privacy constraints, in shape (outputs, directed edges)."""
    prices: FloatArray
    """Values of these multipliers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """Randomised guesses about one report: the expected error per cell is errors @ v, for any v within the limits.

    The limits are least <= limits @ v <= most and lower <= v.
    """

    errors: sparse.csr_array
    """Shape (m, k)."""
    limits: sparse.csr_array
    """Shape (number of limits, k)."""
    least: FloatArray
    most: FloatArray
    lower: float


def guesses_of(distance: Distance, cells: IntArray) -> Guesses:
    """Return the guesses about these cells under a privacy distance d_P, in the smallest known formulation."""
    if distance.shape is not None:
        return _by_line(distance, cells)
    distance_km = distance.matrix_km[cells]
    return drawn_guesses(distance_km[:, undominated(distance_km, cells)])


def drawn_guesses(distance_km: FloatArray) -> Guesses:
    """Return the guesses under any d_P: v is a distribution over the columns of distances (m, k)."""
    one = np.ones(1)
    certain = sparse.csr_array(np.ones((1, distance_km.shape[1])))
    return Guesses(errors=sparse.csr_array(distance_km), limits=certain, least=one, most=one, lower=0.0)


def _by_line(distance: Distance, cells: IntArray) -> Guesses:
    """Return the guesses under a Manhattan d_P: v holds the errors per row and per column, whose sum is a cell's error.

    Between neighbouring lines, the error of a randomised guess changes by at most their distance. The errors at the
    first and the last line sum to at least the distance between these two. Any v with both properties is attained or
    dominated by some randomised guess.
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
    """Return the channel (m, outputs) with the largest adversary error within a budget (Shokri et al. 2012, Sect. 4).

    The prior (m,) is positive everywhere. The function solves the dual of their program,

        min  sum_x prior(x) mu(x) + budget lambda
        s.t. sum_y q_z(y) d_P(x, y) <= mu(x) + lambda d_Q(x, z)  for all x, z

    with q_z the adversary's guess at report z. This takes half the time of the primal, and with a Manhattan d_P a
    thirtieth. The multipliers of its rows are the joint probabilities of cell and report.
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
    solution = solve(program, solver)
    return MostError(
        stochastic(solution.multipliers[:pairs].reshape(n_outputs, n_cells).T),
        solution.value,
        solution.variables[: n_outputs * n_errors].reshape(n_outputs, n_errors),
        max(float(solution.variables[-1]), 0.0),
    )


def error_bound_km(
    prior: FloatArray,
    guesses: Guesses,
    quality_km: FloatArray,
    budget_km: float,
    answers: FloatArray,
    price: float,
) -> float:
    """Return an upper bound of the error of all channels within the budget, by weak duality.

    For any guesses `answers` (outputs, variables of `guesses`) and any price >= 0, the program of `most_error` is
    feasible with mu(x) = max_z [sum_y q_z(y) d_P(x, y) - price d_Q(x, z)]. No solver is needed. The bound is infinite
    if the answers violate the limits.
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
    """Return the channel (n, outputs) with the smallest loss under geo-indistinguishability.

    Bordenabe et al., CCS 2014, Sect. 4: f(z | x) <= exp(epsilon / delta d(x, x')) f(z | x') on the edges of a spanner
    of dilation delta. `weights` (n,) weigh the losses of the cells. The constraints hold up to the solver's tolerance;
    see `enforce_epsilon`.
    """
    n_cells, n_outputs = quality_km.shape
    edges = _privacy_rows(spanner, epsilon_per_km, n_cells)
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
    solution = solve(program, solver)
    channel = stochastic(solution.variables.reshape(n_outputs, n_cells).T)
    prices = -solution.multipliers[:n_rows]
    places = np.flatnonzero(prices > _NO_PRICE)
    return LeastLoss(channel, solution.bound, places, prices[places])


def loss_bound_km(
    weights: FloatArray,
    quality_km: FloatArray,
    spanner: Spanner,
    epsilon_per_km: float,
    places: IntArray,
    prices: FloatArray,
) -> float:
    """Return a lower bound of the loss of all channels of the program of `least_loss`, by weak duality.

    For any multipliers >= 0 of the privacy constraints, `prices` at `places` as in `LeastLoss`, the bound is
    sum_x min_z [w(x) d_Q(x, z) + (price of the edges of x at z)]. It is minus infinity if the multipliers are not
    feasible. No solver is needed.
    """
    n_outputs = quality_km.shape[1]
    edges = _privacy_rows(spanner, epsilon_per_km, quality_km.shape[0])
    n_edges = edges.shape[0]
    if places.size != prices.size or not np.isfinite(prices).all() or (prices < 0).any():
        return -np.inf
    if ((places < 0) | (places >= n_outputs * n_edges)).any():
        return -np.inf
    by_edge = sparse.csr_array((prices, np.divmod(places, max(n_edges, 1))), shape=(n_outputs, n_edges))
    return float((weights[:, np.newaxis] * quality_km + (by_edge @ edges).T.toarray()).min(axis=1).sum())


def _privacy_rows(spanner: Spanner, epsilon_per_km: float, n_cells: int) -> sparse.csr_array:
    """Return the rows of the privacy constraints, exp(-exponent) f(start) - f(end) <= 0 for each directed edge."""
    exponents = epsilon_per_km / spanner.dilation * spanner.length_km
    binding = exponents <= _NOT_BINDING
    one, other = spanner.start[binding], spanner.end[binding]
    start, end = np.concatenate([one, other]), np.concatenate([other, one])
    shares = np.exp(-np.tile(exponents[binding], 2))
    row = np.arange(start.size)
    return sparse.csr_array(
        (np.concatenate([shares, -np.ones(row.size)]), (np.tile(row, 2), np.concatenate([start, end]))),
        shape=(row.size, n_cells),
    )


def enforce_epsilon(channel: FloatArray, metric_km: FloatArray, epsilon_per_km: float) -> FloatArray:
    """Return a channel close to this one with f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all x, x', z.

    Probabilities that are too small relative to those of other cells are raised to the smallest valid value. Rows then
    sum to slightly more than 1. Normalising them may violate the constraints again, so the rows are mixed with their
    mean by a weight that compensates for it.
    """
    used = np.where(channel.max(axis=0) > _UNUSED, channel, 0.0)
    nearness = np.exp(-np.minimum(epsilon_per_km * metric_km, _LARGEST_EXPONENT))
    raised = used.copy()
    for cell in range(len(used)):
        np.maximum(raised, nearness[:, cell, np.newaxis] * used[cell], out=raised)
    sums = raised.sum(axis=1)
    scaled = stochastic(raised)
    apart = nearness[nearness < 1]
    if not apart.size:
        return np.broadcast_to(scaled.mean(axis=0), scaled.shape)
    over = float(sums.max() / sums.min()) - 1
    common = min(len(used) * over / float(1 - apart.max()), 1.0)
    return stochastic((1 - common) * scaled + common * scaled.mean(axis=0))


def epsilon_violation(channel: FloatArray, metric_km: FloatArray, epsilon_per_km: float) -> float:
    """Return the largest excess of log f(z | x) / f(z | x') over epsilon d(x, x'); 0 if the constraints hold."""
    used = channel[:, channel.any(axis=0)]
    if not used.all():
        return np.inf
    logs = np.log(used)
    return max(
        float((logs[cell] - logs - epsilon_per_km * metric_km[:, cell, None]).max()) for cell in range(len(logs))
    )


def stochastic(weights: FloatArray) -> FloatArray:
    """Clip negative weights (m, k) to 0 and scale rows to sum 1; a row without positive weights becomes uniform.

    >>> stochastic(np.array([[1.0, 3.0], [-1e-9, 0.0]])).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    positive = np.maximum(weights, 0.0)
    positive[~positive.any(axis=1)] = 1.0
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))


def undominated(distance_km: FloatArray, cells: IntArray) -> IntArray:
    """Return the columns of distances (m, n) from these cells that no other column dominates.

    A column dominates another if no row is larger; of equal columns the first remains. Reporting or guessing a
    dominated column is never better. The columns of `cells` always remain.

    >>> line_km = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> undominated(line_km[:2], np.array([0, 1])).tolist()
    [0, 1]
    """
    remaining: BoolArray = np.ones(distance_km.shape[1], dtype=bool)
    for column in np.setdiff1d(np.arange(remaining.size), cells)[::-1]:
        others = remaining.copy()
        others[column] = False
        remaining[column] = not (distance_km[:, others] <= distance_km[:, column, np.newaxis]).all(axis=0).any()
    return np.flatnonzero(remaining)
