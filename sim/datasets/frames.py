"""Frames of pandas, scikit-mobility, MovingPandas and trackintel, from and to trace files.

Frames are recognised by their columns and attributes, so that none of the packages is needed to read one.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from sim.datasets import trace_file
from sim.datasets.formats.columns import rows_of
from sim.datasets.sorting import SortedRows
from sim.errors import InputError
from sim.mobility.recorded.columns import ACCEPTED, find_columns
from sim.storage.atomic import atomic_file

WGS84 = "EPSG:4326"
_MOST_SHOWN = 5
_USERS = (*ACCEPTED["user"], "traj_id", "trajectory_id", "obj_id")


def write_frame(
    frame: Any,
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    user: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a frame as a trace file and return its path; raise InputError for invalid rows."""
    out = trace_file.checked_destination(path, overwrite=overwrite)
    plain = plain_frame(frame, user=user)
    if plain.empty:
        raise InputError("the frame has no rows", code="empty-file")
    try:
        names = find_columns([str(name) for name in plain.columns], dict(columns or {}), degrees=True)
        if "lat" not in names:
            raise ValueError("no columns for lat and lon")
    except ValueError as error:
        problem = str(error).partition("; name ")[0]
        raise InputError(f"the frame has {problem}; name them with columns={{...}}", code="no-such-column") from error
    plain.columns = plain.columns.map(str)
    table = pa.Table.from_pandas(plain[list(dict.fromkeys(names.values()))], preserve_index=False)
    batch = rows_of(table, names)
    if batch.faults:
        shown = "; ".join(f"row {row}: {reason}" for row, reason in batch.faults[:_MOST_SHOWN])
        raise InputError(f"{len(batch.faults):,} rows of the frame are invalid: {shown}", code="invalid-row")
    _write(out, batch.table, timed="time" in names, kind=type(frame))
    return out


def _write(path: Path, table: pa.Table, *, timed: bool, kind: type) -> None:
    rows = SortedRows(folder=path.parent)
    try:
        rows.add(table, "time_s" if timed else "order")
        parts = [part.drop_columns(["row", "fraction"]) for part in rows.parts()]
        with atomic_file(path) as file, trace_file.Writer(file, rows.users, timed=timed) as writer:
            for part in parts:
                writer.add(part)
            writer.notes = {
                "source": f"{kind.__module__.partition('.')[0]}.{kind.__name__}",
                "region": None,
                "lppm_sim": version("lppm-sim"),
                "counts": {"kept": rows.n_rows, "users": len(rows.users)},
            }
    finally:
        rows.close()


def plain_frame(frame: Any, *, user: str | None = None) -> pd.DataFrame:
    """Return a frame of any package as a data frame with columns of users, times and degrees."""
    if hasattr(frame, "trajectories"):  # TrajectoryCollection of MovingPandas
        parts = [_of_trajectory(one) for one in frame.trajectories]
        plain = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    elif hasattr(frame, "df") and hasattr(frame, "id"):  # Trajectory of MovingPandas
        plain = _of_trajectory(frame)
    elif not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"found {type(frame).__name__}, expected a data frame of pandas, scikit-mobility, trackintel or "
            "MovingPandas, or a TrajectoryCollection",
            code="not-a-frame",
        )
    elif hasattr(frame, "geometry") and hasattr(frame, "crs"):
        plain = _of_points(frame)
    else:
        plain = pd.DataFrame(frame)
    return plain if user is None else plain.assign(user=user)[["user", *(c for c in plain.columns if c != "user")]]


def _of_trajectory(trajectory: Any) -> pd.DataFrame:
    """Return the points of a trajectory; its user is the moving object, else the trajectory."""
    name = getattr(trajectory, "obj_id", None)
    return _of_points(trajectory.df).assign(user=str(trajectory.id if name is None else name))


