"""Hidden privacy zones, against enumeration of the centres."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pydantic import ValidationError

from sim.checks import check
from sim.events import Report
from sim.lppm.designs.phones.circle import in_circle
from sim.lppm.designs.phones.hidden_zone import HiddenZone
from sim.lppm.designs.phones.privacy_zone import PrivacyZoneParameters
from sim.world import Grid, World, euclidean
from tests.lppm.validation import codes

GRID = Grid.rectangle(rows=4, cols=5, width_km=1.0, height_km=0.8)
RADIUS_KM = 0.29
WORLD = World(locations=GRID, roads=None, privacy_distance=euclidean(GRID), quality_distance=euclidean(GRID))
N = GRID.n_cells
INSIDE = np.array([in_circle(GRID, centre, RADIUS_KM) for centre in range(N)])
"""Whether each cell is in the zone around each centre, [centre, cell]."""


@pytest.mark.parametrize("place", ["hidden", "random"])
def test_contract(place: str) -> None:
    results = check("privacy_zone", parameters={"place": place, "radius_m": 1200.0})
    assert [result for result in results if result.problem] == []


def report(output: int) -> Report:
    return Report("ann", 1, 0, output, None)


@pytest.mark.parametrize("seed", range(4))
def test_tracker_is_exact_for_independent_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(N))
    centre = int(rng.integers(N))
    tracker = HiddenZone(GRID, RADIUS_KM, random_centre=False).tracker()
    weights = np.full(N, 1 / N)
    for cell in rng.choice(N, size=25, p=prior).tolist():
        output = N if INSIDE[centre, cell] else cell
        # f(z | x, s) of all pairs [centre, cell]
        emission = INSIDE.astype(float) if output == N else np.where(np.arange(N) == cell, ~INSIDE, False).astype(float)
        expected = weights @ emission
        likelihood = tracker.likelihood(report(output), prior, None)
        assert_allclose(likelihood, expected, atol=1e-12)
        weights = weights * (emission @ prior)
        weights /= weights.sum()
        tracker.condition(likelihood * prior / (likelihood @ prior))
        assert_allclose(tracker.centres, weights, atol=1e-12)
    assert weights[centre] > 1 / N


def test_contradiction_forgets_the_past() -> None:
    tracker = HiddenZone(GRID, 0.1, random_centre=False).tracker()
    prior = np.full(N, 1 / N)
    for cell in range(N):  # a zone of one cell somewhere, but all cells are reported
        likelihood = tracker.likelihood(report(cell), prior, None)
        assert likelihood[cell] > 0
        tracker.condition(np.eye(N)[cell])
    assert_allclose(tracker.centres.sum(), 1)


def test_secret_is_the_home_of_the_belief() -> None:
    design = PrivacyZoneParameters(place="hidden", radius_m=1000 * RADIUS_KM).build(WORLD)
    prior = np.full(N, 1.0)
    prior[7] = 2.0
    channel: Any = design(prior / prior.sum())
    assert design.hidden_state is channel.hidden_state is not None
    secret, rng = None, np.random.default_rng(0)
    for cell in range(N):
        output, secret = design.hidden_state.draw(secret, channel, 0, cell, rng)
        assert secret == 7
        assert output == (N if INSIDE[7, cell] else cell)


def test_random_centres_have_the_published_distances() -> None:
    """OpenBikeSensor draws the distance uniformly from 0.1 to 0.9 radii."""
    fine = Grid.rectangle(rows=201, cols=201, width_km=2.01, height_km=2.01)
    zone = HiddenZone(fine, 0.04, random_centre=True)
    zone.radius_km = 1.0
    home, rng = 100 * 201 + 100, np.random.default_rng(1)
    centres = np.array([zone.centre(home, rng) for _ in range(3000)])
    east, north = fine.x_km[centres] - fine.x_km[home], fine.y_km[centres] - fine.y_km[home]
    away_km = np.hypot(east, north)
    assert away_km.min() == pytest.approx(0.1, abs=0.01)
    assert away_km.max() == pytest.approx(0.9, abs=0.01)
    assert away_km.mean() == pytest.approx(0.5, abs=0.015)
    assert away_km.std() == pytest.approx(0.8 / np.sqrt(12), abs=0.01)
    assert abs(east.mean()) < 0.03
    assert abs(north.mean()) < 0.03


def test_channel_without_memory_has_a_uniform_centre() -> None:
    channel: Any = PrivacyZoneParameters(place="random", radius_m=1000 * RADIUS_KM).build(WORLD)(np.full(N, 1 / N))
    assert_allclose(channel.likelihood(N), INSIDE.mean(axis=0))
    assert_allclose(channel.likelihood(3), np.eye(N)[3] * (1 - INSIDE[:, 3].mean()))


@pytest.mark.parametrize("inside", ["centre", "border"])
def test_hidden_zones_drop(inside: Any) -> None:
    with pytest.raises(ValidationError) as error:
        PrivacyZoneParameters(place="hidden", inside=inside)
    assert codes(error.value) == ["exclusive-keys"]
