"""Distances within a radius, and guesses without any report."""

from __future__ import annotations

import numpy as np
import pytest

from sim.analysis.answers.located import best_guess, coverage, distances_km, random_success, within
from sim.world import Grid


def test_coverage_against_all_pairs() -> None:
    rng = np.random.default_rng(1)
    places, guesses, weights = rng.uniform(0, 5, (40, 2)), rng.uniform(0, 5, (30, 2)), rng.uniform(0, 1, 40)
    inside = within(distances_km(guesses[:, None], places[None]), 1.3)
    np.testing.assert_allclose(coverage(places, weights, guesses, 1.3), inside @ weights)
    assert best_guess(places, weights, guesses, 1.3) == (inside @ weights).argmax()
    np.testing.assert_allclose(random_success(places, guesses, 1.3), inside.mean(axis=0))


def test_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    places, weights = rng.uniform(0, 5, (40, 2)), rng.uniform(0, 1, 40)
    whole = coverage(places, weights, places, 2.0)
    monkeypatch.setattr("sim.analysis.answers.located._PAIRS", 100)
    np.testing.assert_allclose(coverage(places, weights, places, 2.0), whole)


def test_border_of_cells_counts() -> None:
    """Centres of cells that are exactly one radius apart are within it, whatever the rounding."""
    grid = Grid.rectangle(rows=1, cols=30, width_km=3.0, height_km=0.1)
    centres = np.column_stack([grid.x_km, grid.y_km])
    assert within(distances_km(centres[1:], centres[:-1]), 0.1).all()
    assert coverage(centres, np.ones(30), centres, 0.1).tolist() == [2, *[3] * 28, 2]
    assert not within(np.array([np.nan, 0.11]), 0.1).any()


def test_nothing_to_cover() -> None:
    assert coverage(np.zeros((0, 2)), np.zeros(0), np.zeros((3, 2)), 1.0).tolist() == [0, 0, 0]
