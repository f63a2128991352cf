"""Masses of families of noise over lattice cells, and their estimates, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sim.audit.displacement import Sample
from sim.audit.families import FAMILIES, Family
from sim.audit.lattice import Axis, Lattice
from sim.audit.noise import Mass, NoiseFit, fit_noise
from sim.audit.wording import hypothesis_in_words
from sim.lppm.planar_noise import quadrant_mass
from tests.audit.mechanisms import disc, gaussian, laplace
from tests.audit.movement import people

STEP = 0.002
LATTICE = Lattice(Axis(STEP, 0.0), Axis(STEP, 0.0), metric=False)
REGULAR = [family for family in FAMILIES if not family.singular]


def _around(half: int, lat: float = 0.0003, lon: float = 0.0007) -> Sample:
    """Return all reports around one true position near the equator."""
    at = np.arange(-half, half + 1) * STEP
    row, col = (np.asarray(axis, dtype=np.float64).ravel() for axis in np.meshgrid(at, at))
    n = row.size
    return Sample(np.zeros(n, int), np.zeros(n), np.full(n, lat), np.full(n, lon), row, col)


@pytest.mark.parametrize("family", REGULAR, ids=lambda family: family.kind)
def test_masses_of_all_cells_sum_to_one(family: Family) -> None:
    sample = _around(30)
    scale = 180.0 / family.mean_distance
    total = np.exp(Mass(family, sample, LATTICE, scale)(scale)).sum()
    assert total == pytest.approx(1.0, abs=0.01 if family.norm is not None else 2e-3)


def test_laplace_masses_equal_exact_integrals() -> None:
    family, scale = FAMILIES[0], 150.0
    sample = _around(4, lat=0.0, lon=0.0)
    mass = np.exp(Mass(family, sample, LATTICE, scale)(scale))
    west, east, south, north = (side / scale for side in LATTICE.box(sample))
    quadrant = (west >= 0) & (south >= 0)
    exact = quadrant_mass(west[quadrant], east[quadrant], south[quadrant], north[quadrant])
    assert mass[quadrant] == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.kind)
def test_draws_have_the_stated_density(family: Family) -> None:
    """The mean of the draws and the integral of the density agree with the stated mean distance."""
    x, y = family.draw(40_000, np.random.default_rng(1))
    assert np.hypot(x, y).mean() == pytest.approx(family.mean_distance, rel=0.02)
    at = (np.arange(1600) + 0.5) / 100 - 8
    grid_x, grid_y = np.meshgrid(at, at)
    density = np.exp(family.log_density(grid_x, grid_y)) * 1e-4
    assert density.sum() == pytest.approx(1.0, abs=0.02)
    assert (density * np.hypot(grid_x, grid_y)).sum() == pytest.approx(family.mean_distance, rel=0.02)


def test_gaussian_estimate_is_the_root_mean_square() -> None:
    rng = np.random.default_rng(2)
    sample = gaussian(150)(people(rng, pairs=1000), rng)
    fit = fit_noise(FAMILIES[1], sample, None)
    assert fit is not None
    assert fit.scale_m == pytest.approx(math.sqrt((sample.distance_m**2).mean() / 2), rel=1e-3)
    half = 1.96 / math.sqrt(4 * len(sample))  # the information of sigma: 4 n / sigma²
    expected = fit.scale_m * (1 - half), fit.scale_m * (1 + half)
    assert np.array(fit.interval) == pytest.approx(np.array(expected), rel=2e-3)


def test_laplace_estimate_is_half_of_the_mean_distance() -> None:
    rng = np.random.default_rng(2)
    sample = laplace(200)(people(rng, pairs=1000), rng)
    fit = fit_noise(FAMILIES[0], sample, None)
    assert fit is not None
    assert fit.scale_m == pytest.approx(sample.distance_m.mean() / 2, rel=1e-3)


def test_interval_of_a_sharp_edge_is_that_of_the_largest_distance() -> None:
    rng = np.random.default_rng(2)
    sample = disc(400)(people(rng, pairs=1000), rng)
    fit = fit_noise(FAMILIES[2], sample, None)
    assert fit is not None
    assert fit.scale_m == pytest.approx(sample.distance_m.max())
    assert fit.interval[0] == pytest.approx(fit.scale_m, rel=1e-4)
    assert fit.interval[1] == pytest.approx(fit.scale_m * 0.05 ** (-1 / 2000), rel=1e-4)


def test_variants_of_noise_with_snapping_have_different_words() -> None:
    words = [hypothesis_in_words(NoiseFit(FAMILIES[0], 1.0, LATTICE, from_cell=value)) for value in (False, True)]
    assert words[1] == f"{words[0]} (before and after the noise)"
