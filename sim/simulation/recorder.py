"""Recorder of one simulation: collects true queries, reports and guesses, and converts them to the event log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sim.events import Shift
from sim.interfaces import FloatArray
from sim.mobility.traces import Trace
from sim.simulation.attack_log import AttackLog
from sim.simulation.channel_metrics import ChannelMetrics
from sim.simulation.event_table import Simulation, event_table
from sim.simulation.progress import Tick
from sim.simulation.user_log import Snapshot, UserLog
from sim.world import World
from sim.world.distance import Distance


@dataclass
class SimulationLog:
    """Reports and guesses of one simulation in arrays; distances are looked up in one pass at the end.

    Each user and each adversary writes through a separate handle, `user` and `attack`. Expected metrics are sums over z
    of f(z | z^{r-1}, x^r) times the distance: conditional on the past reports and the true cell, they average over the
    mechanism's current noise.
    """

    world: World
    traces: Sequence[Trace]
    attacks: Sequence[str]
    expected: bool = True
    window: int | None = None
    """Number of queries of a user that share a row with the means of their metrics (default: one row per query)."""
    shifts: Sequence[Shift] = ()
    """Behaviour shifts: one row each, before the rows of their query."""
    snapshot_at: frozenset[int] = frozenset()
    """Query numbers at which the beliefs of mechanisms are recorded."""
    records_snapshots: Callable[[str], bool] = lambda _user: True
    """Whether the beliefs about a user are recorded; large populations record those of a sample."""
    pseudonyms: Mapping[str, str] | None = None
    """Pseudonym of each user; None if the adversary knows the names."""
    epsilon_in: Distance | None = None
    """Distance in which the exact epsilon of each channel is recorded (default: not recorded)."""
    tick: Tick | None = None
    snapshots: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        metrics = ChannelMetrics(self.world, self.epsilon_in)
        self._users = {
            trace.user: UserLog(
                trace,
                metrics,
                self.snapshots,
                expected=self.expected,
                snapshot_at=self.snapshot_at if self.records_snapshots(trace.user) else frozenset(),
                tick=self.tick,
            )
            for trace in self.traces
        }
        by_public_name = {(self.pseudonyms or {}).get(user, user): log for user, log in self._users.items()}
        self._attacks = {name: AttackLog(name, by_public_name, self.world) for name in self.attacks}

    def user(self, name: str) -> UserLog:
        """Return the handle that records the reports of a user."""
        return self._users[name]

    def attack(self, name: str) -> AttackLog:
        """Return the handle that records the guesses of an adversary."""
        return self._attacks[name]

    def table(self, *, point: int, lppm: str, replication: int, prior_errors_km: FloatArray | None = None) -> pa.Table:
        """Return the rows of the event log: see `sim.simulation.event_table`."""
        return event_table(
            Simulation(self.world, self.traces, self._users, self._attacks, self.shifts, prior_errors_km),
            point=point,
            lppm=lppm,
            replication=replication,
            window=self.window,
        )
