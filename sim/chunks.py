"""Run one chunk of a study: build what its simulations need, simulate, and hand back rows and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sim import build
from sim.engine import simulate
from sim.interfaces import LPPM
from sim.lppm.mechanism import Mechanism
from sim.mobility.training import Statistics
from sim.recorder import SimulationLog, Tick
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.scenario.protection import AnyAttack, LPPMSpec
from sim.stage import Setting, Stage
from sim.sweep import Chunk

SETTINGS_KEPT = 4


@dataclass
class Workshop:
    """Keeps the last stage and a few settings, which neighbouring chunks share."""

    queries: dict[int, int] = field(default_factory=dict)
    """About how many queries one simulation of each point has, once it was asked for."""
    _settings: dict[str, Setting] = field(default_factory=dict)
    _stage: tuple[str, int, Stage] | None = None

    @classmethod
    def of(cls, stage: Stage, chunk: Chunk) -> Workshop:
        """Return a workshop that has this stage ready for a chunk."""
        key = chunk.point.setting
        return cls(_settings={key: stage.setting}, _stage=(key, chunk.replication, stage))

    def setting(self, chunk: Chunk) -> Setting:
        """Return the world and the people of a chunk's point."""
        return self._kept(chunk.point.setting, chunk.point.scenario)

    def stage(self, chunk: Chunk) -> Stage:
        """Return the people of a chunk's replication."""
        key = chunk.point.setting
        if self._stage is None or self._stage[:2] != (key, chunk.replication):
            self._stage = (key, chunk.replication, Stage(self._kept(key, chunk.point.scenario), chunk.replication))
        return self._stage[2]

    def _kept(self, key: str, scenario: Scenario) -> Setting:
        if key not in self._settings:
            if len(self._settings) >= SETTINGS_KEPT:
                self._settings.pop(next(iter(self._settings)))
            self._settings[key] = Setting(scenario)
        return self._settings[key]


def expected_queries(chunks: Sequence[Chunk], workshop: Workshop) -> list[int]:
    """Return about how many queries each chunk simulates: the first replication stands for the others."""
    counts = workshop.queries
    for chunk in chunks:
        if chunk.point.index not in counts:
            counts[chunk.point.index] = sum(map(len, workshop.stage(chunk).traces))
    return [counts[chunk.point.index] * len(chunk.lppms) for chunk in chunks]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a chunk leaves behind."""

    table: pa.Table
    snapshots: dict[str, NDArray[Any]]
    notes: dict[str, Any]


def run_chunk(chunk: Chunk, workshop: Workshop, tick: Tick | None = None) -> Outcome:
    """Simulate every LPPM of the chunk and return the rows of the event log and the snapshots."""
    stage = workshop.stage(chunk)
    by_name = {lppm.name: lppm for lppm in chunk.point.scenario.lppms}
    runs = {name: _run(by_name[name], stage, chunk, tick) for name in chunk.lppms}
    tables = [
        run.log.table(point=chunk.point.index, lppm=name, replication=chunk.replication) for name, run in runs.items()
    ]
    return Outcome(
        table=pa.concat_tables(tables),
        snapshots=_stacked({name: run.log for name, run in runs.items()}),
        notes={name: run.notes for name, run in runs.items()},
    )


@dataclass(frozen=True, slots=True)
class _Run:
    log: SimulationLog
    notes: dict[str, Any]


def _run(spec: LPPMSpec, stage: Stage, chunk: Chunk, tick: Tick | None) -> _Run:
    """Simulate one LPPM. Attacks and the log belong to the point's scenario, people and places to the stage."""
    scenario, world = chunk.point.scenario, stage.setting.world
    known = {attack.name: _known(attack, stage) for attack in scenario.attacks}
    attacks = {
        attack.name: build.build_attack(attack, world, known[attack.name], scenario) for attack in scenario.attacks
    }
    log = SimulationLog(
        world=world,
        traces=stage.traces,
        attacks=list(attacks),
        expected=scenario.record.expected,
        snapshot_at=frozenset(scenario.record.snapshots),
        tick=tick,
    )
    mechanisms = _Mechanisms(spec, stage)
    simulate(
        traces=stage.traces,
        lppm_of=mechanisms.of,
        noise_of=lambda user: stream(scenario.seed, "lppm", spec.name, user, chunk.replication),
        attacks=attacks,
        log=log,
    )
    fallbacks = {name: int(getattr(attack, "fallbacks", 0)) for name, attack in attacks.items()}
    bare = {name: _rows_without_data(of_users.values()) for name, of_users in known.items()}
    notes = {"attack_fallbacks": fallbacks, "attack_transition_rows_without_data": bare, **mechanisms.notes()}
    return _Run(log, notes)


def _known(attack: AnyAttack, stage: Stage) -> dict[str, Statistics]:
    """Return the statistics that an adversary has of each user: all she gets, and nothing in it leads to a trace."""
    statistics_of = stage.truth if attack.knows == "test" else stage.knowledge(attack.training)
    return {trace.user: statistics_of(trace.user) for trace in stage.traces}


def _rows_without_data(known: Iterable[Statistics]) -> int:
    """Return how many rows of a transition matrix are the histogram for want of data, at most over the users."""
    return max((statistics.fallback_rows for statistics in known), default=0)


class _Mechanisms:
    """Gives each user her mechanism; one whose belief never changes is shared by all who know the same."""

    def __init__(self, spec: LPPMSpec, stage: Stage) -> None:
        self._spec = spec
        self._restart_s = stage.scenario.restart_s
        self._design = build.build_design(spec.design, stage.setting.world)
        self._knowledge = stage.knowledge(spec.training)
        self._statistics: list[Statistics] = []
        self._made: list[Mechanism] = []
        self._shared: dict[int, Mechanism] = {}

    def of(self, user: str) -> LPPM:
        """Return the mechanism that this user carries."""
        statistics = self._knowledge(user)
        if id(statistics) in self._shared:
            return self._shared[id(statistics)]
        self._statistics.append(statistics)
        belief = build.build_belief(self._spec.belief, statistics, self._restart_s)
        mechanism = Mechanism(belief=belief, design=self._design)
        self._made.append(mechanism)
        if getattr(belief, "fixed", False):
            self._shared[id(statistics)] = mechanism
        return mechanism

    def notes(self) -> dict[str, Any]:
        """Return what is worth knowing afterwards: beliefs that ran out of mass or data, and the worst gap."""
        fallbacks = sum(int(getattr(mechanism.belief, "fallbacks", 0)) for mechanism in self._made)
        gaps = [getattr(mechanism.belief, "worst_gap", None) for mechanism in self._made]
        known = [float(gap) for gap in gaps if gap is not None]
        return {
            "lppm_fallbacks": fallbacks,
            "lppm_transition_rows_without_data": _rows_without_data(self._statistics),
            "worst_gap": max(known, default=None),
        }


def _stacked(logs: dict[str, SimulationLog]) -> dict[str, NDArray[Any]]:
    """Return all snapshots of a chunk as one array per column."""
    rows = [(name, snapshot) for name, log in logs.items() for snapshot in log.snapshots]
    return {
        "lppm": np.array([name for name, _ in rows], dtype=np.str_),
        "user": np.array([snapshot.user for _, snapshot in rows], dtype=np.str_),
        "index": np.array([snapshot.index for _, snapshot in rows], dtype=np.int64),
        "profile": np.array([snapshot.profile for _, snapshot in rows], dtype=np.float64),
    }
