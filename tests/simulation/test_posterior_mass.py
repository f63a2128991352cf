"""Posterior mass around the true cell: against a sum over all cells, and in the log of a run."""

from __future__ import annotations

import numpy as np
import pytest

from sim.analysis.answers.located import distances_km, posterior_mass_within
from sim.simulation.posterior_mass import RADII_KM, PosteriorMass
from sim.world.grid import Grid

GRIDS = {
    "cells of 100 m": (7, 90, 9.0, 0.7),
    "cells of 1 km": (5, 6, 6.0, 5.0),
    "oblong cells": (30, 9, 3.3, 1.7),
    "a single cell": (1, 1, 1.0, 1.0),
}


@pytest.mark.parametrize("size", GRIDS.values(), ids=GRIDS)
def test_mass_as_summed_over_all_cells(size: tuple[int, int, float, float]) -> None:
    rows, cols, width_km, height_km = size
    grid = Grid.rectangle(rows=rows, cols=cols, width_km=width_km, height_km=height_km)
    at = np.column_stack([grid.x_km, grid.y_km])
    mass = PosteriorMass(grid)
    posterior = np.random.default_rng(1).dirichlet(np.ones(grid.n_cells))
    for cell in range(grid.n_cells):
        apart = distances_km(at, at[cell])
        expected = [float(posterior_mass_within(posterior, apart, radius)) for radius in RADII_KM]
        assert mass.around(posterior, cell) == pytest.approx(expected, rel=1e-12)
        assert (np.diff(mass.around(posterior, cell)) >= 0).all()
