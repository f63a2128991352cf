"""Points from a file, such as points of interest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import pandas as pd
from pydantic import model_validator

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.components.spec import Positive, Spec
from sim.errors import InvalidValue
from sim.interfaces import FloatArray
from sim.world.locations import Bounds, Locations, LocationSet
from sim.world.parameters import MOST_CELLS, LocationParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

_ACCEPTED: dict[str, tuple[str, ...]] = {
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "long", "longitude"),
    "weight": ("weight", "prior", "visits", "count"),
    "label": ("label", "name", "category"),
}
"""Names, in any case, by which columns are recognised."""
_MOST_LAT = 85.0
_MOST_KM = 20_000.0


class PointColumns(Spec):
    """Names of the columns of a file of points (default: the usual names are recognised)."""

    lat: str | None = None
    """Column with latitudes in degrees."""
    lon: str | None = None
    """Column with longitudes in degrees."""
    x_km: str | None = None
    """Column with positions in km towards the east. With `y_km`, it replaces latitudes and longitudes."""
    y_km: str | None = None
    """Column with positions in km towards the north."""
    weight: str | None = None
    """Column with weights in [0, inf), such as numbers of visits."""
    label: str | None = None
    """Column with labels, such as names or categories."""

    @model_validator(mode="after")
    def _both_axes(self) -> Self:
        for one, other in (("x_km", "y_km"), ("lat", "lon")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise InvalidValue(
                    f"`{one}` and `{other}` are required together, found one of them", code="missing-key"
                )
        if self.x_km is not None and self.lat is not None:
            raise InvalidValue("`x_km` replaces `lat`: found both, remove one pair", code="exclusive-keys")
        return self


@component("locations")
class PointsParameters(LocationParameters):
    """Points from a CSV or Parquet file, such as points of interest; a position belongs to the nearest point."""

    kind: Literal["points"] = "points"
    file: FileName
    """CSV or Parquet file with a row per point: lat and lon in degrees, optionally a weight and a label. Coordinates in
    km are named in `columns`."""
    columns: PointColumns = PointColumns()
    """Names of the columns in the file (default: the usual names)."""
    reach_km: Positive = 1.0
    """Largest distance in km between a position and its point; positions farther from every point are outside."""

    @property
    def on_earth(self) -> bool:
        """Whether the points are given in degrees."""
        return self.columns.x_km is None

    def locate(self, place: Place, roads_on: Callable[[Locations], Roads]) -> Locations:  # noqa: ARG002
        """Read the points."""
        return read_points(place.locate(self.file), self.columns, reach_km=self.reach_km)


def read_points(path: Path, columns: PointColumns | None = None, *, reach_km: float = 1.0) -> LocationSet:
    """Read a file of points in degrees or, if `columns` names `x_km` and `y_km`, in km."""
    table = _Table(path, columns or PointColumns())
    weights = None if table.named("weight") is None else table.numbers("weight", 0.0, np.inf)
    labels = table.labels()
    if table.columns.x_km is not None:
        x_km, y_km = (table.numbers(name, -_MOST_KM, _MOST_KM) for name in ("x_km", "y_km"))
        x_km, y_km, bounds = x_km - x_km.min(), y_km - y_km.min(), None
    else:
        lat, lon = table.degrees()
        bounds = Bounds(*(float(bound) for bound in (lat.min(), lat.max(), lon.min(), lon.max())))
        x_km, y_km = bounds.to_km(lat, lon)
    return LocationSet(
        kind="points",
        x_km=x_km,
        y_km=y_km,
        width_km=float(np.ptp(x_km)),
        height_km=float(np.ptp(y_km)),
        bounds=bounds,
        labels=labels,
        weights=weights,
        reach_km=reach_km,
    )


def positions_on(path: Path, columns: PointColumns, locations: Locations) -> tuple[FloatArray, FloatArray]:
    """Return the positions of the rows of a file in km east and north of the south-west corner of some locations."""
    table = _Table(path, columns)
    if columns.x_km is not None:
        return table.numbers("x_km", -_MOST_KM, _MOST_KM), table.numbers("y_km", -_MOST_KM, _MOST_KM)
    return locations.to_km(*table.degrees())


def positions_in_degrees(path: Path) -> tuple[FloatArray, FloatArray]:
    """Return latitudes and longitudes of the rows of a file."""
    return _Table(path, PointColumns()).degrees()


class _Table:
    """A file of points and the names of its columns."""

    def __init__(self, path: Path, columns: PointColumns) -> None:
        self.path, self.columns = path, columns
        try:
            self.frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype=str)
        except (ValueError, OSError) as error:  # pandas' and pyarrow's errors are subclasses
            raise InvalidValue(
                f"{path}: not a readable CSV or Parquet file: {error}", code="unreadable-file"
            ) from error
        if not 1 <= len(self.frame) <= MOST_CELLS:
            raise InvalidValue(
                f"{path}: must have 1 to {MOST_CELLS:,} points, found {len(self.frame):,}",
                code="wrong-number-of-points",
            )

    def named(self, name: str) -> str | None:
        """Return the column of the file for a content; None if there is none."""
        if (given := getattr(self.columns, name)) is not None:
            if given not in self.frame:
                raise InvalidValue(
                    f"{self.path}: no column {given} for {name}, found {', '.join(map(str, self.frame.columns))}",
                    code="no-such-column",
                )
            return str(given)
        lower = {str(column).lower().strip(): str(column) for column in reversed(self.frame.columns)}
        return next((lower[option] for option in _ACCEPTED.get(name, ()) if option in lower), None)

    def numbers(self, name: str, low: float, high: float) -> FloatArray:
        """Return a column as numbers in [low, high]; raise `InvalidValue` with the first bad rows otherwise."""
        column = self.named(name)
        if column is None:
            raise InvalidValue(
                f"{self.path}: no column for {name} ({', '.join(_ACCEPTED[name])}), found "
                f"{', '.join(map(str, self.frame.columns))}; name it with `columns: {{{name}: NAME}}`",
                code="no-such-column",
            )
        values = pd.to_numeric(self.frame[column], errors="coerce").to_numpy(np.float64)
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= low) & (values <= high)))
        if bad.size:
            others = f", and {bad.size - 1:,} more" if bad.size > 1 else ""
            raise InvalidValue(
                f"{self.path}, row {bad[0] + 1}: {column} must be a number in [{low:g}, {high:g}], found "
                f"{self.frame[column].iloc[bad[0]]!r}{others}",
                code="invalid-row",
            )
        return values

    def degrees(self) -> tuple[FloatArray, FloatArray]:
        """Return latitudes and longitudes."""
        return self.numbers("lat", -_MOST_LAT, _MOST_LAT), self.numbers("lon", -180.0, 180.0)

    def labels(self) -> tuple[str, ...] | None:
        """Return the labels, empty where there is none; None without such a column."""
        column = self.named("label")
        return None if column is None else tuple(self.frame[column].fillna("").astype(str))
