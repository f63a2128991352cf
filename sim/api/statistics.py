"""Training statistics and traces in Python: from cells, histograms, frames, files and scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sim.api.parameters import validated
from sim.components.files import Place
from sim.errors import InputError, input_errors
from sim.interfaces import FloatArray
from sim.mobility.recorded.replay import ReplayParameters
from sim.mobility.statistics import Statistics, count, statistics
from sim.mobility.traces import Trace
from sim.scenario.models import Scenario
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from sim.world import World


def make_statistics(
    traces: pd.DataFrame | Trace | Iterable[Trace] | ArrayLike | Sequence[ArrayLike],
    *,
    world: World,
    restart_s: int | None = None,
) -> Statistics:
    """Count the cells of traces, and the transitions between them.

    Parameters
    ----------
    traces
        A frame with a column ``cell`` and optional columns ``user`` and ``time_s`` (rows in order of time for each
        user); a list or array of the cells of one user, shape (n_queries,); a list of such lists, one per user; or
        `Trace` objects. Transitions never cross users.
    world
        World that the cells belong to; cells are in [0, n_cells).
    restart_s
        Period, in s, that transitions do not cross: 86400 for days, as with ``markov_restart: daily``. Needs times.

    Returns
    -------
    Statistics
        `profile` (histogram), `start_profile` and `transition`, each of probabilities.

    Examples
    --------
    >>> import sim
    >>> world = sim.make_world("rectangle", rows=1, cols=3, width_km=3, height_km=1)
    >>> trained = sim.make_statistics([0, 1, 0, 0], world=world)
    >>> trained.profile.tolist(), trained.transition[0].tolist()
    ([0.75, 0.25, 0.0], [0.5, 0.5, 0.0])
    """
    if restart_s is not None and not _has_times(traces):
        raise InputError(
            f"restart_s={restart_s} needs times, got cells alone: pass a frame with a column time_s",
            code="times-missing",
        )
    parts = _traces(traces)
    pooled = len({trace.user for trace in parts}) > 1
    return count(parts, n_cells=world.n_cells, restart_s=restart_s).statistics(pooled=pooled)


def statistics_of(training: Statistics | ArrayLike | None, world: World, name: str) -> Statistics:
    """Return statistics given as such, as a histogram over the cells, or, for None, without data (uniform)."""
    n_cells = world.n_cells
    if training is None:
        return statistics([], n_cells=n_cells)
    if isinstance(training, Statistics):
        if training.n_cells != n_cells:
            raise ValueError(f"{name} must have the {n_cells} cells of the world, got {training.n_cells}")
        return training
    return Statistics(profile=_profile(training, n_cells, name), n_visits=0, pairs=_NONE, counts=_NONE)


_NONE = np.zeros(0, dtype=np.int64)


def _profile(histogram: ArrayLike, n_cells: int, name: str) -> FloatArray:
    weights = np.asarray(histogram, dtype=np.float64)
    if weights.shape != (n_cells,):
        raise ValueError(
            f"{name} must be Statistics or a histogram of shape ({n_cells},), got shape {weights.shape}; "
            "for a list of cells use sim.make_statistics(cells, world=world)"
        )
    total = weights.sum()
    if not np.isfinite(total) or (weights < 0).any() or total <= 0:
        raise ValueError(f"{name} must be a histogram of finite weights in [0, inf) with a positive sum, got {weights}")
    return np.asarray(weights / total, dtype=np.float64)


def _has_times(traces: Any) -> bool:
    if isinstance(traces, pd.DataFrame):
        return "time_s" in traces
    first = traces[0] if isinstance(traces, Sequence) and len(traces) else traces
    return isinstance(first, Trace)


def _traces(traces: Any) -> list[Trace]:
    """Return traces given in any of the forms of `make_statistics`."""
    if isinstance(traces, Trace):
        return [traces]
    if isinstance(traces, pd.DataFrame):
        return _of_frame(traces)
    parts = list(traces)
    if all(isinstance(part, Trace) for part in parts):
        return parts
    if any(np.ndim(part) for part in parts):
        return [_of_cells(part, f"user {number}") for number, part in enumerate(parts, start=1)]
    return [_of_cells(parts, "user 1")]


def _of_cells(cells: ArrayLike, user: str) -> Trace:
    array = np.asarray(cells)
    return Trace(user, np.arange(array.size), array if array.size else _NONE)


def _of_frame(frame: pd.DataFrame) -> list[Trace]:
    if "cell" not in frame:
        raise InputError(
            f"the frame must have a column cell, got {', '.join(map(str, frame.columns))}; "
            "world.locations.cell_of(lat, lon) returns the cells of coordinates",
            code="no-such-column",
        )
    groups: Iterable[tuple[Any, pd.DataFrame]] = frame.groupby("user", sort=False) if "user" in frame else [("", frame)]
    return [
        Trace(str(user), own["time_s"].to_numpy() if "time_s" in own else np.arange(len(own)), own["cell"].to_numpy())
        for user, own in groups
    ]


def read_traces(
    file: str | Path, *, world: World, columns: Mapping[str, str] | None = None, utc_offset_h: float = 0.0
) -> pd.DataFrame:
    """Read recorded traces from a CSV or Parquet file.

    Parameters
    ----------
    file
        File with a user, a time, and latitude and longitude or a cell in each row.
    world
        World whose grid maps positions to cells. Positions outside it are left out.
    columns
        Names of the file's columns (``user``, ``time``, ``order``, ``lat``, ``lon``, ``cell``), where they cannot be
        guessed.
    utc_offset_h
        Offset of local time from UTC, in hours.

    Returns
    -------
    DataFrame
        Columns ``user``, ``time_s`` (local time, in s since 1970) and ``cell``, in order of time for each user.

    Examples
    --------
    >>> import sim
    >>> visits = sim.read_traces("scenarios/traces/checkins.csv", world=sim.make_world())
    >>> visits.columns.tolist()
    ['user', 'time_s', 'cell']
    """
    with input_errors(str(file)):
        keys = {"file": str(file), "columns": dict(columns or {}), "utc_offset_h": float(utc_offset_h)}
        mobility = validated(ReplayParameters, keys, "read_traces").build(world, 0, Place())
        visits = {user: list(mobility.visits(user, np.random.default_rng(0))) for user in mobility.users()}
    return pd.DataFrame(
        [(user, *visit) for user, own in visits.items() for visit in own],
        columns=["user", "time_s", "cell"],
    )


def scenario_traces(scenario: Scenario, *, replication: int = 0) -> pd.DataFrame:
    """Return the queries of the users of a scenario, as one replication simulates them.

    Parameters
    ----------
    scenario
        Scenario, without a sweep over users, world or seed.
    replication
        Number of the replication, from 0.

    Returns
    -------
    DataFrame
        Columns ``user``, ``part`` (``past`` or ``test``), ``index`` (from 1 in each part), ``time_s`` and ``cell``.

    Examples
    --------
    >>> import sim
    >>> users = {"count": 2, "queries": 5, "past_queries": 3, "mobility": "favourites"}
    >>> queries = sim.scenario_traces(sim.make_scenario(users=users, lppms=["SP-Exp"]))
    >>> queries.groupby("part").size().to_dict()
    {'past': 6, 'test': 10}
    """
    lives = Population(Setting(scenario), replication).lives
    parts = [
        pd.DataFrame(
            {
                "user": user,
                "part": part,
                "index": np.arange(1, len(trace) + 1),
                "time_s": trace.times_s,
                "cell": trace.cells,
            }
        )
        for user, life in lives.items()
        for part, trace in (("past", life.past), ("test", life.test))
    ]
    return pd.concat(parts, ignore_index=True)
