"""The locations of the world of a run as a frame."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sim.storage.manifest import RunManifest
from sim.storage.worlds import grid_at, has_degrees


def locations(manifest: RunManifest, point: int = 0) -> pd.DataFrame:
    """Return a row per location with its number in the log and its position; degrees are NaN in a plane in km."""
    grid = grid_at(manifest, point)
    lat, lon = grid.to_degrees(grid.x_km, grid.y_km) if has_degrees(grid) else np.full((2, grid.n_cells), np.nan)
    columns = {"cell": np.arange(grid.n_cells), "x_km": grid.x_km, "y_km": grid.y_km, "lat": lat, "lon": lon}
    return pd.DataFrame(columns)
