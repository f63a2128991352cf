"""Theoretical metrics of mechanisms whose outputs are replaced by the best points of the plane, without n x n objects.

Locations are scattered, losses and errors are Euclidean, and each output z is replaced by the geometric median of its
posterior in the whole plane (Oya et al., CCS 2017, Sect. 3). One likelihood f(z | .) is needed at a time: exactly, over
all outputs of a finite channel, or for sampled outputs of continuous noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from sim.inference.geometric_median import best_point, tangent
from sim.interfaces import FloatArray, Generator, IntArray

_BLOCK_NUMBERS = 2**20  # distances of a block: 8 MB
_NEGLIGIBLE = 1e-25  # weights relative to the largest that change no sum by more than its rounding error
_LEAST_LOG = -600.0  # of a likelihood, since arithmetic with subnormal numbers is slow


class PlaneOutput(NamedTuple):
    """An output in the plane with its likelihood."""

    x_km: float
    y_km: float
    likelihood: FloatArray
    """f(z | .), shape (n_cells,)."""


Median = Callable[[FloatArray, FloatArray, FloatArray], tuple[float, float]]
"""The point that replaces an output, given weights and positions of locations."""


class PlaneTheory(NamedTuple):
    """Metrics of a mechanism before and after its outputs are replaced by the best points of the plane."""

    loss_without_remap_km: float
    """Expected distance from the location to the output."""
    loss_km: float
    """Expected distance from the location to the point that replaces the output. With exact medians it equals P_AE,
    the error of the optimal estimate in the plane: each such point is its own optimal estimate."""
    entropy_bits: float
    """H(x | z), the remaining uncertainty about the location given the output."""


class SampledPlaneTheory(NamedTuple):
    """Estimates of `PlaneTheory` from sampled outputs."""

    mean: PlaneTheory
    deviation: PlaneTheory
    """Standard deviation of a single draw."""
    draws: int

    @property
    def error(self) -> PlaneTheory:
        """Return the standard errors of the means."""
        return PlaneTheory(*(deviation / self.draws**0.5 for deviation in self.deviation))


class Noise(NamedTuple):
    """Noise in the plane whose direction is uniform."""

    radii_km: Callable[[Generator, int], FloatArray]
    """Draws distances from the location to the output."""
    log_density: Callable[[FloatArray], FloatArray]
    """Logarithm of the density at distances in km, up to a constant."""


def posterior_metrics(
    weights: FloatArray,
    x_km: FloatArray,
    y_km: FloatArray,
    *,
    at_x_km: float,
    at_y_km: float,
    median: Median = best_point,
) -> PlaneTheory:
    """Return the metrics given an output at a point, all times its mass; weights(x) = prior(x) f(z | x).

    >>> line = np.array([0.0, 1.0, 2.0])
    >>> posterior_metrics(np.array([0.25, 0.5, 0.25]), line, np.zeros(3), at_x_km=2.0, at_y_km=0.0)
    PlaneTheory(loss_without_remap_km=1.0, loss_km=0.5, entropy_bits=1.5)
    """
    support = np.flatnonzero(weights > _NEGLIGIBLE * weights.max())
    if support.size == 0:
        return PlaneTheory(0.0, 0.0, 0.0)
    weights, x_km, y_km = weights[support], x_km[support], y_km[support]
    before_km = tangent(x_km, y_km, weights, at_x_km, at_y_km).cost_km
    after_km = tangent(x_km, y_km, weights, *median(weights, x_km, y_km)).cost_km
    return PlaneTheory(before_km, after_km, _entropy_bits(weights))


def plane_theory(
    outputs: Iterable[PlaneOutput],
    prior: FloatArray,
    x_km: FloatArray,
    y_km: FloatArray,
    *,
    median: Median = best_point,
) -> PlaneTheory:
    """Return the exact metrics of a channel from all of its outputs; their likelihoods sum to 1 for each location.

    Outputs that are replaced by the same point count as different ones: H(x | z) is that before the remap, as in Oya
    et al. 2017. The other metrics do not depend on it.
    """
    each = [
        posterior_metrics(prior * likelihood, x_km, y_km, at_x_km=at_x_km, at_y_km=at_y_km, median=median)
        for at_x_km, at_y_km, likelihood in outputs
    ]
    return PlaneTheory(*np.sum(each, axis=0).tolist())


def exponential_outputs(x_km: FloatArray, y_km: FloatArray, *, epsilon_per_km: float) -> Iterator[PlaneOutput]:
    """Yield the locations as outputs of f(z | x) ∝ exp(-epsilon |x - z|), with memory for a block of distances.

    `epsilon_per_km` is in [0, inf). The first pass over all pairs computes the normalising constants of the rows.
    """
    cells = np.arange(x_km.size)
    blocks = np.array_split(cells, max(1, -(-(x_km.size**2) // _BLOCK_NUMBERS)))

    def decay(block: IntArray) -> FloatArray:
        away_km = np.hypot(x_km[block, None] - x_km, y_km[block, None] - y_km)
        logs = np.multiply(away_km, -epsilon_per_km, out=away_km)
        return np.exp(np.maximum(logs, _LEAST_LOG, out=logs), out=logs)

    norms = np.concatenate([decay(block).sum(axis=1) for block in blocks])
    for block in blocks:
        for cell, row in zip(block.tolist(), decay(block), strict=True):
            yield PlaneOutput(float(x_km[cell]), float(y_km[cell]), row / norms)


def coin_theory(
    prior: FloatArray, x_km: FloatArray, y_km: FloatArray, *, loss_km: float, median: Median = best_point
) -> PlaneTheory:
    """Return the metrics of the coin with an expected loss: the location itself, or the best point h of the prior.

    `loss_km` is in [0, P0], where P0 is the expected loss of reporting h always. Every other report is certain.
    """
    x, y = median(prior, x_km, y_km)
    most_km = tangent(x_km, y_km, prior, x, y).cost_km
    if not 0 <= loss_km <= most_km:
        raise ValueError(f"loss_km must be in [0, {most_km}], the loss of the best point, got {loss_km}")
    share = loss_km / most_km if most_km > 0 else 0.0
    certain = (x_km == x) & (y_km == y)  # a location at h is always reported as h
    weights = np.where(certain, prior, share * prior)
    return posterior_metrics(weights, x_km, y_km, at_x_km=x, at_y_km=y, median=median)


def laplace(epsilon_per_km: float) -> Noise:
    """Return planar Laplace noise, whose density is proportional to exp(-epsilon r); `epsilon_per_km` is in (0, inf).

    Andrés et al. 2013: the distance has a gamma distribution with shape 2.
    """
    return Noise(
        radii_km=lambda rng, draws: rng.gamma(2.0, 1 / epsilon_per_km, draws),
        log_density=lambda away_km: -epsilon_per_km * away_km,
    )


def sampled_plane_theory(
    noise: Noise, prior: FloatArray, x_km: FloatArray, y_km: FloatArray, *, draws: int, rng: Generator
) -> SampledPlaneTheory:
    """Return the metrics of continuous noise from `draws` >= 2 locations of the prior with an output each.

    Losses are those of the drawn location; the entropy is that of the posterior given the output.
    """
    support = np.flatnonzero(prior)
    prior, x_km, y_km = prior[support] / prior[support].sum(), x_km[support], y_km[support]
    log_prior = np.log(prior)
    cells = rng.choice(prior.size, draws, p=prior)
    radii_km, angles = noise.radii_km(rng, draws), rng.uniform(0.0, 2 * np.pi, draws)
    at_x_km, at_y_km = x_km[cells] + radii_km * np.cos(angles), y_km[cells] + radii_km * np.sin(angles)
    metrics = np.empty((draws, len(PlaneTheory._fields)))
    for draw, (cell, x, y) in enumerate(zip(cells.tolist(), at_x_km.tolist(), at_y_km.tolist(), strict=True)):
        logs = log_prior + noise.log_density(np.hypot(x - x_km, y - y_km))
        near = logs > logs.max() + np.log(_NEGLIGIBLE)
        posterior = np.exp(logs[near] - logs.max())
        posterior /= posterior.sum()
        best_x, best_y = best_point(posterior, x_km[near], y_km[near])
        away_km = np.hypot(best_x - x_km[cell], best_y - y_km[cell])
        metrics[draw] = radii_km[draw], away_km, _entropy_bits(posterior)
    mean, deviation = metrics.mean(axis=0).tolist(), metrics.std(axis=0, ddof=1).tolist()
    return SampledPlaneTheory(PlaneTheory(*mean), PlaneTheory(*deviation), draws)


def _entropy_bits(weights: FloatArray) -> float:
    """Return the entropy of a distribution times its mass."""
    positive = weights[weights > 0]
    return float(positive @ (np.log2(positive.sum()) - np.log2(positive)))
