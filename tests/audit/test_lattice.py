"""Lattices are found with their step and origin, and only where there are any."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.audit.displacement import Sample
from sim.audit.lattice import Lattice, find_axis, find_lattice
from tests.audit.mechanisms import decimals, gaussian, in_turn, metric_grid, precision_bits, truncated_decimals
from tests.audit.movement import people


@settings(deadline=None, max_examples=50)
@given(
    step=st.floats(1e-4, 0.1),
    origin=st.floats(-50, 50),
    index=st.lists(st.integers(-300, 300), min_size=40, max_size=80, unique=True),
)
def test_axis_is_recovered(step: float, origin: float, index: list[int]) -> None:
    values = origin + step * np.array(index)
    axis = find_axis(values)
    assert axis is not None
    ratio = axis.step / step
    assert ratio == pytest.approx(round(ratio), abs=1e-4)  # coarser if all indices have a common divisor
    assert round(ratio) == math.gcd(*np.diff(np.array(index)).tolist())
    assert np.abs(axis.value(axis.index(values)) - values).max() < 1e-6


def test_continuous_values_have_no_lattice() -> None:
    values = 37 + np.random.default_rng(3).uniform(0, 0.2, 2000)
    assert find_axis(values) is None


def _found(release: object) -> tuple[Sample, Lattice]:
    rng = np.random.default_rng(5)
    sample = release(people(rng, users=5, pairs=500), rng)  # type: ignore[operator]
    lattice = find_lattice(sample)
    assert lattice is not None
    return sample, lattice


@pytest.mark.parametrize(
    ("release", "step", "metric"),
    [
        (decimals(3), 1e-3, False),
        (precision_bits(16), 2**16 * 1e-7, False),
        (metric_grid(1000), 1000 / 111_000, True),
        (in_turn(gaussian(300), metric_grid(500)), 500 / 111_000, True),
    ],
)
def test_lattice_of_a_mechanism(release: object, step: float, metric: bool) -> None:
    _, lattice = _found(release)
    assert np.array([lattice.lat.step, lattice.lon.step]) == pytest.approx(np.full(2, step), rel=1e-6)
    assert lattice.metric == metric


def test_snapping_reproduces_the_reports() -> None:
    for release in (decimals(2), truncated_decimals(2), metric_grid(1000), precision_bits(14)):
        sample, lattice = _found(release)
        lat, lon = lattice.snap(sample.lat, sample.lon)
        same = (np.abs(lat - sample.sent_lat) < 1e-6) & (np.abs(lon - sample.sent_lon) < 1e-6)
        assert same.mean() > 0.99


def test_rounding_down_shifts_the_cells() -> None:
    _, lattice = _found(truncated_decimals(2))
    assert (lattice.shift_lat, lattice.shift_lon) == (0.5, 0.5)
