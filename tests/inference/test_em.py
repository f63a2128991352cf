"""Expectation-maximisation compared with the paper's update."""

from __future__ import annotations

import numpy as np
import pytest

from sim.inference.em import em
from tests.inference.problems import PROBLEMS

pytestmark = pytest.mark.usefixtures("numpy_and_numba")


def test_em_takes_the_papers_step_and_never_lowers_the_likelihood() -> None:
    rows = PROBLEMS["exponential 1"]
    profile = np.full(rows.shape[1], 1 / rows.shape[1])
    before = -np.inf
    for steps in range(1, 30):
        posteriors = [profile * row / sum(profile * row) for row in rows]
        profile = sum(posteriors) / len(rows)
        estimate = em(rows, gap=1e-12, max_iterations=steps)
        assert estimate.iterations == steps
        assert estimate.profile == pytest.approx(profile, abs=1e-12)
        assert estimate.log_likelihood > before
        before = estimate.log_likelihood
