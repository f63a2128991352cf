"""The log of a user: outputs, losses, exact epsilon and snapshots."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sim.events import Guess
from sim.interfaces import LPPM, FloatArray
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.hiding import identity
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.mechanism import Mechanism
from sim.lppm.outputs import CellsOrNothing
from sim.lppm.theory import theory
from sim.mobility.traces import Trace
from sim.rng import stream
from sim.simulation.engine import simulate
from sim.simulation.recorder import SimulationLog
from tests.simulation.small_world import (
    TRACES,
    WORLD,
    N,
    beliefs,
    opened,
    send,
)

NO_REPORT_KM = 4.0


class Shy(MatrixChannel):
    """Channel that reports the true cell or nothing, each with probability 1/2."""

    def __init__(self) -> None:
        super().__init__(np.column_stack([0.5 * np.eye(N), np.full(N, 0.5)]))
        self.space, self.countless = CellsOrNothing(N), False

    def loss_of_km(self, cell: int, output: int) -> float:
        return NO_REPORT_KM if output == N else float(WORLD.quality_distance.matrix_km[cell, output])

    def expected_loss_of_km(self, cell: int) -> float:
        return 0.5 * NO_REPORT_KM


def test_a_query_without_report_has_no_output_and_the_loss_of_its_channel() -> None:
    log, _ = opened(Shy())
    for index, output in enumerate([1, N, 1, N], start=1):
        send(log, index, output, Shy())
        log.attack("a").guess(Guess("ann", index, 0))
    table = log.table(point=0, lppm="mine", replication=0)
    assert table["output"].to_pylist() == [1, None, 1, None]
    assert table["quality_loss_km"].to_pylist() == [0.0, NO_REPORT_KM, 0.0, NO_REPORT_KM]
    assert table["expected_quality_loss_km"].to_pylist() == [0.5 * NO_REPORT_KM] * 4


def test_epsilon_is_that_of_the_current_channel_and_may_be_infinite() -> None:
    mild, sharp = (exponential(WORLD.quality_distance, epsilon_per_km) for epsilon_per_km in (0.5, 3.0))
    traces = [Trace("ann", np.arange(4), np.ones(4, int))]
    log = SimulationLog(world=WORLD, traces=traces, attacks=[], epsilon_in=WORLD.quality_distance)
    for index, channel in enumerate([mild, mild, sharp, identity(N)], start=1):
        send(log, index, 1, channel)
    epsilons = log.table(point=0, lppm="mine", replication=0)["epsilon_per_km"].to_pylist()
    ratios = [_worst_ratio(channel.matrix(), WORLD.quality_distance.matrix_km) for channel in (mild, sharp)]
    assert epsilons == [pytest.approx(ratios[0])] * 2 + [pytest.approx(ratios[1]), math.inf]


def _worst_ratio(matrix: FloatArray, apart_km: FloatArray) -> float:
    pairs = [(x, y) for x in range(N) for y in range(N) if x != y]
    return max(float(np.log(matrix[x, z] / matrix[y, z]) / apart_km[x, y]) for x, y in pairs for z in range(N))


def test_a_snapshot_has_the_metrics_of_its_channel_under_the_belief() -> None:
    design = Exponential(ExponentialParameters(epsilon_per_km=0.7), distance=WORLD.quality_distance)
    made: list[Mechanism] = []

    def mechanism(_: str) -> LPPM:
        made.append(Mechanism(belief=beliefs()["learning"], design=design))
        return made[-1]

    log = SimulationLog(
        world=WORLD,
        traces=TRACES,
        attacks=[],
        snapshot_at=frozenset({1, 3}),
        epsilon_in=WORLD.privacy_distance,
    )
    simulate(traces=TRACES, lppm_of=mechanism, noise_of=lambda user: stream(1, user), attacks={}, log=log)
    assert [(taken.user, taken.index) for taken in log.snapshots] == [
        ("ann", 1),
        ("di", 1),
        ("bob", 1),
        ("ann", 3),
        ("di", 3),
    ]
    for taken in log.snapshots:
        world = {"quality": WORLD.quality_distance, "privacy": WORLD.privacy_distance}
        own = theory(design(taken.profile), taken.profile, epsilon_in=WORLD.privacy_distance, **world)
        assert taken.own == pytest.approx(own)
    assert log.snapshots[0].own == log.snapshots[1].own != log.snapshots[3].own
