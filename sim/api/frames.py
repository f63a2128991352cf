"""Trace files and frames of other packages, one call each way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd


def traces_from_frame(
    frame: Any,
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    user: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a frame of positions as a trace file, which the mobility model `replay` reads.

    Parameters
    ----------
    frame
        Data frame of pandas or ``TrajDataFrame`` of scikit-mobility with columns for user, time (or order), lat and
        lon; ``TrajectoryCollection`` or ``Trajectory`` of MovingPandas; positionfixes of trackintel; or another
        ``GeoDataFrame`` of points, whose times may be the index. Other coordinate reference systems become degrees.
    path
        File to write, NAME.parquet.
    columns
        Names of the columns ``user``, ``time``, ``order``, ``lat`` and ``lon`` that are not recognised.
    user
        User of all rows, for a frame without one.
    overwrite
        Replace an existing file.

    Returns
    -------
    Path
        The file. Times without a time zone are taken as UTC; an invalid row is an error.

    Examples
    --------
    >>> import pandas as pd, tempfile, sim
    >>> frame = pd.DataFrame({"uid": [1, 1], "datetime": ["2024-05-01 08:05", "2024-05-01 08:00"],
    ...                       "lat": [48.1, 48.2], "lng": [11.5, 11.6]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = sim.traces_from_frame(frame, f"{folder}/traces.parquet")
    ...     sim.traces_to_frame(file)["lat"].tolist()
    [48.2, 48.1]
    """
    from sim.datasets.frames import write_frame

    return write_frame(frame, path, columns=columns, user=user, overwrite=overwrite)


def traces_to_frame(traces: str | Path | pd.DataFrame, form: str = "pandas") -> Any:
    """Return the positions of a trace file as a frame of pandas or of another package.

    Parameters
    ----------
    traces
        Trace file with degrees, or a data frame with ``user``, ``time``, ``lat`` and ``lon``.
    form
        "pandas", "scikit-mobility" (``TrajDataFrame``), "movingpandas" (``TrajectoryCollection``) or "trackintel"
        (``Positionfixes``). The package must be installed.

    Returns
    -------
    DataFrame, TrajDataFrame, TrajectoryCollection or Positionfixes
        In order of user and time; times are UTC, without a time zone for scikit-mobility and MovingPandas.
    """
    from sim.datasets.frames import read_frame

    return read_frame(traces, form)
