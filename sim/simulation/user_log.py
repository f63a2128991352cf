"""Log of one user: outputs, quality losses and snapshots of the mechanism's belief."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import cast

import numpy as np

from sim.events import Query
from sim.interfaces import (
    LPPM,
    BeliefCapabilities,
    Channel,
    ChannelCapabilities,
    FloatArray,
    LPPMCapabilities,
    OwnOutputs,
)
from sim.lppm.theory import Theory
from sim.mobility.traces import Trace
from sim.simulation.channel_metrics import ChannelMetrics
from sim.simulation.progress import Tick

_space_of = ChannelCapabilities.space.of


def missing_cells(queries: int) -> array[int]:
    """Return an array with cell -1 for each query; writing single items is twice as fast as in a NumPy array."""
    return array("q", [-1]) * queries


def missing_values(queries: int) -> array[float]:
    """Return an array with NaN for each query."""
    return array("d", [np.nan]) * queries


@dataclass(slots=True)
class Snapshot:
    """A mechanism's belief about a user before one query, and the metrics of its channel under that belief."""

    user: str
    index: int
    profile: FloatArray
    own: Theory


class UserLog:
    """Record of the reports of one user."""

    __slots__ = (
        "_channel_with_outputs",
        "_losses_km",
        "_metrics",
        "_quality",
        "_row",
        "_snapshots",
        "_tick",
        "cell",
        "cells",
        "channel",
        "epsilon_per_km",
        "expected",
        "expected_loss_km",
        "index",
        "loss_km",
        "name",
        "no_report",
        "output",
        "snapshot_at",
    )

    def __init__(
        self,
        trace: Trace,
        metrics: ChannelMetrics,
        snapshots: list[Snapshot],
        *,
        expected: bool = True,
        snapshot_at: frozenset[int] = frozenset(),
        tick: Tick | None = None,
    ) -> None:
        self.name, self.cells = trace.user, trace.cells
        self.expected, self.snapshot_at = expected, snapshot_at
        self._metrics, self._snapshots, self._tick = metrics, snapshots, tick
        self._quality = metrics.world.quality_distance
        self.output, self.expected_loss_km = missing_cells(len(trace)), missing_values(len(trace))
        self.epsilon_per_km = missing_values(0 if metrics.epsilon_in is None else len(trace))
        self.loss_km: array[float] | None = None
        """Losses of outputs that are not cells."""
        self.no_report: int | None = None
        """The output that means "no report", if the channel has one."""
        self._channel_with_outputs: Channel | None = None
        """The last channel whose outputs are not cells."""
        self.index = 0
        """Index of the last query, from 1."""
        self.cell = -1
        self.channel: Channel | None = None
        self._row: FloatArray | None = None
        self._losses_km: dict[int, float] | None = None
        """Expected losses of the channel in km by cell, from its second query on."""

    @property
    def n_recorded(self) -> int:
        """The number of queries recorded so far."""
        return len(self.output) - self.output.count(-1)

    @property
    def stays(self) -> bool:
        """Whether the last two queries had the same channel."""
        return self._losses_km is not None

    @property
    def row(self) -> FloatArray:
        """The probabilities f(. | x) of the last query's outputs."""
        if self._row is None:
            assert self.channel is not None
            self._row = self.channel.row(self.cell)
        return self._row

    def query(self, query: Query, output: int, channel: Channel) -> None:
        """Record a report and the channel that produced it."""
        place = query.index - 1
        self.output[place] = output
        if channel is not self._channel_with_outputs and (space := _space_of(channel)) is not None:
            self._channel_with_outputs, self.no_report = channel, space.nothing
            self.loss_km = self.loss_km or missing_values(len(self.output))
        if self.loss_km is not None:
            self.loss_km[place] = cast(OwnOutputs, channel).loss_of_km(query.cell, output)
        if len(self.epsilon_per_km):
            self.epsilon_per_km[place] = self._metrics.epsilon_of(channel)
        if self.expected:
            self._expect(query, channel)
        if self._tick is not None:
            self._tick(1)

    def _expect(self, query: Query, channel: Channel) -> None:
        """Record the expected loss, cached by cell while the channel stays the same."""
        if channel is not self.channel:
            self.channel, self._losses_km = channel, None
        elif self._losses_km is None:
            self._losses_km = self._metrics.losses_of(channel)
        self.index, self.cell, self._row = query.index, query.cell, None
        loss_km = None if self._losses_km is None else self._losses_km.get(query.cell)
        if loss_km is None:
            if self.loss_km is not None:
                loss_km = cast(OwnOutputs, channel).expected_loss_of_km(query.cell)
            else:
                loss_km = float(np.dot(self.row, self._quality.row_km(query.cell)))
            if self._losses_km is not None:
                self._losses_km[query.cell] = loss_km
        self.expected_loss_km[query.index - 1] = loss_km

    def snapshot(self, query: Query, lppm: LPPM, channel: Channel) -> None:
        """Record a mechanism's belief before this query; a fixed belief is recorded at the first snapshot only."""
        belief = LPPMCapabilities.belief.of(lppm)
        if belief is not None and (query.index == min(self.snapshot_at) or not BeliefCapabilities.fixed.of(belief)):
            prior = belief.prior(query.time_s)
            own = self._metrics.theory_of(channel, prior)
            self._snapshots.append(Snapshot(query.user, query.index, prior.copy(), own))
