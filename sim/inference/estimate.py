"""Maximum likelihood of a mobility profile: EM as in the paper, and a fast solver that certifies its answer.

Both maximise the mean of log(L[s] . pi) over the simplex, where L[s, i] = f(z^s | z^{s-1}, x_i) is the likelihood
of the s-th report (Oya et al. 2019, eq. (updatepi)). With g_i = mean_s L[s, i] / (L[s] . pi), the gap max_i g_i - 1
bounds how far pi is from the best mean log-likelihood, so both stop by it and an `Estimate` carries it.

The maximiser need not be unique: cells whose columns are equal cannot be told apart, and location hiding makes many
of them. They are merged, solved as one and split again in given proportions. Compare solvers by their gap and their
fitted L . pi, never by pi.

With pseudo-counts a_i, those of a Dirichlet prior, the mode of the posterior is estimated instead: it maximises
sum_s w_s log(L[s] . pi) + sum_i a_i log(pi_i), as if cell i had been seen a_i times. With the mean taken over the
reports and the pseudo-counts together, the gap is the same and means the same; this maximiser is unique.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dposv, dpotrf, dpotrs
from scipy.optimize import nnls

from sim.inference import kernels
from sim.inference.bayes import normalise, plain_floats
from sim.interfaces import BoolArray, FloatArray, IntArray

_FLOOR = 1e-30  # EM can never bring back a zero, and denormals would make it ten times slower
_COLD_SUPPORT = 60  # a cold start keeps so many columns: more make the first steps slow, fewer make more steps
_CANDIDATES = 20  # columns that may enter in one Newton step
_LEAST_PAGES = 2**14  # bytes; what is smaller finds its place in the heap
_CORRECTIONS = 8  # steps with the same matrix that may follow one
_EM_FIRST = 3  # steps of EM before Newton's, for a mode
_FALLS_FAST = 0.2  # a matrix is kept while it brings the slopes down by this factor a step, for a mode
EM_ITERATIONS = 100_000
NEWTON_ITERATIONS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A profile and how good it is."""

    profile: FloatArray
    """The estimated profile, shape (n_cells,), read-only."""
    gap: float
    """The certified bound on the distance to the best mean log-likelihood."""
    iterations: int
    log_likelihood: float
    """The (weighted) mean of log(L[s] . profile)."""


class Likelihoods:
    """The likelihood rows of the reports so far, and which cells they cannot tell apart. The oldest can be forgotten.

    >>> seen = Likelihoods(3)
    >>> seen.append([0.2, 0.1, 0.1])
    >>> seen.groups
    array([0, 1, 1])
    >>> seen.append([0.2, 0.2, 0.1])
    >>> len(seen), seen.groups
    (2, array([0, 1, 2]))
    >>> seen.forget(1)
    >>> len(seen), seen.groups
    (1, array([0, 0, 2]))
    """

    def __init__(self, n_cells: int) -> None:
        self._buffer = np.empty((0, n_cells))
        self._first = 0
        self._count = 0
        self.groups: IntArray = np.zeros(n_cells, dtype=np.int64)
        """For each cell the lowest cell whose column is exactly equal, as `equal_columns` gives it."""
        self._all_differ = n_cells == 1
        self._older: list[IntArray] = []
        self._newer: IntArray | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> FloatArray:
        """Return the rows in the order they came, shape (len, n_cells), as a read-only view."""
        rows = self._buffer[self._first : self._first + self._count]
        rows.flags.writeable = False
        return rows

    def append(self, row: ArrayLike) -> None:
        """Add one row f(z | .); refuse one that is not a likelihood or that no cell can explain."""
        values = np.asarray(row, dtype=np.float64)
        if values.shape != self.groups.shape:
            raise ValueError(f"likelihood must have shape {self.groups.shape}, got {values.shape}")
        least, most = float(values.min()), float(values.max())
        if not (least >= 0 and 1e-200 <= most < np.inf):
            raise ValueError(f"likelihood must be in [0, inf) and above 1e-200 somewhere, got {least} to {most}")
        if self._first + self._count == len(self._buffer):
            self._make_room()
        self._buffer[self._first + self._count] = values
        self._count += 1
        if not self._all_differ:
            self.groups = refine(self.groups, values)
            self._all_differ = _all_differ(self.groups)
        if self._newer is not None and not _all_differ(self._newer):
            self._newer = refine(self._newer, values)

    def forget(self, count: int) -> None:
        """Drop the oldest rows; cells that only they told apart are equal again.

        Groups cannot be taken apart row by row. So the rows are in two parts: of the older ones there are the groups
        for every number of them that may be left, of the newer ones those of all. When no older ones are left, the
        newer ones become them, so that forgetting costs a row no more than two looks at it.
        """
        if not 0 <= count <= self._count:
            raise ValueError(f"count must be in [0, {self._count}], got {count}")
        if count == 0:
            return
        self._first += count
        self._count -= count
        if count < len(self._older):
            del self._older[len(self._older) - count :]
        else:
            self._older = _groups_from_the_end(self.rows)
            self._newer = np.zeros_like(self.groups)
        self.groups = self._together()
        self._all_differ = _all_differ(self.groups)

    def _together(self) -> IntArray:
        """Return the groups of the older and the newer rows together."""
        newer = np.zeros_like(self.groups) if self._newer is None else self._newer
        if not self._older:
            return newer
        older = self._older[-1]
        return older if _all_differ(older) else refine(older, newer.astype(np.float64))

    def _make_room(self) -> None:
        """Move the rows to the front if half of the room is free then; else make room for as many rows again."""
        rows = self.rows
        if not 0 < 2 * self._count <= len(self._buffer):
            self._buffer = _pages(max(2 * self._count, 16), self.groups.size)
        self._buffer[: self._count] = rows
        self._first = 0


