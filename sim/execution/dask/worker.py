"""Code that runs on a Dask worker: verify that it can take part in a run, simulate a chunk and write its part.

A worker may run on another machine or join late. Before it simulates, it verifies that its version, kernels and input
files are those in the run's manifest.
"""

from __future__ import annotations

import importlib.metadata
import pickle
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sim.components.files import Place
from sim.components.imports import refuse_stale, source_file
from sim.errors import InputError, UserError
from sim.execution.dask.connection import dask_module
from sim.execution.inputs import fingerprint
from sim.execution.plan import Chunk
from sim.execution.pool import Answer, perform
from sim.execution.population_cache import PopulationCache
from sim.inference import kernels
from sim.scenario.models import Scenario
from sim.simulation import interrupts
from sim.storage.errors import RequestError
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory

SAME_ENVIRONMENT = "the driver, the scheduler and all workers need the same environment"


@dataclass(frozen=True, slots=True)
class _Order:
    """A chunk with everything that a worker on any machine needs to simulate it; all paths are absolute."""

    chunk: Chunk
    directory: RunDirectory
    place: Place
    token: str


def pack(chunk: Chunk, directory: RunDirectory, token: str) -> bytes:
    """Return the order to simulate a chunk as bytes, so that the scheduler need not unpickle it.

    `token` identifies the run: a worker that gets an order of a new run releases the memory of the previous one.
    """
    absolute = replace(directory, place=directory.path.absolute()) if directory.in_folder else directory
    order = _Order(chunk, absolute, chunk.point.scenario.place.absolute(), token)
    return pickle.dumps(order, protocol=pickle.HIGHEST_PROTOCOL)


def _unpack(packed: bytes) -> _Order:
    order: _Order = pickle.loads(packed)
    order.chunk.point.scenario.at(*order.place)
    return order


@dataclass
class _ThreadState:
    """State of one worker thread during one run."""

    token: str
    populations: PopulationCache = field(default_factory=PopulationCache)
    verified_files: set[str] = field(default_factory=set)
    manifest: RunManifest | None = None


class _ThreadStates:
    """States of a worker process, one for each of its threads."""

    def __init__(self) -> None:
        self._by_thread: dict[int, _ThreadState] = {}

    def of(self, token: str) -> _ThreadState:
        """Return this thread's state for a run; drop that of another run, whose files may have changed since."""
        thread = threading.get_ident()
        if thread not in self._by_thread or self._by_thread[thread].token != token:
            self._by_thread[thread] = _ThreadState(token)
        return self._by_thread[thread]

    def release(self, token: str) -> None:
        """Drop the states of a run."""
        for thread, state in list(self._by_thread.items()):
            if state.token == token:
                self._by_thread.pop(thread, None)


_STATES = _ThreadStates()


def release(token: str) -> None:
    """Release the memory that a run occupies in this worker."""
    _STATES.release(token)


async def release_later(token: str) -> None:
    """Release the memory of a run; a coroutine, because Dask can call only coroutines without waiting."""
    release(token)


def simulate(packed: bytes) -> tuple[Answer, int]:
    """Simulate a chunk and write its part; return the answer and the number of simulated queries."""
    order = _unpack(packed)
    state = _STATES.of(order.token)
    queries = 0

    def tick(count: int) -> None:
        nonlocal queries
        queries += count

    try:
        if (fault := _first_fault(order, state)) is not None:
            address = dask_module().get_worker().address
            raise RequestError(f"the worker {address} cannot take part: {fault}", code="unfit-worker")
        perform(order.chunk, order.directory, state.populations, tick)
    except BaseException as error:
        return Answer.of(order.chunk, error), queries
    return Answer("done"), queries


def fault_of_worker(packed: bytes) -> str | None:
    """Return the reason why this worker cannot take part in a run; None if it can."""
    order = _unpack(packed)
    try:
        with interrupts.contained("it cannot load the scenario's components"):
            return _first_fault(order, _ThreadState(order.token))
    except UserError as error:
        return str(error)


def _first_fault(order: _Order, state: _ThreadState) -> str | None:
    """Return the first difference between this worker and the manifest, if any.

    Version and kernels are compared once, each input file when it is first needed.
    """
    if state.manifest is None:
        if not order.directory.has("manifest.json"):
            return f"it cannot see {order.directory}: the run needs a shared folder"
        manifest = order.directory.manifest()
        version = importlib.metadata.version("lppm-sim")
        if manifest.lppm_sim != version:
            return f"it has version {version} of lppm-sim, the run {manifest.lppm_sim}: {SAME_ENVIRONMENT}"
        kind = kernels.describe()
        if manifest.kernels.split()[0] != kind.split()[0]:
            return f"its kernels are {kind}, those of the run {manifest.kernels}: see {kernels.VARIABLE}"
        state.manifest = manifest
    return _differing_file(order.chunk.point.scenario, state.manifest.files, state.verified_files)


def _differing_file(scenario: Scenario, expected: Mapping[str, str], verified: set[str]) -> str | None:
    """Return the first input file or custom component that differs from the driver's, if any.

    Files that agree are added to `verified`.
    """
    components, access = scenario.own_components(), scenario.place.code
    for name in {*scenario.files(), *components} - verified:
        try:
            if name in components:
                refuse_stale(name, access)
            path = source_file(name, access) if name in components else scenario.locate(name)
            digest = fingerprint(path)
        except (OSError, ValueError, InputError) as error:
            return str(error)
        if digest != expected.get(name):
            return f"{name}: {path} differs from the file on the driver"
        verified.add(name)
    return None
