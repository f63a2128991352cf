"""The protocol of the families of hypotheses, and intervals by profile likelihood.

Likelihoods of different hypotheses are compared as probabilities of the same events. A report is the event that it is
in its lattice cell or, without a lattice, within a square of `ATOM_M2`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import minimize_scalar

from sim.audit.displacement import Sample
from sim.interfaces import FloatArray, Generator

ATOM_M2 = 0.01
"""Area in square metres of the event of a report without a lattice."""
RARE = 1e-6
"""Probability of a report that a deterministic hypothesis excludes, before it is spread over the places."""
REGULAR_DROP = 1.92
"""Half of the 95 % quantile of chi-squared with one degree of freedom."""
SHARP_DROP = -math.log(0.05)
"""The same for the edge of a uniform density, whose likelihood ratio has an exponential distribution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A parameter with its 95 % confidence interval."""

    name: str
    value: float
    low: float
    high: float
    unit: str = ""


class Fit(Protocol):
    """A hypothesis with fitted parameters."""

    @property
    def kind(self) -> str:
        """Name of the mechanism."""

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Parameters, the main one first."""

    @property
    def n_free(self) -> int:
        """Number of fitted parameters."""

    def log_mass(self, sample: Sample) -> FloatArray:
        """Return the log probability of each report given the true positions and the earlier reports, shape (n,)."""

    def simulate(self, sample: Sample, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return displacements in metres, drawn for the true positions of a sample."""

    def memoryless(self) -> Fit:
        """Return the same mechanism without its memory, for attacks that treat reports separately."""


class Hypothesis(Protocol):
    """A family of mechanisms that can be fitted."""

    def fit(self, sample: Sample) -> Fit | None:
        """Return the fitted mechanism, or None if it does not apply to these pairs."""


def maximised(log_likelihood: Callable[[float], float], guess: float, *, reach: float = 8.0, points: int = 33) -> float:
    """Return the positive scale that maximises a log-likelihood within a factor of a guess.

    >>> round(maximised(lambda scale: -10 * math.log(scale) - 20 / scale, 1.0), 2)
    2.0
    """
    scales = np.log(guess) + np.linspace(-math.log(reach), math.log(reach), points)
    values = np.array([log_likelihood(math.exp(scale)) for scale in scales])
    best = int(np.nanargmax(np.where(np.isfinite(values), values, -np.inf)))
    bounds = scales[max(best - 1, 0)], scales[min(best + 1, points - 1)]
    optimum = minimize_scalar(
        lambda scale: -_finite(log_likelihood(math.exp(scale))),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-3},
    )
    return float(math.exp(optimum.x if -optimum.fun > values[best] else scales[best]))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else -1e300


def profile_interval(
    log_likelihood: Callable[[float], float], best: float, *, most: float = math.inf, drop: float = REGULAR_DROP
) -> tuple[float, float]:
    """Return the interval where the log-likelihood of a positive parameter is within `drop` of its maximum.

    >>> low, high = profile_interval(lambda scale: -10 * math.log(scale) - 20 / scale, 2.0)
    >>> round(low, 2), round(high, 2)
    (1.14, 3.99)
    """
    limit = log_likelihood(best) - drop
    return _crossing(log_likelihood, best, limit, -1.0, most), _crossing(log_likelihood, best, limit, 1.0, most)


def _crossing(
    log_likelihood: Callable[[float], float], best: float, limit: float, direction: float, most: float
) -> float:
    step = 0.01
    while step < 5 and _finite(log_likelihood(min(best * math.exp(direction * step), most))) > limit:
        step *= 2
        if direction > 0 and best * math.exp(step) >= most:
            return most if _finite(log_likelihood(most)) > limit else _bisected(log_likelihood, best, limit, step, most)
    low, high = 0.0 if step == 0.01 else step / 2, step
    for _ in range(12):
        middle = (low + high) / 2
        if _finite(log_likelihood(best * math.exp(direction * middle))) > limit:
            low = middle
        else:
            high = middle
    return float(best * math.exp(direction * high))


def _bisected(log_likelihood: Callable[[float], float], best: float, limit: float, step: float, most: float) -> float:
    low, high = 0.0, min(step, math.log(most / best))
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if _finite(log_likelihood(best * math.exp(middle))) > limit else (low, middle)
    return float(best * math.exp(high))


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval of a share.

    >>> tuple(round(bound, 3) for bound in share_interval(50, 100))
    (0.404, 0.596)
    """
    if total == 0:
        return 0.0, 1.0
    z2 = 1.96**2
    share = count / total
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = 1.96 / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
    return max(0.0, middle - half), min(1.0, middle + half)
