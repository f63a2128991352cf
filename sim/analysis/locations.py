"""The locations of the world of a run as a frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sim.storage.manifest import RunManifest
from sim.storage.worlds import locations_at


def locations(manifest: RunManifest, point: int = 0) -> pd.DataFrame:
    """Return a row per location: its number in the log, its position, and its label and weight where they exist.

    Degrees are NaN in a plane in km.
    """
    world = locations_at(manifest, point)
    x_km, y_km = world.x_km, world.y_km
    lat, lon = np.full((2, world.n_cells), np.nan) if world.bounds is None else world.to_degrees(x_km, y_km)
    columns: dict[str, Any] = {"cell": np.arange(world.n_cells), "x_km": x_km, "y_km": y_km, "lat": lat, "lon": lon}
    optional = {"label": world.labels, "weight": world.weights}
    return pd.DataFrame(columns | {name: values for name, values in optional.items() if values is not None})