def _all_differ(groups: IntArray) -> bool:
    return bool((groups == np.arange(groups.size)).all())


def _groups_from_the_end(rows: FloatArray) -> list[IntArray]:
    """Return the groups of the last row, of the last two, of the last three ... of all."""
    groups = np.zeros(rows.shape[1], dtype=np.int64)
    found: list[IntArray] = []
    for row in rows[::-1]:
        finer = groups if _all_differ(groups) else refine(groups, row)
        groups = groups if np.array_equal(groups, finer) else finer  # one object for what is the same
        found.append(groups)
    return found


def _pages(count: int, n_cells: int) -> FloatArray:
    """Return room for rows in pages of its own, which take no memory before they are written to.

    In the heap, the buffers of many users that grow in turn would leave holes that none of them fits into.
    """
    size = count * n_cells * 8
    if size < _LEAST_PAGES:
        return np.empty((count, n_cells))
    # Private, where there is a choice: a process that is forked has a copy of its own.
    own = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    return np.frombuffer(mmap.mmap(-1, size, **own), dtype=np.float64).reshape(count, n_cells)


def refine(groups: IntArray, row: FloatArray) -> IntArray:
    """Split groups of cells by one more row of values: each cell gets the lowest of its group with an equal value.

    >>> refine(np.array([0, 0, 0]), np.array([0.2, 0.1, 0.1]))
    array([0, 1, 1])
    """
    if (fast := kernels.compiled()) is not None:
        return np.asarray(fast.refine(groups, plain_floats(row)))
    pairs = np.empty(len(row), dtype=np.complex128)  # ordered by real part, then by imaginary part, exactly
    pairs.real, pairs.imag = groups, row
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    return np.asarray(first[inverse])


def equal_columns(likelihoods: FloatArray) -> IntArray:
    """Return for each column the lowest one that is exactly equal to it.

    >>> equal_columns(np.array([[1.0, 2.0, 1.0], [3.0, 3.0, 3.0]]))
    array([0, 1, 0])
    """
    columns = np.ascontiguousarray(likelihoods.T) + 0.0  # + 0.0: a negative zero has other bytes
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(column.tobytes(), i) for i, column in enumerate(columns)], dtype=np.int64)


