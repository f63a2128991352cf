"""Run one chunk of a study: build its simulations, run them, and return rows, snapshots and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sim.errors import InputError, InvalidValue, UserError
from sim.execution.adversary_knowledge import held_statistics, known_statistics, statistics_in_force
from sim.execution.checkpoints import Checkpoint
from sim.execution.chunk_state import ChunkSaver, ChunkState, Finished, SimulatedChunk
from sim.execution.mechanisms import Mechanisms
from sim.execution.notes import rows_without_data
from sim.execution.plan import Chunk
from sim.execution.population_cache import PopulationCache
from sim.interfaces import AttackCapabilities
from sim.rng import stream
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.simulation import interrupts
from sim.simulation.engine import Saver, SimulationState, proceed
from sim.simulation.population import Population
from sim.simulation.prior_error import prior_errors_km
from sim.simulation.progress import Tick
from sim.simulation.recorder import SimulationLog
from sim.storage.sampling import in_sample, snapshot_users


class FailedSimulation(Exception):
    """Error raised by one simulation of a chunk; the original error is its cause."""

    def __init__(self, replication: int, lppm: str) -> None:
        super().__init__(replication, lppm)
        self.replication = replication
        self.lppm = lppm


def run_chunk(
    chunk: Chunk, populations: PopulationCache, tick: Tick | None = None, checkpoint: Checkpoint | None = None
) -> SimulatedChunk:
    """Simulate every LPPM of the chunk in each replication; return the rows of the event log, snapshots and notes.

    With a checkpoint, the chunk continues from it, if there is one, and saves its state from time to time.
    """
    scenario = chunk.point.scenario
    by_name = {lppm.name: lppm for lppm in scenario.lppms}
    built = {"world": populations.setting(chunk.point).world, "tick": tick}
    state = _begin(checkpoint, built, tick)
    saver = None if checkpoint is None else ChunkSaver(checkpoint, state, built)
    for population in populations.of_chunk(chunk):
        for name in chunk.lppms:
            key = population.replication, name
            if key in state.finished:
                continue
            try:
                finished = _run(by_name[name], population, chunk, tick, state.current, saver)
            except UserError:
                raise
            except InvalidValue as error:
                raise InputError(f"lppms.{name}: {error}", code=error.code) from error
            except BaseException as error:  # component code may raise anything; only a real Ctrl-C stops the run
                interrupts.reraise_interrupt(error)
                raise FailedSimulation(*key) from error
            state.finished[key], state.current = finished, None
    return state.joined()


def _begin(checkpoint: Checkpoint | None, built: Mapping[str, object], tick: Tick | None) -> ChunkState:
    """Return the state in the checkpoint, and report its queries; a new state without a checkpoint."""
    saved = None if checkpoint is None else checkpoint.load(built)
    if not isinstance(saved, ChunkState):
        return ChunkState()
    if tick is not None:
        tick(saved.queries)
    return saved


def _run(
    spec: LPPMSpec,
    population: Population,
    chunk: Chunk,
    tick: Tick | None,
    state: SimulationState | None,
    saver: Saver | None,
) -> Finished:
    """Simulate one LPPM with the attacks and the log of the chunk's scenario and the world and users of `population`.

    The simulation continues from `state`, if it has begun.
    """
    scenario = chunk.point.scenario
    mechanisms = Mechanisms(spec, population)
    applicable = scenario.attacks_on(spec, has_secret=mechanisms.has_memory)
    known = {attack.name: known_statistics(attack, population) for attack in applicable}
    in_force = {attack.name: statistics_in_force(attack, population) for attack in applicable}
    if state is None:
        attacks = {
            attack.name: attack.build(
                scenario.attack_context(
                    population.setting.world, known[attack.name], in_force[attack.name], mechanisms.space
                )
            )
            for attack in applicable
        }
        users = [trace.user for trace in population.traces]
        state = SimulationState(
            lppms={user: mechanisms.of(user) for user in users},
            noise={user: stream(scenario.seed, "lppm", spec.name, user, population.replication) for user in users},
            attacks=attacks,
            log=_log(population, scenario, list(attacks), tick, expected=not mechanisms.has_memory),
        )
    proceed(population.traces, state, saver)
    without_data = {
        name: rows_without_data(
            statistics for user, whole in own.items() for _, statistics in in_force[name].get(user, [(1, whole)])
        )
        for name, own in known.items()
    }
    notes = {
        "attack_fallbacks": {
            name: int(AttackCapabilities.fallbacks.of(attack)) for name, attack in state.attacks.items()
        },
        "attack_dropped": {
            name: float(AttackCapabilities.dropped.of(attack)) for name, attack in state.attacks.items()
        },
        "attack_transitionrows_without_data": without_data,
        **mechanisms.notes(state.lppms),
    }
    held = [held_statistics(attack, known[attack.name], population) for attack in applicable]
    table = state.log.table(
        point=chunk.point.index,
        lppm=spec.name,
        replication=population.replication,
        prior_errors_km=prior_errors_km(population.traces, held, population.setting.world.privacy_distance),
    )
    return Finished(table, state.log.snapshots, notes, queries=sum(map(len, population.traces)))


def _log(
    population: Population, scenario: Scenario, attacks: Sequence[str], tick: Tick | None, *, expected: bool
) -> SimulationLog:
    """Return the empty log of a simulation; without `expected`, expected metrics do not apply to the mechanism."""
    world, users = population.setting.world, len(population.setting.users)
    most = snapshot_users(world.n_cells, len(scenario.record.snapshots))
    return SimulationLog(
        world=world,
        traces=population.traces,
        attacks=attacks,
        expected=expected and scenario.records_expected,
        window=scenario.record.summary_window,
        shifts=[shift for life in population.lives.values() for shift in life.shifts],
        snapshot_at=frozenset(scenario.record.snapshots),
        records_snapshots=partial(in_sample, n_users=users, most=most),  # large populations have a sample
        pseudonyms=population.pseudonyms,
        epsilon_in=None if scenario.record.epsilon == "none" else world.metric(scenario.record.epsilon),
        tick=tick,
    )
