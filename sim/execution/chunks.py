"""Run one chunk of a study: build what its simulations need, simulate, and hand back rows and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sim.attack.identification import IdentificationParameters
from sim.attack.parameters import AttackParameters
from sim.errors import UserError, input_errors
from sim.execution.plan import Chunk
from sim.interfaces import LPPM, AttackCapabilities, BeliefCapabilities
from sim.lppm.mechanism import Mechanism
from sim.lppm.outputs import output_space
from sim.lppm.theory import Theory
from sim.mobility.training import Statistics
from sim.rng import stream
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.scenario.sweep import Point
from sim.simulation import interrupts
from sim.simulation.engine import simulate
from sim.simulation.population import Setting, Stage
from sim.simulation.progress import Tick
from sim.simulation.recorder import SimulationLog
from sim.simulation.user_log import Snapshot

SETTINGS_KEPT = 4
STAGES_BYTES = 100e6
"""About so much memory may the stages take that are kept beside the last one: a transition matrix of each user."""


@dataclass
class Workshop:
    """Keeps a few settings, and the stages of the last chunk's replications, which neighbouring chunks share."""

    _queries: dict[str, int] = field(default_factory=dict)
    _settings: dict[str, Setting] = field(default_factory=dict)
    _stages: dict[tuple[str, int], Stage] = field(default_factory=dict)

    @classmethod
    def of(cls, stage: Stage, point: Point) -> Workshop:
        """Return a workshop that has this stage ready for a point."""
        return cls(_settings={point.setting: stage.setting}, _stages={(point.setting, stage.replication): stage})

    def setting(self, point: Point) -> Setting:
        """Return the world and the people of a point."""
        if point.setting not in self._settings:
            if len(self._settings) >= SETTINGS_KEPT:
                self._settings.pop(next(iter(self._settings)))
            self._settings[point.setting] = Setting(point.scenario)
        return self._settings[point.setting]

    def stage(self, point: Point, replication: int) -> Stage:
        """Return the people of a point in one replication."""
        key = (point.setting, replication)
        if key not in self._stages:
            setting = self.setting(point)
            stretches = 1 + 3 * len(setting.scenario.shifts)  # a shift begins, has come to its weight, is over
            each = len(setting.users) * stretches * setting.world.grid.n_cells**2 * 8
            if len(self._stages) * each > STAGES_BYTES:
                self._stages.clear()
            self._stages[key] = Stage(setting, replication)
        return self._stages[key]

    def stages(self, chunk: Chunk) -> Iterator[Stage]:
        """Yield the people of each of a chunk's replications, and let go of all others."""
        for key in self._stages.keys() - {(chunk.point.setting, replication) for replication in chunk.replications}:
            del self._stages[key]
        for replication in chunk.replications:
            yield self.stage(chunk.point, replication)

    def queries(self, point: Point) -> int:
        """Return about how many queries one simulation of a point has: as many as in the first replication."""
        if point.setting not in self._queries:
            self._queries[point.setting] = sum(map(len, self.stage(point, 0).traces))
        return self._queries[point.setting]


@dataclass(frozen=True, slots=True)
class SimulatedChunk:
    """Rows, snapshots and notes of a chunk."""

    table: pa.Table
    snapshots: dict[str, NDArray[Any]]
    notes: dict[str, Any]


class FailedSimulation(Exception):
    """One simulation of a chunk raised an error, its cause."""

    def __init__(self, replication: int, lppm: str) -> None:
        super().__init__(replication, lppm)
        self.replication = replication
        self.lppm = lppm


def run_chunk(chunk: Chunk, workshop: Workshop, tick: Tick | None = None) -> SimulatedChunk:
    """Simulate every LPPM of the chunk in each replication; return the rows of the event log and the snapshots."""
    by_name = {lppm.name: lppm for lppm in chunk.point.scenario.lppms}
    tables: list[pa.Table] = []
    snapshots: list[_Snapshots] = []
    notes: dict[str, Notes] = {}
    for stage in workshop.stages(chunk):
        for name in chunk.lppms:
            try:
                run = _run(by_name[name], stage, chunk.point.scenario, tick)
            except UserError:
                raise
            except BaseException as error:  # component code may raise anything; only a real Ctrl-C stops the run
                interrupts.reraise_interrupt(error)
                raise FailedSimulation(stage.replication, name) from error
            tables.append(run.log.table(point=chunk.point.index, lppm=name, replication=stage.replication))
            snapshots.append(_Snapshots(name, stage.replication, run.log.snapshots))
            notes[name] = joined_notes(notes[name], run.notes) if name in notes else run.notes
    return SimulatedChunk(pa.concat_tables(tables), _stacked(snapshots), notes)


Notes = dict[str, Any]
"""What is worth knowing of simulations: how often beliefs ran out of mass or data or found a change, the worst gap."""


def joined_notes(one: Notes, other: Notes) -> Notes:
    """Return the notes of more simulations: occurrences are added up, of the rest the worst is kept."""
    return {key: _joined(one[key], other[key], add=key.endswith(("fallbacks", "alarms"))) for key in one}