def certified_gap(
    likelihoods: FloatArray,
    profile: FloatArray,
    weights: FloatArray | None = None,
    pseudo_counts: FloatArray | None = None,
) -> float:
    """Return max_i mean_s L[s, i] / (L[s] . profile) - 1, which bounds the log-likelihood still to be gained.

    With pseudo-counts, the mean is over them too, and what it bounds is the mean of the posterior's logarithm.

    >>> certified_gap(np.eye(2), np.array([0.5, 0.5]))
    0.0
    >>> certified_gap(np.eye(2)[:1], np.array([0.75, 0.25]), pseudo_counts=np.array([0.5, 0.5]))
    0.0
    """
    if pseudo_counts is None:
        rows, weights = _weighted(likelihoods, weights)
        return float(_gradient(rows, weights, rows @ profile).max()) - 1
    rows, weights, pseudo = _with_pseudo_counts(likelihoods, weights, pseudo_counts)
    return float(_gradient(rows, weights, rows @ profile, pseudo, profile).max()) - 1


def em(
    likelihoods: FloatArray,
    *,
    start: FloatArray | None = None,
    weights: FloatArray | None = None,
    pseudo_counts: FloatArray | None = None,
    gap: float = 1e-6,
    max_iterations: int = EM_ITERATIONS,
) -> Estimate:
    """Estimate the profile by expectation-maximisation, exactly the paper's update from `start` (uniform).

    Each step multiplies pi_i by g_i, so cells with equal columns keep the proportions they start with. Zeros of
    the start are lifted to a floor: they can still be learned, slowly. With `pseudo_counts` it is the mode of the
    posterior that is estimated.
    """
    begin = _uniform(likelihoods) if start is None else start
    pseudo: FloatArray | None = None
    if pseudo_counts is None:
        rows, weights = _weighted(likelihoods, weights)
        profile = np.maximum(begin, _FLOOR)
    else:
        rows, weights, pseudo = _with_pseudo_counts(likelihoods, weights, pseudo_counts)
        profile = normalise(np.maximum(begin, np.maximum(pseudo, _FLOOR)))
    for iteration in range(max_iterations):
        gradient = _gradient(rows, weights, rows @ profile, pseudo, profile)
        if gradient.max() - 1 <= gap:
            return _estimate(rows, weights, profile, iteration, pseudo)
        profile = np.maximum(profile * gradient, _FLOOR)
    return _estimate(rows, weights, profile, max_iterations, pseudo)


def constrained_newton(
    likelihoods: FloatArray,
    *,
    start: FloatArray | None = None,
    proportions: FloatArray | None = None,
    weights: FloatArray | None = None,
    groups: IntArray | None = None,
    unseen: int | None = None,
    gap: float = 1e-6,
    max_iterations: int = NEWTON_ITERATIONS,
) -> Estimate:
    """Estimate the profile by the constrained Newton method of Wang (2007, J. R. Statist. Soc. B 69, 185-198).

    Each step takes in the columns with the largest g_i > 1, minimises the second-order model of the
    log-likelihood over the simplex and searches on the line towards it. `start` is a warm start, zeros and all:
    mass can go anywhere, since g is taken over all columns. `groups` are the equal columns, if known. Their mass
    is split by `proportions` (`start`, if not given, else uniform), evenly in a group without any. Where `start`
    is the estimate of all but the last rows, `unseen` says how many those are.
    """
    rows, weights = _weighted(likelihoods, weights)
    groups = equal_columns(rows) if groups is None else groups
    representative = groups == np.arange(groups.size)
    merges = not representative.all()
    if start is None:
        point = _cold_start(rows, weights, groups)
    else:
        point = _spread(start, groups, groups.size) if merges else start
    point = _cover(rows, weights, point, len(rows) if start is None or unseen is None else unseen)
    climbed = _climb(rows, weights, point, representative, gap=gap, max_iterations=max_iterations)
    profile = climbed.point
    if merges:
        profile = _split(profile, groups, start if proportions is None else proportions)
    profile = normalise(profile)
    profile.flags.writeable = False
    estimate = Estimate(profile, climbed.gap, climbed.iterations, float(weights @ np.log(climbed.fitted)))
    return _polish(rows, weights, estimate, gap) if climbed.stalled else estimate


