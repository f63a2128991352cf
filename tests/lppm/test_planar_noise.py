"""Planar noise: integrals and lattice sums compared with independent computations, also in distant cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import k1e

from sim.interfaces import FloatArray
from sim.lppm.planar_noise import geometric_kernel, geometric_matrix, laplace_matrix, quadrant_mass
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=3, cols=4, width_km=4.4, height_km=2.1)
LARGER = Grid.rectangle(rows=9, cols=10, width_km=11.0, height_km=6.3)
"""The same cells with three more on every side."""


def mass(west: float, east: float, south: float, north: float) -> float:
    return float(quadrant_mass(*(np.array([side]) for side in (west, east, south, north)))[0])


@pytest.mark.parametrize(
    "sides", [(2.0, 3.0, 4.0, 5.0), (30.0, 31.0, 100.0, 101.0), (400.0, 400.5, 0.0, 0.7), (0.01, 0.02, 0.0, 0.01)]
)
def test_mass_of_a_rectangle_matches_gauss_quadrature(sides: tuple[float, float, float, float]) -> None:
    west, east, south, north = sides
    node, weight = np.polynomial.legendre.leggauss(40)
    x, y = ((low + high) / 2 + (high - low) / 2 * node for low, high in ((west, east), (south, north)))
    nearest = np.hypot(west, south)
    weights = np.exp(nearest - np.hypot(x[:, None], y))
    want = weight @ weights @ weight * (east - west) * (north - south) / (8 * np.pi)
    assert mass(*sides) / np.exp(-nearest) == pytest.approx(want, rel=1e-12)
    assert mass(south, north, west, east) == pytest.approx(mass(*sides), rel=1e-13)


@pytest.mark.parametrize(("west", "east"), [(0.0, 1.0), (1e-5, 2e-5), (3.0, 4.0), (300.0, 301.0), (600.0, np.inf)])
def test_mass_of_an_infinite_strip_matches_the_marginal(west: float, east: float) -> None:
    """The marginal density of exp(-r) / (2 pi) is x K_1(x) / pi; one quadrant has half of it."""
    scaled, _ = quad(lambda x: x * k1e(x) * np.exp(west - x) / (2 * np.pi), west, min(east, west + 60), epsrel=1e-12)
    assert mass(west, east, 0.0, np.inf) / np.exp(-west) == pytest.approx(scaled, rel=1e-11)


def test_masses_of_parts_sum_to_the_whole() -> None:
    for step in (1e-7, 1e-3, 0.4, 30.0, 1e6):
        begin = np.append(0.0, (np.arange(6) + 0.5) * step)
        end = np.append(begin[1:], np.inf)
        assert quadrant_mass(begin, end, begin[:, None], end[:, None]).sum() == pytest.approx(0.25, rel=1e-13)


@pytest.mark.parametrize("epsilon_per_km", [0.02, 1.0, 20.0])
def test_border_cell_collects_the_mass_beyond_it(epsilon_per_km: float) -> None:
    for make in (laplace_matrix, geometric_matrix):
        larger = make(LARGER, epsilon_per_km).reshape(9, 10, 9, 10)[3:-3, 3:-3]
        rows, cols = np.clip(np.arange(9) - 3, 0, 2), np.clip(np.arange(10) - 3, 0, 3)
        folded = np.zeros((3, 4, 3, 4))
        for row, col in np.ndindex(9, 10):
            folded[:, :, rows[row], cols[col]] += larger[:, :, row, col]
        np.testing.assert_allclose(make(GRID, epsilon_per_km), folded.reshape(12, 12), rtol=1e-11)


def test_renormalise_scales_the_mass_inside_the_grid() -> None:
    inside = laplace_matrix(LARGER, 0.7).reshape(9, 10, 9, 10)[3:-3, 3:-3, 3:-3, 3:-3].reshape(12, 12)
    want = inside / inside.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(laplace_matrix(GRID, 0.7, "renormalise"), want, rtol=1e-12)
    assert laplace_matrix(GRID, 0.0, "renormalise").tolist() == np.full((12, 12), 1 / 12).tolist()


def test_infinite_noise_ends_in_the_corners() -> None:
    corners = np.zeros(12)
    corners[[0, 3, 8, 11]] = 0.25
    for make in (laplace_matrix, geometric_matrix):
        np.testing.assert_allclose(make(GRID, 0.0), np.tile(corners, (12, 1)), atol=1e-15)
        np.testing.assert_allclose(make(GRID, 1e-8), np.tile(corners, (12, 1)), atol=1e-6)
    line = Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0)
    assert laplace_matrix(line, 0.0)[1].tolist() == pytest.approx([0.5, 0, 0.5])
    assert laplace_matrix(Grid.rectangle(rows=1, cols=1, width_km=1, height_km=1), 1.0).tolist() == [[1.0]]


@pytest.mark.parametrize(("epsilon_per_km", "steps"), [(0.05, 700), (1.0, 60), (40.0, 12)])
def test_lattice_sums_match_sums_over_points(epsilon_per_km: float, steps: int) -> None:
    grid = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.2)
    matrix = geometric_matrix(grid, epsilon_per_km)
    points = np.arange(-steps, steps + 1)
    for cell in (0, 4):
        row, col = divmod(cell, 3)
        weights = np.exp(-epsilon_per_km * np.hypot((points[:, None] - row) * 1.1, points - col))
        by_row = np.add.reduceat(weights, [0, steps + 1], axis=0)
        want = np.add.reduceat(by_row, [0, steps + 1, steps + 2], axis=1).ravel()
        np.testing.assert_allclose(matrix[cell], want / weights.sum(), rtol=1e-11)


def test_ends_of_a_line_collect_the_mass_beyond_them() -> None:
    for epsilon in (0.0, 0.3, 4.0):
        points = np.arange(-400, 404)
        kernel = geometric_kernel(4, epsilon)
        assert kernel.sum(axis=1) == pytest.approx(1)
        if epsilon == 0:
            assert kernel.tolist() == [[0.5, 0, 0, 0.5]] * 4
            continue
        weights: FloatArray = np.exp(-epsilon * np.abs(points - 1.0))
        want = np.bincount(np.clip(points, 0, 3), weights) / weights.sum()
        np.testing.assert_allclose(kernel[1], want, rtol=1e-12)
    assert geometric_kernel(1, 2.0).tolist() == [[1.0]]


def test_large_epsilon_has_no_noise() -> None:
    for make in (laplace_matrix, geometric_matrix):
        np.testing.assert_allclose(make(GRID, 1e6), np.eye(12), atol=1e-100)


@pytest.mark.parametrize("epsilon", [-1.0, np.inf, np.nan])
def test_epsilon_out_of_range_is_rejected(epsilon: float) -> None:
    for make in (laplace_matrix, geometric_matrix):
        with pytest.raises(ValueError, match=rf"^epsilon\b.*{epsilon}$"):
            make(GRID, epsilon)
    with pytest.raises(ValueError, match=rf"^epsilon\b.*{epsilon}$"):
        geometric_kernel(3, epsilon)


def test_qif_computes_the_same_noise() -> None:
    """The package qif integrates over cells with a relative accuracy of 1e-3 and supports square grids only."""
    qif = pytest.importorskip("qif", reason="qif is not installed")
    grid = Grid.rectangle(rows=4, cols=4, width_km=2.0, height_km=2.0)
    for epsilon in (0.8, 2.0):
        geometric = np.array(qif.mechanism.geo_ind.planar_geometric_grid(4, 4, 0.5, epsilon))
        np.testing.assert_allclose(geometric_matrix(grid, epsilon), geometric, rtol=1e-5)
        laplace = np.array(qif.mechanism.geo_ind.planar_laplace_grid(4, 4, 0.5, epsilon))
        np.testing.assert_allclose(laplace_matrix(grid, epsilon), laplace, rtol=1e-3)
        line = np.array(qif.mechanism.d_privacy.geometric(5, epsilon))
        np.testing.assert_allclose(geometric_kernel(5, epsilon), line, rtol=1e-12)
