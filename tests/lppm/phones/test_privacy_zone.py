"""Privacy zones around home."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sim.checks import check
from sim.lppm.designs.phones.circle import in_circle, pairs_within
from sim.lppm.designs.phones.privacy_zone import PrivacyZoneParameters
from sim.world import Grid, World, euclidean

GRID = Grid.rectangle(rows=21, cols=21, width_km=2.1, height_km=2.1)
"""Cells of 100 m; the cell 220 is in the middle."""
HOME = 220
DISTANCE = euclidean(GRID)
WORLD = World(locations=GRID, roads=None, privacy_distance=DISTANCE, quality_distance=DISTANCE)
ZONE = np.flatnonzero(DISTANCE.row_km(HOME) < 0.3 - 1e-9)


def channel_of(**changes: Any) -> Any:
    prior = np.full(GRID.n_cells, 1.0)
    prior[HOME] = 5.0
    return PrivacyZoneParameters(radius_m=300, **changes).build(WORLD)(prior / prior.sum())


@pytest.mark.parametrize("inside", ["drop", "centre", "border"])
def test_contract(inside: str) -> None:
    results = check("privacy_zone", parameters={"inside": inside, "radius_m": 1500.0})
    assert [result for result in results if result.problem] == []


def test_reports_in_the_zone_are_dropped() -> None:
    channel = channel_of()
    assert_array_equal(np.flatnonzero(channel.likelihood(GRID.n_cells)), ZONE)
    assert ZONE.size == 25  # cells whose centres are nearer than three steps: a Gauss circle without its rim
    for cell in (0, 100):
        assert_array_equal(np.flatnonzero(channel.likelihood(cell)), [cell])
    assert channel.space.nothing == GRID.n_cells


def test_zone_surrounds_the_most_probable_cell() -> None:
    prior = np.zeros(GRID.n_cells)
    prior[[7, 30]] = 0.4, 0.6
    channel: Any = PrivacyZoneParameters(radius_m=50).build(WORLD)(prior)
    assert_array_equal(np.flatnonzero(channel.likelihood(GRID.n_cells)), [30])


def test_reports_move_to_the_centre() -> None:
    channel = channel_of(inside="centre")
    assert_array_equal(np.flatnonzero(channel.likelihood(HOME)), ZONE)
    assert not channel.likelihood(GRID.n_cells).any()


def test_reports_move_to_the_nearest_cell_outside() -> None:
    channel = channel_of(inside="border")
    outputs = {cell: channel.sample(cell, np.random.default_rng(0)) for cell in ZONE.tolist()}
    assert not set(outputs.values()) & set(ZONE.tolist())
    outside = np.setdiff1d(np.arange(GRID.n_cells), ZONE)
    for cell, output in outputs.items():
        assert DISTANCE.between_km(cell, output) == pytest.approx(DISTANCE.row_km(cell)[outside].min())


def test_zone_without_outside_drops_everything() -> None:
    channel: Any = PrivacyZoneParameters(radius_m=9000, inside="border").build(WORLD)(np.eye(GRID.n_cells)[HOME])
    assert channel.likelihood(GRID.n_cells).all()


def test_loss_without_report_is_that_of_an_answer_for_home() -> None:
    cell = HOME + 2
    assert channel_of().loss_of_km(cell, GRID.n_cells) == pytest.approx(0.2)
    assert channel_of(drop_loss_km=7.0).expected_loss_of_km(cell) == 7.0
    assert channel_of(drop_loss_km=7.0).expected_loss_of_km(0) == 0.0


def test_circle_excludes_its_border() -> None:
    assert in_circle(GRID, HOME, 0.1).sum() == 1
    assert in_circle(GRID, HOME, 0.1001).sum() == 5


@pytest.mark.parametrize("radius_km", [0.01, 0.25, 5.0])
def test_pairs_are_those_of_the_circles(radius_km: float) -> None:
    grid = Grid.rectangle(rows=6, cols=5, width_km=1.0, height_km=0.6)
    cells, centres = pairs_within(grid, radius_km)
    expected = {(x, y) for y in range(grid.n_cells) for x in np.flatnonzero(in_circle(grid, y, radius_km)).tolist()}
    assert len(cells) == len(expected)
    assert set(zip(cells.tolist(), centres.tolist(), strict=True)) == expected
