"""Families of noise in the plane with one scale: standard densities, estimates and draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from sim.interfaces import FloatArray, Generator


@dataclass(frozen=True, slots=True)
class Family:
    """Noise whose density at displacement d is g(d / scale) / scale²."""

    kind: str
    parameter: str
    """Name of the scale in metres."""
    log_density: Callable[[FloatArray, FloatArray], FloatArray]
    """log g of displacements at scale 1; -inf outside the support."""
    draw: Callable[[int, Generator], tuple[FloatArray, FloatArray]]
    """Displacements at scale 1."""
    mean_distance: float
    """Mean length of a displacement at scale 1."""
    norm: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    """Least scale at which displacements are in the support, for densities with a sharp edge."""
    singular: bool = False
    """Whether the density is infinite at 0; such a family is not integrated over the cells of a lattice."""
    axis_cdf: Callable[[FloatArray], FloatArray] | None = None
    """Distribution function of one axis at scale 1, if the axes are independent."""


def _inside(value: FloatArray, norm: FloatArray) -> FloatArray:
    return np.where(norm <= 1.0, value, -np.inf)


def _polar(radius: FloatArray, rng: Generator) -> tuple[FloatArray, FloatArray]:
    angle = rng.uniform(0.0, 2 * math.pi, radius.size)
    return radius * np.cos(angle), radius * np.sin(angle)


def _log_one_over_circle(radius: FloatArray) -> FloatArray:
    return -np.log(2 * math.pi * np.maximum(radius, 1e-4))


def _square(x: FloatArray, y: FloatArray) -> FloatArray:
    return np.maximum(np.abs(x), np.abs(y))


def _laplace_cdf(x: FloatArray) -> FloatArray:
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, tail, 1 - tail)


def _normal_cdf(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + erf(x / math.sqrt(2))))


def _uniform_cdf(x: FloatArray) -> FloatArray:
    return np.clip((x + 1) / 2, 0.0, 1.0)


def _draw_axes(
    draw: Callable[[int, Generator], FloatArray],
) -> Callable[[int, Generator], tuple[FloatArray, FloatArray]]:
    return lambda n, rng: (draw(n, rng), draw(n, rng))


FAMILIES = (
    Family(
        kind="planar_laplace",
        parameter="scale_m",
        log_density=lambda x, y: -math.log(2 * math.pi) - np.hypot(x, y),
        draw=lambda n, rng: _polar(rng.gamma(2.0, 1.0, n), rng),
        mean_distance=2.0,
    ),
    Family(
        kind="gaussian",
        parameter="sigma_m",
        log_density=lambda x, y: -math.log(2 * math.pi) - (x**2 + y**2) / 2,
        draw=_draw_axes(lambda n, rng: rng.normal(size=n)),
        mean_distance=math.sqrt(math.pi / 2),
        axis_cdf=_normal_cdf,
    ),
    Family(
        kind="uniform_disc",
        parameter="radius_m",
        log_density=lambda x, y: _inside(np.full_like(x, -math.log(math.pi)), np.hypot(x, y)),
        draw=lambda n, rng: _polar(np.sqrt(rng.uniform(size=n)), rng),
        mean_distance=2 / 3,
        norm=np.hypot,
    ),
    Family(
        kind="uniform_square",
        parameter="half_side_m",
        log_density=lambda x, y: _inside(np.full_like(x, -math.log(4.0)), _square(x, y)),
        draw=_draw_axes(lambda n, rng: rng.uniform(-1.0, 1.0, n)),
        mean_distance=0.7652,
        norm=_square,
        axis_cdf=_uniform_cdf,
    ),
    Family(
        kind="uniform_distance",
        parameter="radius_m",
        log_density=lambda x, y: _inside(_log_one_over_circle(np.hypot(x, y)), np.hypot(x, y)),
        draw=lambda n, rng: _polar(rng.uniform(size=n), rng),
        mean_distance=0.5,
        norm=np.hypot,
        singular=True,
    ),
    Family(
        kind="exponential_distance",
        parameter="scale_m",
        log_density=lambda x, y: _log_one_over_circle(np.hypot(x, y)) - np.hypot(x, y),
        draw=lambda n, rng: _polar(rng.exponential(1.0, n), rng),
        mean_distance=1.0,
        singular=True,
    ),
    Family(
        kind="laplace_by_axis",
        parameter="scale_m",
        log_density=lambda x, y: -math.log(4.0) - np.abs(x) - np.abs(y),
        draw=_draw_axes(lambda n, rng: rng.laplace(size=n)),
        mean_distance=1 + math.asinh(1) / math.sqrt(2),
        axis_cdf=_laplace_cdf,
    ),
)
"""Planar Laplace has epsilon = 1 / scale. `uniform_distance` and `exponential_distance` draw the distance, not the
point, uniformly or exponentially, with a uniform direction."""
