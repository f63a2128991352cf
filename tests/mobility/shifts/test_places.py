"""Shares, mixtures and draws of cells."""

from __future__ import annotations

import numpy as np
import pytest

from sim.mobility.shifts.places import drawn, mixed, share_of_new
from tests.mobility.shifts.city import rng


@pytest.mark.parametrize(
    ("parameters", "share"),
    [
        ({"start": 2, "stop": 6}, [0, 0, 1, 1, 1, 1]),
        ({"start": 2, "stop": 4}, [0, 0, 1, 1, 0, 0]),
        ({"start": 2, "stop": 4, "weight": 0.4}, [0, 0, 0.4, 0.4, 0, 0]),
        ({"start": 1, "stop": 6, "over": 3}, [0, 0.25, 0.5, 0.75, 1, 1]),
        ({"start": 1, "stop": 4, "over": 3, "weight": 0.4}, [0, 0.1, 0.2, 0.3, 0, 0]),
        ({"start": 0, "stop": 6, "over": 0}, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_the_share_of_new_places_by_hand(parameters: dict[str, float], share: list[float]) -> None:
    np.testing.assert_allclose(share_of_new(6, **parameters), share, atol=1e-15)  # type: ignore[arg-type]


def test_a_mixture_has_the_given_share_of_new_cells() -> None:
    n = 40_000
    share = share_of_new(n, start=n // 4, stop=3 * n // 4, over=n // 4, weight=0.6)
    cells = mixed(np.zeros(n, dtype=int), np.ones(n, dtype=int), share, rng())
    quarters = cells.reshape(4, -1).mean(axis=1)
    assert quarters[0] == quarters[3] == 0
    np.testing.assert_allclose(quarters[1:3], [0.3, 0.6], atol=4 * 0.5 / np.sqrt(n / 4))


def test_shares_of_zero_and_one_use_no_random_numbers() -> None:
    generator = rng()
    mixed(np.arange(4), np.arange(4), np.array([0.0, 0, 1, 1]), generator)
    assert generator.random() == rng().random()


def test_independent_draws_follow_the_weights() -> None:
    frequencies = np.bincount(drawn(np.array([1.0, 0.0, 3.0]), 20_000, rng()), minlength=3) / 20_000
    assert frequencies[1] == 0
    np.testing.assert_allclose(frequencies, [0.25, 0, 0.75], atol=0.015)
