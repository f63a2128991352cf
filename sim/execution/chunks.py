"""Run one chunk of a study: build its simulations, run them, and return rows, snapshots and notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sim.errors import UserError
from sim.execution.adversary_knowledge import known_statistics, statistics_in_force
from sim.execution.mechanisms import Mechanisms
from sim.execution.notes import Notes, merge_notes, rows_without_data
from sim.execution.plan import Chunk
from sim.execution.population_cache import PopulationCache
from sim.interfaces import AttackCapabilities
from sim.lppm.theory import Theory
from sim.rng import stream
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.simulation import interrupts
from sim.simulation.engine import simulate
from sim.simulation.population import Population
from sim.simulation.progress import Tick
from sim.simulation.recorder import SimulationLog
from sim.simulation.user_log import Snapshot
from sim.storage.sampling import in_sample, snapshot_users


@dataclass(frozen=True, slots=True)
class SimulatedChunk:
    """Rows of the event log, snapshots and notes of a chunk."""

    table: pa.Table
    snapshots: dict[str, NDArray[Any]]
    notes: dict[str, Any]


class FailedSimulation(Exception):
    """Error raised by one simulation of a chunk; the original error is its cause."""

    def __init__(self, replication: int, lppm: str) -> None:
        super().__init__(replication, lppm)
        self.replication = replication
        self.lppm = lppm


def run_chunk(chunk: Chunk, populations: PopulationCache, tick: Tick | None = None) -> SimulatedChunk:
    """Simulate every LPPM of the chunk in each replication; return the rows of the event log, snapshots and notes."""
    by_name = {lppm.name: lppm for lppm in chunk.point.scenario.lppms}
    tables: list[pa.Table] = []
    snapshots: list[_Snapshots] = []
    notes: dict[str, Notes] = {}
    for population in populations.of_chunk(chunk):
        for name in chunk.lppms:
            try:
                run = _run(by_name[name], population, chunk.point.scenario, tick)
            except UserError:
                raise
            except BaseException as error:  # component code may raise anything; only a real Ctrl-C stops the run
                interrupts.reraise_interrupt(error)
                raise FailedSimulation(population.replication, name) from error
            tables.append(run.log.table(point=chunk.point.index, lppm=name, replication=population.replication))
            snapshots.append(_Snapshots(name, population.replication, run.log.snapshots))
            notes[name] = merge_notes(notes[name], run.notes) if name in notes else run.notes
    return SimulatedChunk(pa.concat_tables(tables), _stacked(snapshots), notes)


@dataclass(frozen=True, slots=True)
class _Run:
    log: SimulationLog
    notes: Notes


def _run(spec: LPPMSpec, population: Population, scenario: Scenario, tick: Tick | None) -> _Run:
    """Simulate one LPPM with the attacks and the log of `scenario` and the world and users of `population`."""
    world = population.setting.world
    applicable = scenario.attacks_on(spec)
    known = {attack.name: known_statistics(attack, population) for attack in applicable}
    in_force = {attack.name: statistics_in_force(attack, population) for attack in applicable}
    mechanisms = Mechanisms(spec, population)
    attacks = {
        attack.name: attack.build(
            scenario.attack_context(world, known[attack.name], in_force[attack.name], mechanisms.space)
        )
        for attack in applicable
    }
    log = SimulationLog(
        world=world,
        traces=population.traces,
        attacks=list(attacks),
        expected=scenario.records_expected,
        window=scenario.record.summary_window,
        shifts=[shift for life in population.lives.values() for shift in life.shifts],
        snapshot_at=frozenset(scenario.record.snapshots),
        records_snapshots=_snapshot_sample(population, scenario),
        pseudonyms=population.pseudonyms,
        epsilon_in=None if scenario.record.epsilon == "none" else world.metric(scenario.record.epsilon),
        tick=tick,
    )
    simulate(
        traces=population.traces,
        lppm_of=mechanisms.of,
        noise_of=lambda user: stream(scenario.seed, "lppm", spec.name, user, population.replication),
        attacks=attacks,
        log=log,
    )
    fallbacks = {name: int(AttackCapabilities.fallbacks.of(attack)) for name, attack in attacks.items()}
    without_data = {
        name: rows_without_data(
            statistics for user, whole in own.items() for _, statistics in in_force[name].get(user, [(1, whole)])
        )
        for name, own in known.items()
    }
    notes = {"attack_fallbacks": fallbacks, "attack_transitionrows_without_data": without_data, **mechanisms.notes()}
    return _Run(log, notes)


def _snapshot_sample(population: Population, scenario: Scenario) -> Callable[[str], bool]:
    """Return a function of a user: whether the beliefs about the user are recorded. Many users have a sample."""
    n_users = len(population.setting.users)
    most = snapshot_users(population.setting.world.grid.n_cells, len(scenario.record.snapshots))
    return lambda user: in_sample(user, n_users, most)


@dataclass(frozen=True, slots=True)
class _Snapshots:
    lppm: str
    replication: int
    rows: Sequence[Snapshot]


def _stacked(groups: Sequence[_Snapshots]) -> dict[str, NDArray[Any]]:
    """Return all snapshots of a chunk, one array per column; unknown metrics are NaN."""
    rows = [(group.lppm, group.replication, snapshot) for group in groups for snapshot in group.rows]
    metrics = np.array([snapshot.own for *_, snapshot in rows], dtype=np.float64).reshape(-1, len(Theory._fields))
    return {
        "lppm": np.array([lppm for lppm, _, _ in rows], dtype=np.str_),
        "replication": np.array([replication for _, replication, _ in rows], dtype=np.int64),
        "user": np.array([snapshot.user for *_, snapshot in rows], dtype=np.str_),
        "index": np.array([snapshot.index for *_, snapshot in rows], dtype=np.int64),
        "profile": np.array([snapshot.profile for *_, snapshot in rows], dtype=np.float64),
        **{f"own_{name}": metrics[:, place] for place, name in enumerate(Theory._fields)},
    }
