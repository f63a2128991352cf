"""Tiles of maps of locations that are not the cells of a grid."""

from __future__ import annotations

import numpy as np
import pytest

from sim.analysis.map_frame import MapFrame
from sim.analysis.tiles import Squares
from sim.interfaces import Generator
from sim.world import LocationSet


@pytest.fixture
def rng() -> Generator:
    return np.random.default_rng(4)


def scattered(rng: Generator, count: int, *, width_km: float = 10.0, height_km: float = 3.0) -> LocationSet:
    x_km, y_km = rng.uniform(0, width_km, count), rng.uniform(0, height_km, count)
    return LocationSet(kind="points", x_km=x_km, y_km=y_km, width_km=width_km, height_km=height_km)


def test_every_location_belongs_to_the_square_of_its_position(rng: Generator) -> None:
    locations = scattered(rng, 500)
    squares, frame = Squares.of(locations, most=60), MapFrame.of(locations)
    assert squares is not None
    assert 40 <= squares.rows * squares.cols <= 60
    row, col = np.divmod(squares.square, squares.cols)
    for at, low, number in ((locations.x_km, frame.west_km, col), (locations.y_km, frame.south_km, row)):
        away = (at - low) / squares.side_km - number
        assert away.min() >= 0
        assert away.max() <= 1
    values = rng.random((3, 500))
    sums = squares.sums(values)
    assert sums.shape == (3, squares.rows * squares.cols)
    tile = int(squares.square[7])
    np.testing.assert_allclose(sums[:, tile], values[:, squares.square == tile].sum(axis=1))
    np.testing.assert_allclose(sums.sum(axis=1), values.sum(axis=1))


def test_few_locations_are_not_summed(rng: Generator) -> None:
    assert Squares.of(scattered(rng, 60), most=60) is None


@pytest.mark.parametrize(("count", "width_km", "height_km"), [(1, 0.0, 0.0), (2, 9.0, 0.0), (50, 1e-9, 700.0)])
def test_frames_contain_all_locations_and_are_never_empty(
    count: int, width_km: float, height_km: float, rng: Generator
) -> None:
    locations = scattered(rng, count, width_km=width_km, height_km=height_km)
    frame = MapFrame.of(locations)
    for at, low, size in (
        (locations.x_km, frame.west_km, frame.width_km),
        (locations.y_km, frame.south_km, frame.height_km),
    ):
        assert (low < at).all()
        assert (at < low + size).all()
    sides = sorted((frame.width_km, frame.height_km))
    assert 0 < sides[1] <= 4 * sides[0] * (1 + 1e-12)
    assert 0 < frame.spacing_km <= 0.05 * sides[1] * (1 + 1e-12)
