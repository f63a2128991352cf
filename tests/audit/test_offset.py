"""Filters of offsets against the joint Gaussian density and exact integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from sim.audit.displacement import Sample, metres_per_degree_east
from sim.audit.offset_filter import box_log_mass, constant_box_log_mass, kalman_log_density
from tests.audit.movement import M_PER_DEGREE

HOURS = np.array([0.0, 0.5, 2.0, 9.0, 30.0])


def _sample(dx: list[float], dy: list[float]) -> Sample:
    n = len(dx)
    lat, lon = np.full(n, 10.0), np.full(n, 20.0)
    east = metres_per_degree_east(lat)
    return Sample(
        np.zeros(n, int), HOURS[:n] * 3600, lat, lon, lat + np.array(dy) / M_PER_DEGREE, lon + np.array(dx) / east
    )


def test_kalman_filter_equals_the_joint_density() -> None:
    sd, drift, white = 200.0, 70.0, 30.0
    sample = _sample([120, 90, 160, -40, 10.0], [-60, -20, 5, 90, 130.0])
    tau = 2 * sd**2 / drift**2
    covariance = sd**2 * np.exp(-np.abs(HOURS[:, None] - HOURS) / tau) + white**2 * np.eye(5)
    joint = multivariate_normal(np.zeros(5), covariance)
    exact = joint.logpdf(sample.dx_m) + joint.logpdf(sample.dy_m)
    assert kalman_log_density(sample, sd, drift, white).sum() == pytest.approx(exact, abs=1e-6)


def test_constant_offset_in_boxes_equals_the_mass_of_the_intersection() -> None:
    sample = _sample([0.0] * 4, [0.0] * 4)
    low, high = np.array([-100.0, -50, -300, 0]), np.array([400.0, 500, 80, 200])
    exact = math.log(norm.cdf(80 / 150) - norm.cdf(0))
    assert constant_box_log_mass(sample, low, high, 150.0).sum() == pytest.approx(exact, abs=1e-9)


def test_drifting_offset_in_boxes_equals_simulation() -> None:
    sd, drift = 150.0, 60.0
    tau = 2 * sd**2 / drift**2
    sample = _sample([0.0, 700.0, -900.0, 500.0], [0.0] * 4)  # no report repeats the previous one
    low, high = np.array([-100.0, -50, -300, 0]), np.array([400.0, 500, 80, 200])
    rng = np.random.default_rng(4)
    covariance = sd**2 * np.exp(-np.abs(HOURS[:4, None] - HOURS[:4]) / tau)
    draws = rng.multivariate_normal(np.zeros(4), covariance, 400_000)
    share = ((draws >= low) & (draws <= high)).all(axis=1).mean()
    repeat = 4 * math.log(0.98)
    both = box_log_mass(sample, np.tile(low, (2, 1)), np.tile(high, (2, 1)), sd, drift).sum() / 2
    assert both - repeat == pytest.approx(math.log(share), abs=0.05)