def posterior_mode(
    likelihoods: FloatArray,
    *,
    pseudo_counts: FloatArray,
    start: FloatArray | None = None,
    weights: FloatArray | None = None,
    groups: IntArray | None = None,
    gap: float = 1e-6,
    max_iterations: int = NEWTON_ITERATIONS,
) -> Estimate:
    """Estimate the profile with a Dirichlet prior by Newton's method.

    `pseudo_counts` are above 0 in every cell, so that the answer is too and no constraint is ever active; there may be
    no reports at all. `weights`, of 1 each unless said, count in the same unit. `start` is a warm start. The first
    steps are those of EM, which find new places at once; then Newton's, of which the matrix is kept while the slopes
    keep falling fast. `groups` are equal columns, if known: they share their mass as their pseudo-counts, exactly, and
    are solved as one.

    >>> posterior_mode(np.eye(2)[:1], pseudo_counts=np.array([1.0, 1.0])).profile.round(6)
    array([0.666667, 0.333333])
    """
    rows, weights, pseudo = _with_pseudo_counts(likelihoods, weights, pseudo_counts)
    if not pseudo.min() > 0:
        raise ValueError(f"pseudo_counts must be above 0 in every cell, got {pseudo_counts.min()}")
    firsts = None if groups is None else np.flatnonzero(groups == np.arange(groups.size))
    if groups is None or firsts is None or firsts.size == groups.size:
        return _climb_to_mode(rows, weights, pseudo, start, gap, max_iterations)
    merged = _spread(pseudo, groups, groups.size)
    begin = None if start is None else _spread(start, groups, groups.size)[firsts]
    found = _climb_to_mode(rows[:, firsts], weights, merged[firsts], begin, gap, max_iterations)
    level = np.empty(groups.size)
    level[firsts] = found.profile / merged[firsts]
    profile = normalise(pseudo * level[groups])
    profile.flags.writeable = False
    return replace(found, profile=profile)


def _climb_to_mode(
    rows: FloatArray,
    weights: FloatArray,
    pseudo: FloatArray,
    start: FloatArray | None,
    gap: float,
    max_iterations: int,
) -> Estimate:
    """Return the mode for weights and pseudo-counts that sum to 1 together."""
    profile = normalise(pseudo if start is None else np.maximum(start, pseudo))
    factor: tuple[FloatArray, FloatArray] | None = None
    before = np.inf
    for iteration in range(max_iterations + 1):
        fitted = rows @ profile
        gradient = _gradient(rows, weights, fitted, pseudo, profile)
        excess = float(gradient.max()) - 1
        if excess <= gap or iteration == max_iterations:
            break
        steepest = float(np.abs(profile * (gradient - 1)).max())
        if iteration < _EM_FIRST:
            profile = normalise(profile * gradient)
            continue
        if factor is None or not steepest < _FALLS_FAST * before:
            factor = _factor_of_mode(rows, weights, fitted, pseudo, profile)
        before = steepest
        moved = _step_of_mode(rows, weights, fitted, pseudo, profile, gradient, factor)
        if moved is None:  # uphill by rounding alone: EM climbs whatever happens
            factor, moved = None, profile * gradient
        profile = normalise(moved)
    return _estimate(rows, weights, profile, iteration, pseudo)


