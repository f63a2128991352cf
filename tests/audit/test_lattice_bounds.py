"""Bounds of lattices and of offsets contain the true values and are attained."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sim.audit.displacement import M_PER_DEGREE, Sample, metres_per_degree_east
from sim.audit.lattice import Axis, Lattice, find_axis
from sim.audit.lattice_bounds import axis_bounds
from sim.audit.offset import fit_offset
from sim.audit.offset_length import mean_length

STEP, ORIGIN = 1000 / 111_195, 0.0041


def _rounded(rng: np.random.Generator) -> np.ndarray:
    """Return rounded latitudes on lines that are some 5,000 steps from the origin."""
    return np.asarray((ORIGIN + STEP * rng.choice(np.arange(5080, 5110), 12, replace=False)).round(6))


@pytest.mark.parametrize("seed", range(20))
def test_bounds_of_a_rounded_axis_contain_the_truth(seed: int) -> None:
    axis = find_axis(_rounded(np.random.default_rng(seed)))
    assert axis is not None
    bounds = axis.bounded
    ratio = round(axis.step / STEP)  # coarser if all indices have a common divisor
    assert bounds.step.low <= ratio * STEP <= bounds.step.high
    middle = round((bounds.line.value - ORIGIN) / STEP)
    assert bounds.line.low <= ORIGIN + middle * STEP <= bounds.line.high
    assert bounds.line.high - bounds.line.low < 3e-6
    if ratio == 1:
        extrapolated = ORIGIN - round((ORIGIN - axis.origin) / STEP) * STEP
        assert bounds.origin.low <= extrapolated <= bounds.origin.high


def test_bounds_equal_the_vertices_of_the_feasible_set() -> None:
    index, tolerance = np.array([40, 43, 47, 52]), 0.1
    values = 2.0 + 0.5 * index + np.array([0.05, -0.08, 0.02, 0.06])
    lines = [(k, v + sign * tolerance) for k, v in zip(index, values, strict=True) for sign in (-1, 1)]
    vertices = []
    for (k, a), (m, b) in itertools.combinations(lines, 2):
        if k != m:
            step = (b - a) / (m - k)
            origin = a - k * step
            if (np.abs(values - origin - index * step) <= tolerance + 1e-12).all():
                vertices.append((step, origin))
    steps, origins = np.array(vertices).T
    bounds = axis_bounds(values, index, 0.5, 2.0, tolerance)
    assert (bounds.step.low, bounds.step.high) == pytest.approx((steps.min(), steps.max()))
    assert (bounds.origin.low, bounds.origin.high) == pytest.approx((origins.min(), origins.max()))


def _offset_then_snapped(offsets: np.ndarray) -> tuple[Sample, Lattice]:
    """Return positions of users at a few places, displaced and snapped to a grid of 1 km."""
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(len(offsets)), 200)
    places = rng.uniform(-0.05, 0.05, (len(offsets), 12, 2))
    which = rng.integers(0, 12, user.size)
    lat, lon = 45.7 + places[user, which, 0], 4.8 + places[user, which, 1]
    lattice = Lattice(Axis(STEP, ORIGIN), Axis(STEP, ORIGIN), metric=False)
    north, east = offsets[user].T
    sent = lattice.snap(lat + north / M_PER_DEGREE, lon + east / metres_per_degree_east(lat))
    return Sample(user, np.tile(60.0 * np.arange(200), len(offsets)), lat, lon, *sent), lattice


def test_mean_length_of_offsets_before_a_grid_contains_the_truth() -> None:
    offsets = np.array([[400.0, -250], [-300, 500], [150, 620]])
    sample, lattice = _offset_then_snapped(offsets)
    length = mean_length(sample, lattice, 0.05)
    true = np.hypot(*offsets.T).mean()
    assert length.low < true < length.high < length.low + 400
    assert length.low < length.value < length.high
    fit = fit_offset(sample, lattice)
    assert fit is not None
    assert length in fit.estimates


def test_mean_length_is_unknown_if_no_constant_offset_is_possible() -> None:
    sample, lattice = _offset_then_snapped(np.array([[400.0, -250], [-300, 500]]))
    sample.sent_lat[7] += 3 * STEP
    assert np.isnan(mean_length(sample, lattice, 0.05).low)