def _joined(one: Any, other: Any, *, add: bool) -> Any:
    if isinstance(one, dict):
        return {name: _joined(one[name], other[name], add=add) for name in one}
    if add:
        return one + other
    return max((value for value in (one, other) if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class _Run:
    log: SimulationLog
    notes: Notes


def _run(spec: LPPMSpec, stage: Stage, scenario: Scenario, tick: Tick | None) -> _Run:
    """Simulate one LPPM. Attacks and the log belong to the point's scenario, people and places to the stage."""
    world = stage.setting.world
    possible = scenario.attacks_on(spec)
    known = {attack.name: _known(attack, stage) for attack in possible}
    in_force = {attack.name: _in_force(attack, stage) for attack in possible}
    mechanisms = _Mechanisms(spec, stage)
    attacks = {
        attack.name: attack.build(
            scenario.attack_context(world, known[attack.name], in_force[attack.name], mechanisms.space)
        )
        for attack in possible
    }
    log = SimulationLog(
        world=world,
        traces=stage.traces,
        attacks=list(attacks),
        expected=scenario.record.expected,
        window=scenario.record.summary_window,
        shifts=[shift for life in stage.lives.values() for shift in life.shifts],
        snapshot_at=frozenset(scenario.record.snapshots),
        pseudonyms=stage.pseudonyms,
        epsilon_in=None if scenario.record.epsilon == "none" else world.metric(scenario.record.epsilon),
        tick=tick,
    )
    simulate(
        traces=stage.traces,
        lppm_of=mechanisms.of,
        noise_of=lambda user: stream(scenario.seed, "lppm", spec.name, user, stage.replication),
        attacks=attacks,
        log=log,
    )
    fallbacks = {name: int(AttackCapabilities.fallbacks.of(attack)) for name, attack in attacks.items()}
    bare = {
        name: _rows_without_data(
            statistics for user, whole in own.items() for _, statistics in in_force[name].get(user, [(1, whole)])
        )
        for name, own in known.items()
    }
    notes = {"attack_fallbacks": fallbacks, "attack_transition_rows_without_data": bare, **mechanisms.notes()}
    return _Run(log, notes)


def _known(attack: AttackParameters, stage: Stage) -> dict[str, Statistics]:
    """Return the statistics that an adversary has of each user: all she gets, and nothing in it leads to a trace.

    Where names are hidden, what she knows of all alike is known under the pseudonyms, whose order tells nothing.
    """
    statistics_of = stage.knowledge(attack.training) if attack.knows == "training" else stage.truth
    known = {trace.user: statistics_of(trace.user) for trace in stage.traces}
    if isinstance(attack, IdentificationParameters):
        return {user: known[user] for user in stage.candidates}
    if stage.pseudonyms is None or stage.scenario.knows_by_name(attack):
        return known
    return {name: known[user] for name, user in sorted((name, user) for user, name in stage.pseudonyms.items())}


def _in_force(attack: AttackParameters, stage: Stage) -> dict[str, list[tuple[int, Statistics]]]:
    """Return, of the users whose lives change, the statistics in force, to an adversary who knows them."""
    users = [user for user, life in stage.lives.items() if life.borders] if attack.knows == "test" else []
    return {user: stage.regimes(user) for user in users}


def _rows_without_data(known: Iterable[Statistics]) -> int:
    """Return how many rows of a transition matrix are the histogram for want of data, at most over the users."""
    return max((statistics.fallback_rows for statistics in known), default=0)


class _Mechanisms:
    """Gives each user her mechanism; one whose belief never changes is shared by all who know the same."""

    def __init__(self, spec: LPPMSpec, stage: Stage) -> None:
        self._spec = spec
        self._restart_s = stage.scenario.restart_s
        self._world = stage.setting.world
        with input_errors(f"lppms.{spec.name}.design"):
            self._design = spec.design.build(self._world)
        self.space = output_space(self._design, self._world.grid.n_cells)
        """What the outputs stand for."""
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
        belief = self._spec.belief.build(statistics, self._restart_s, self._world)
        mechanism = Mechanism(belief=belief, design=self._design, learns_from=self._spec.learns_from)
        self._made.append(mechanism)
        if BeliefCapabilities.fixed.of(belief):
            self._shared[id(statistics)] = mechanism
        return mechanism

    def notes(self) -> Notes:
        """Return what is worth knowing afterwards."""
        beliefs = [mechanism.belief for mechanism in self._made]
        gaps = [BeliefCapabilities.worst_gap.of(belief) for belief in beliefs]
        return {
            "lppm_fallbacks": sum(int(BeliefCapabilities.fallbacks.of(belief)) for belief in beliefs),
            "lppm_alarms": sum(int(BeliefCapabilities.alarms.of(belief)) for belief in beliefs),
            "lppm_transition_rows_without_data": _rows_without_data(self._statistics),
            "worst_gap": max((float(gap) for gap in gaps if gap is not None), default=None),
        }


@dataclass(frozen=True, slots=True)
class _Snapshots:
    lppm: str
    replication: int
    rows: Sequence[Snapshot]


def _stacked(found: Sequence[_Snapshots]) -> dict[str, NDArray[Any]]:
    """Return all snapshots of a chunk as one array per column; figures that nobody knows are NaN."""
    rows = [(own.lppm, own.replication, snapshot) for own in found for snapshot in own.rows]
    figures = np.array([snapshot.own for *_, snapshot in rows], dtype=np.float64).reshape(-1, len(Theory._fields))
    return {
        "lppm": np.array([lppm for lppm, _, _ in rows], dtype=np.str_),
        "replication": np.array([replication for _, replication, _ in rows], dtype=np.int64),
        "user": np.array([snapshot.user for *_, snapshot in rows], dtype=np.str_),
        "index": np.array([snapshot.index for *_, snapshot in rows], dtype=np.int64),
        "profile": np.array([snapshot.profile for *_, snapshot in rows], dtype=np.float64),
        **{f"own_{name}": figures[:, place] for place, name in enumerate(Theory._fields)},
    }