def _of_points(frame: Any) -> pd.DataFrame:
    """Return a GeoDataFrame of points with times in a column or as the index."""
    points = frame.geometry
    if not points.geom_type.eq("Point").all():
        kinds = ", ".join(sorted(set(points.geom_type.dropna()))) or "empty geometries"
        raise InputError(f"the geometries must be points, found {kinds}", code="invalid-column")
    if points.crs is not None and points.crs != WGS84:
        points = points.to_crs(WGS84)
    plain = pd.DataFrame({"lat": points.y.to_numpy(), "lon": points.x.to_numpy()})
    lower = {str(name).lower(): name for name in frame.columns}
    if (users := next((lower[name] for name in _USERS if name in lower), None)) is not None:
        plain["user"] = frame[users].to_numpy()
    times = next((lower[name] for name in ("tracked_at", *ACCEPTED["time"]) if name in lower), None)
    if times is not None:
        plain["time"] = _utc(frame[times])
    elif isinstance(frame.index, pd.DatetimeIndex):
        plain["time"] = _utc(frame.index.to_series())
    return plain


def _utc(times: pd.Series) -> Any:
    """Return times without their index."""
    return times.array if pd.api.types.is_datetime64_any_dtype(times) else times.to_numpy()


def read_frame(traces: str | Path | pd.DataFrame, form: str = "pandas") -> Any:
    """Return the rows of a trace file as a frame of pandas or of one of the packages in `FORMS`."""
    if form not in FORMS:
        raise InputError(f"form must be one of {', '.join(FORMS)}, got {form!r}", code="unknown-form")
    return FORMS[form](_rows(Path(traces)) if not isinstance(traces, pd.DataFrame) else traces)


def _rows(path: Path) -> pd.DataFrame:
    """Return user, time (UTC) or order, lat and lon."""
    if not path.is_file():
        raise InputError(f"{path} does not exist: name a trace file", code="file-not-found")
    traces = trace_file.read(path)
    if traces.cell is not None:
        raise InputError(f"{path} has cells without degrees, which the frame cannot hold", code="no-coordinates")
    user = np.array(traces.users, dtype=object)[traces.user]
    when = pd.to_datetime(traces.when, unit="s", utc=True) if traces.timed else traces.when
    return pd.DataFrame({"user": user, "time" if traces.timed else "order": when, "lat": traces.lat, "lon": traces.lon})


def _package(name: str, form: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own imports
            return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"form {form} needs the package {form}: install it with pip install {form}", code="missing-extra"
        ) from error


def _timed(rows: pd.DataFrame, form: str) -> pd.DataFrame:
    if "time" not in rows:
        raise InputError(f"the traces have an order but no times, which {form} requires", code="times-missing")
    return rows


def _to_skmob(rows: pd.DataFrame) -> Any:
    skmob = _package("skmob", "scikit-mobility")
    frame = _timed(rows, "scikit-mobility").rename(columns={"lon": "lng", "time": "datetime", "user": "uid"})
    frame["datetime"] = frame["datetime"].dt.tz_localize(None)  # scikit-mobility has times without a zone
    return skmob.TrajDataFrame(frame)


def _points(rows: pd.DataFrame, form: str, geometry: str) -> Any:
    geopandas = _package("geopandas", form)
    points = geopandas.points_from_xy(rows["lon"], rows["lat"], crs=WGS84)
    return geopandas.GeoDataFrame(_timed(rows, form).drop(columns=["lat", "lon"]).assign(**{geometry: points}),
                                  geometry=geometry, crs=WGS84)  # fmt: skip


def _to_movingpandas(rows: pd.DataFrame) -> Any:
    package = _package("movingpandas", "movingpandas")
    counts = rows["user"].value_counts()
    if single := int((counts < 2).sum()):
        warnings.warn(
            f"{single:,} of {counts.size:,} users have one row only: MovingPandas has no trajectory for them",
            UserWarning,
            stacklevel=4,
        )
    frame = _points(rows, "movingpandas", "geometry").set_index("time")
    frame.index = frame.index.tz_localize(None)  # MovingPandas has times without a zone
    return package.TrajectoryCollection(frame, traj_id_col="user")


def _to_trackintel(rows: pd.DataFrame) -> Any:
    package = _package("trackintel", "trackintel")
    frame = _points(rows, "trackintel", "geom").rename(columns={"user": "user_id", "time": "tracked_at"})
    return package.Positionfixes(frame)


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda rows: rows,
    "scikit-mobility": _to_skmob,
    "movingpandas": _to_movingpandas,
    "trackintel": _to_trackintel,
}
"""Conversions of a data frame with user, time, lat and lon, by the name of the package."""