def _factor_of_mode(
    rows: FloatArray, weights: FloatArray, fitted: FloatArray, pseudo: FloatArray, profile: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the Cholesky factor of minus the second derivative by log(pi), less its first-order part, and the pi.

    By log(pi), small and large masses are of one scale: the matrix is that of the reports plus the pseudo-counts.
    """
    model = (np.sqrt(weights) / fitted)[:, np.newaxis] * (rows * profile)
    matrix = model.T @ model
    matrix.flat[:: len(profile) + 1] += pseudo
    factor, info = dpotrf(matrix, overwrite_a=True)
    if info != 0:  # beyond what doubles can tell: the diagonal alone is a safe bound
        factor = np.diag(np.sqrt(matrix.sum(axis=1)))
    return factor, profile


def _step_of_mode(
    rows: FloatArray,
    weights: FloatArray,
    fitted: FloatArray,
    pseudo: FloatArray,
    profile: FloatArray,
    gradient: FloatArray,
    factor: tuple[FloatArray, FloatArray],
) -> FloatArray | None:
    """Return the masses, not normalised, after a Newton step with line search, or None if no step climbs.

    Climbs sum_s w_s log(L[s] . pi) + sum_i a_i log(pi_i) - sum_i pi_i, whose maximum has sum 1 by itself.
    """
    matrix, scale = factor
    uphill = gradient - 1
    move, _ = dpotrs(matrix, scale * uphill)
    direction = scale * move
    slope = float(uphill @ direction)
    if not slope > 0:
        return None
    by_row, by_cell = (rows @ direction) / fitted, direction / profile
    lowest = float(min(by_row.min(initial=0.0), by_cell.min()))
    length = 1.0 if lowest > -0.95 else -0.95 / lowest
    drift = float(direction.sum())
    while length > 1e-10:
        gain = weights @ np.log1p(length * by_row) + pseudo @ np.log1p(length * by_cell) - length * drift
        if gain >= 1e-4 * length * slope:
            return np.asarray(profile + length * direction)
        length /= 2
    return None


class _Climbed(NamedTuple):
    """Where Newton steps from a merged point have come to."""

    point: FloatArray
    fitted: FloatArray
    gap: float
    iterations: int
    stalled: bool


def _climb(
    rows: FloatArray,
    weights: FloatArray,
    point: FloatArray,
    representative: BoolArray,
    *,
    gap: float,
    max_iterations: int,
) -> _Climbed:
    """Take Newton steps from a merged point until the gap is reached, or no step climbs."""
    iterations, stalled = 0, False
    if (fast := kernels.compiled()) is not None:
        rows, weights, point = map(plain_floats, (rows, weights, point))
        limits = (_CANDIDATES, _CORRECTIONS, gap, max_iterations)
        here = _Climbed(*fast.climb(rows, weights, point, representative, *limits))
        if not here.stalled:
            return here
        # Now the slower way, which is the surer one, and from the start: where steps stall is no good place.
    support = np.flatnonzero(point)
    mass = point[support]
    columns = rows[:, support]
    while True:
        fitted = columns @ mass
        gradient = _gradient(rows, weights, fitted)
        excess = float(gradient.max()) - 1
        if excess <= gap or iterations >= max_iterations or stalled:
            return _Climbed(_spread(mass, support, len(point)), fitted, excess, iterations, stalled)
        iterations += 1
        entering = _candidates(gradient, support, representative)
        if entering.size:
            support = np.concatenate([support, entering])
            mass = np.concatenate([mass, np.zeros(entering.size)])
            columns = rows[:, support]
        moved = _step(columns, weights, fitted, mass, gap)
        if moved is None:
            stalled = True
            continue
        keep = moved > 0
        support, mass, columns = support[keep], moved[keep], columns[:, keep]


def _weighted(likelihoods: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the rows that have any weight, and the weights, scaled to sum to 1."""
    count = len(likelihoods)
    if count == 0:
        raise ValueError("likelihoods must have at least one row, got none")
    if weights is None:
        weights = np.full(count, 1 / count)
    else:
        weights = normalise(weights)
        if not weights.min() >= 0:
            raise ValueError(f"weights must be in [0, inf), got {weights.min()}")
        if not weights.all():
            likelihoods, weights = likelihoods[weights > 0], weights[weights > 0]
    return likelihoods, weights


def _with_pseudo_counts(
    likelihoods: FloatArray, weights: FloatArray | None, pseudo_counts: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the rows that have any weight, their weights and the pseudo-counts, scaled to sum to 1 together."""
    weights = np.ones(len(likelihoods)) if weights is None else weights
    if not (weights.min(initial=0.0) >= 0 and pseudo_counts.min() >= 0):
        least = min(weights.min(initial=0.0), pseudo_counts.min())
        raise ValueError(f"weights and pseudo_counts must be in [0, inf), got {least}")
    if not weights.all():
        likelihoods, weights = likelihoods[weights > 0], weights[weights > 0]
    total = float(weights.sum() + pseudo_counts.sum())
    if not 0 < total < np.inf:
        raise ValueError(f"total weight must be in (0, inf), got {total}")
    return likelihoods, weights / total, pseudo_counts / total


def _uniform(rows: FloatArray) -> FloatArray:
    return np.full(rows.shape[1], 1 / rows.shape[1])


def _gradient(
    rows: FloatArray,
    weights: FloatArray,
    fitted: FloatArray,
    pseudo: FloatArray | None = None,
    profile: FloatArray | None = None,
) -> FloatArray:
    """Return g, the derivative of the mean log-likelihood; refuse a point that gives some row no chance."""
    if not fitted.min(initial=np.inf) > 0:
        raise ValueError(f"every row must have likelihood in (0, inf) under the profile, got {fitted.min()}")
    slopes = (weights / fitted) @ rows
    if pseudo is None or profile is None:
        return np.asarray(slopes)
    if not (profile[pseudo > 0] > 0).all():
        raise ValueError("every cell with a pseudo-count must have mass in (0, 1] under the profile, got 0.0")
    return np.asarray(slopes + np.divide(pseudo, profile, out=np.zeros_like(slopes), where=pseudo > 0))


def _estimate(
    rows: FloatArray,
    weights: FloatArray,
    profile: FloatArray,
    iterations: int,
    pseudo: FloatArray | None = None,
) -> Estimate:
    """Return the profile with its gap measured anew, so that it is true however the profile came about."""
    profile = normalise(profile)
    profile.flags.writeable = False
    fitted = rows @ profile
    gap = float(_gradient(rows, weights, fitted, pseudo, profile).max()) - 1
    share = 1.0 if pseudo is None else float(weights.sum()) or 1.0
    return Estimate(profile, gap, iterations, float(weights @ np.log(fitted)) / share)


def _spread(mass: FloatArray, cells: IntArray, n_cells: int) -> FloatArray:
    """Return the vector over all cells that has the mass at the cells given, summed where they are the same."""
    return np.bincount(cells, weights=mass, minlength=n_cells).astype(np.float64, copy=False)


def _split(merged: FloatArray, groups: IntArray, proportions: FloatArray | None) -> FloatArray:
    """Share the mass of each group among its cells by proportions, evenly where there are none."""
    sizes = np.bincount(groups, minlength=len(groups))
    if proportions is None:
        return np.asarray(merged[groups] / sizes[groups])
    totals = _spread(proportions, groups, len(groups))[groups]
    shares = np.where(totals > 0, proportions, 1.0) / np.where(totals > 0, totals, sizes[groups])
    return np.asarray(merged[groups] * shares)


def _cold_start(rows: FloatArray, weights: FloatArray, groups: IntArray) -> FloatArray:
    """Return a merged point of small support near the answer: three EM steps, then the largest masses."""
    profile = _uniform(rows)
    for _ in range(3):
        profile = profile * _gradient(rows, weights, rows @ profile)
    merged = _spread(profile, groups, len(groups))
    if len(merged) > _COLD_SUPPORT:
        merged[np.argpartition(merged, -_COLD_SUPPORT)[:-_COLD_SUPPORT]] = 0.0
    return normalise(merged)


def _cover(rows: FloatArray, weights: FloatArray, point: FloatArray, unseen: int) -> FloatArray:
    """Give each of the last rows that the point hardly explains its weight on its likeliest cell.

    A Newton step at most doubles a row's fitted likelihood, so from nearly nothing it would take many. A row that
    the point was estimated from needs no such help: its fitted likelihood is at least its weight times its largest
    entry, or else that cell's g would be above 1. The likeliest cell found is the lowest of its group.
    """
    rows, weights = rows[len(rows) - unseen :], weights[len(weights) - unseen :]
    poor = np.flatnonzero(rows @ point < 0.01 * weights * rows.max(axis=1))
    if poor.size == 0:
        return point
    extra = _spread(weights[poor], rows[poor].argmax(axis=1), len(point))
    return np.asarray(max(0.0, 1 - float(weights[poor].sum())) * point + extra)


def _candidates(gradient: FloatArray, support: IntArray, representative: BoolArray) -> IntArray:
    """Return the columns outside the support that promise at least half of what the best one does."""
    gains = np.where(representative, gradient - 1, 0.0)
    gains[support] = 0.0
    best = np.argpartition(gains, -_CANDIDATES)[-_CANDIDATES:] if len(gains) > _CANDIDATES else np.arange(len(gains))
    return np.asarray(best[gains[best] > max(0.0, 0.5 * float(gradient.max() - 1))])


def _step(
    columns: FloatArray, weights: FloatArray, fitted: FloatArray, mass: FloatArray, gap: float
) -> FloatArray | None:
    """Return the mass after one Newton step with line search, or None if no step climbs.

    On the simplex the second-order model is |sqrt(w) (S theta - 2)|^2 / 2 with S = L / (L . pi), and there
    S theta - 2 = (S - 2) theta (Wang 2007, section 3).
    """
    model = np.sqrt(weights)[:, np.newaxis] * (columns / fitted[:, np.newaxis] - 2)
    # Without the constraint theta >= 0 the minimiser solves (model' model) theta = 1, up to scale. Warm starts
    # have the right support mostly, and then it is non-negative and so the answer, five times sooner.
    factor, level, info = dposv(model.T @ model, np.ones(mass.size))
    if info == 0 and level.min() >= 0 and np.isfinite(total := level.sum()):
        length = _line_search(fitted, columns @ (level / total), weights)
        if length == 1:
            return _corrected(columns, weights, level / total, factor, level, 0.1 * gap)
        if length > 0:
            return np.asarray((1 - length) * mass + length * (level / total))
    target = _simplex_minimiser(model)
    length = 0.0 if target is None else _line_search(fitted, columns @ target, weights)
    return None if target is None or length == 0 else (1 - length) * mass + length * target


def _corrected(
    columns: FloatArray, weights: FloatArray, mass: FloatArray, factor: FloatArray, level: FloatArray, gap: float
) -> FloatArray:
    """Go on from a full Newton step by steps with the same matrix, while they bring the slopes nearer to 1.

    Next to the answer that matrix hardly changes, and a step without a new one costs a tenth.
    """
    best, last = mass, 0.2
    for _ in range(_CORRECTIONS + 1):
        uphill = (weights / (columns @ mass)) @ columns - 1
        steepest = float(np.abs(uphill).max())
        if not steepest < 0.5 * last:
            break
        best, last = mass, steepest
        if steepest <= gap:
            break
        move, _ = dpotrs(factor, uphill)
        mass = mass + move - (move.sum() / level.sum()) * level
        if mass.min() < 0:
            break
    return best


def _simplex_minimiser(model: FloatArray) -> FloatArray | None:
    """Return the minimiser of |model @ theta|^2 over the simplex, None if it cannot be found.

    Dax (1990): one more row asks for a sum of 1; the non-negative solution, rescaled, is the minimiser.
    """
    n_columns = model.shape[1]
    matrix = np.vstack([model, np.ones(n_columns)])
    right_side = np.zeros(len(matrix))
    right_side[-1] = 1.0
    try:
        theta, _ = nnls(matrix, right_side, maxiter=10 * n_columns)
    except RuntimeError:  # out of iterations
        return None
    return theta / theta.sum() if theta.any() else None


def _line_search(fitted: FloatArray, target: FloatArray, weights: FloatArray) -> float:
    """Return the first of 1, 1/2, 1/4 ... that satisfies Armijo's rule, or 0.0 if there is no ascent."""
    direction = target - fitted
    slope = float((weights / fitted) @ direction)
    if not slope > 0:
        return 0.0
    ratio = direction / fitted
    length = 1.0
    while length > 1e-10:
        if ratio.min() * length > -1 and float(weights @ np.log1p(length * ratio)) >= 1e-4 * length * slope:
            return length
        length /= 2
    return 0.0


def _polish(rows: FloatArray, weights: FloatArray, stalled: Estimate, gap: float) -> Estimate:
    """Go on by EM from where Newton stalled, with a little mass everywhere; return the better of the two."""
    start = 0.999 * stalled.profile + 0.001 * _uniform(rows)
    slow = em(rows, start=start, weights=weights, gap=gap, max_iterations=10_000)
    return slow if slow.gap < stalled.gap else stalled
