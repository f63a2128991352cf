"""A world of six cells and logs of it, for the tests of the recorder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.events import Query, Report
from sim.interfaces import Belief, Channel
from sim.lppm.channels.hiding import identity
from sim.mobility.traces import Trace
from sim.simulation.recorder import SimulationLog
from sim.world import World
from sim.world.distance import Distance, MatrixDistance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)


N = GRID.n_cells


def uphill(distance: Distance) -> Distance:
    """Return an asymmetric distance, which is longer from a cell to one of a higher number than back."""
    return MatrixDistance(kind="file", matrix_km=distance.matrix_km * (1 + np.triu(np.ones((N, N)))))


WORLD = World(locations=GRID, roads=None, quality_distance=manhattan(GRID), privacy_distance=uphill(euclidean(GRID)))
"""World with an asymmetric privacy distance, so that a metric with swapped arguments would differ."""


ONE_WAY = replace(WORLD, quality_distance=uphill(manhattan(GRID)))


PROFILE = np.array([0.3, 0.3, 0.2, 0.1, 0.1, 0.0])


TRACES = [
    Trace("ann", np.array([0, 5, 5, 9, 20, 21]), np.array([1, 1, 3, 1, 3, 0])),
    Trace("bob", np.array([3]), np.array([2])),
    Trace("cy", np.array([], dtype=np.int64), np.array([], dtype=np.int64)),
    Trace("di", np.array([0, 5, 8]), np.array([4, 4, 4])),
]


def opened(channel: Channel, *, queries: int = 4) -> tuple[SimulationLog, list[Report]]:
    """Return a log of one user who stays in cell 1, and the reports of this user."""
    log = SimulationLog(world=WORLD, traces=[Trace("ann", np.arange(queries), np.ones(queries, int))], attacks=["a"])
    return log, [Report("ann", index, index - 1, 1, channel) for index in range(1, queries + 1)]


def channel_of(report: Report) -> Channel:
    assert report.channel is not None
    return report.channel


def column(log: SimulationLog, name: str) -> list[float]:
    return [float(value) for value in log.table(point=0, lppm="mine", replication=0)[name].to_numpy()]


def send(log: SimulationLog, index: int, output: int, channel: Channel, *, user: str = "ann") -> None:
    log.user(user).query(Query(user, index, index - 1, 1), output, channel)


PSEUDONYMS = {"ann": "user B", "bob": "user A"}


def hidden(attacks: Sequence[str] = ("a",)) -> SimulationLog:
    """Return a log of two users with pseudonyms, each with two reports."""
    traces = [Trace(name, np.arange(2), np.array([cell, cell + 1])) for name, cell in (("ann", 1), ("bob", 3))]
    log = SimulationLog(world=WORLD, traces=traces, attacks=list(attacks), pseudonyms=PSEUDONYMS)
    for trace in traces:
        for index in (1, 2):
            send(log, index, int(trace.cells[index - 1]), identity(N), user=trace.user)
    return log


def beliefs() -> dict[str, Belief]:
    moves = np.full((N, N), 0.5 / N) + 0.5 * np.eye(N)
    return {
        "fixed": FixedProfile(profile=PROFILE),
        "markov": MarkovFilter(start_profile=PROFILE, transition=moves),
        "learning": EstimatedProfile(EstimatedProfileParameters(), initial_profile=PROFILE),
    }
