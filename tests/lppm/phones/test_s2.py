"""Centres of S2 cells, against Android's test vector, published statistics and a scalar reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sim.lppm.designs.phones.s2 import mean_area_km2, s2_centres

TIMES_SQUARE = 40.758896, -73.985130


def test_test_vector_of_android() -> None:
    """The vector of `LocationFudgerTest`: the cell 8c around Times Square."""
    lat, lon = s2_centres(np.array([TIMES_SQUARE[0]]), np.array([TIMES_SQUARE[1]]), 1)
    assert_allclose((lat[0], lon[0]), (21.037511025421814, -67.38013505195958), rtol=1e-14)


@pytest.mark.parametrize(("level", "edge_km"), [(0, 9220.14), (1, 4610.07), (4, 576.26), (8, 36.02), (12, 2.25)])
def test_mean_edges_are_those_in_android(level: int, edge_km: float) -> None:
    """The table `S2_CELL_AVG_EDGE_PER_LEVEL` of `LocationFudger`."""
    assert math.sqrt(mean_area_km2(level)) == pytest.approx(edge_km, rel=2e-3)


def test_centre_is_in_the_same_cell_on_every_level() -> None:
    rng = np.random.default_rng(2)
    lat, lon = np.degrees(np.arcsin(rng.uniform(-1, 1, 2000))), rng.uniform(-180, 180, 2000)
    for level in (0, 1, 5, 12, 20):
        centre = s2_centres(lat, lon, level)
        assert_allclose(s2_centres(*centre, level), centre, atol=1e-9)
        assert len(np.unique(np.round(np.stack(centre), 6), axis=1).T) <= 6 * 4**level


def test_levels_may_differ_by_position() -> None:
    lat, lon = np.array([48.1, 48.1]), np.array([11.5, 11.5])
    both = s2_centres(lat, lon, np.array([3, 12]))
    for index, level in enumerate((3, 12)):
        assert_allclose(np.array(both)[:, index], np.ravel(s2_centres(lat[:1], lon[:1], level)))


def _reference(lat: float, lon: float, level: int) -> tuple[float, float]:
    """Return the centre by the formulas of the S2 library for one point, face by face."""
    north, east = math.radians(lat), math.radians(lon)
    x, y, z = math.cos(north) * math.cos(east), math.cos(north) * math.sin(east), math.sin(north)
    sizes = [abs(x), abs(y), abs(z)]
    face = sizes.index(max(sizes))
    face += 3 * ((x, y, z)[face] < 0)
    u, v = [
        lambda: (y / x, z / x),
        lambda: (-x / y, z / y),
        lambda: (-x / z, -y / z),
        lambda: (z / x, y / x),
        lambda: (z / y, -x / y),
        lambda: (-y / z, -x / z),
    ][face]()
    leaves = [
        math.floor(2**30 * (0.5 * math.sqrt(1 + 3 * w) if w >= 0 else 1 - 0.5 * math.sqrt(1 - 3 * w))) for w in (u, v)
    ]
    s, t = [((leaf >> (30 - level)) + 0.5) / 2**level for leaf in leaves]
    u, v = [(4 * w * w - 1) / 3 if w >= 0.5 else (1 - 4 * (1 - w) ** 2) / 3 for w in (s, t)]
    a, b, c = [(1, u, v), (-u, 1, v), (-u, -v, 1), (-1, -v, -u), (v, -1, -u), (v, u, -1)][face]
    return math.degrees(math.atan2(c, math.hypot(a, b))), math.degrees(math.atan2(b, a))


def test_all_faces_match_the_formulas_of_the_library() -> None:
    rng = np.random.default_rng(3)
    lat, lon = rng.uniform(-89, 89, 600), rng.uniform(-180, 180, 600)
    for level in (2, 12):
        expected = np.array([_reference(*position, level) for position in zip(lat, lon, strict=True)]).T
        assert_allclose(s2_centres(lat, lon, level), expected, atol=1e-9)
