"""Work of a Dask worker: verify that it can take part in a run, simulate a chunk and write its part.

A worker may run on another machine or join late. Before it simulates, it verifies that it has the same version, kernels
and input files as the run's manifest states.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import pickle
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sim.components.files import Place
from sim.components.imports import refuse_stale, source_file
from sim.errors import InputError, UserError
from sim.execution.dask.connection import dask_module
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
    """A chunk, and what a worker on any machine needs to simulate it; all paths are absolute."""

    chunk: Chunk
    directory: RunDirectory
    place: Place
    token: str


def pack(chunk: Chunk, directory: RunDirectory, token: str) -> bytes:
    """Return the order to simulate a chunk as bytes, which a scheduler passes on without unpickling them.

    `token` identifies the run: workers release the memory of another run.
    """
    absolute = replace(directory, place=directory.path.absolute()) if directory.in_folder else directory
    order = _Order(chunk, absolute, chunk.point.scenario.place.absolute(), token)
    return pickle.dumps(order, protocol=pickle.HIGHEST_PROTOCOL)


def _unpack(packed: bytes) -> _Order:
    order: _Order = pickle.loads(packed)
    order.chunk.point.scenario.at(*order.place)
    return order


@dataclass
class _Desk:
    """State of one worker thread during one run."""

    token: str
    populations: PopulationCache = field(default_factory=PopulationCache)
    verified_files: set[str] = field(default_factory=set)
    manifest: RunManifest | None = None


class _Desks:
    """The desks of a worker process, one for each of its threads."""

    def __init__(self) -> None:
        self._by_thread: dict[int, _Desk] = {}

    def of(self, token: str) -> _Desk:
        """Return this thread's desk for a run; drop that of another run, whose files may have changed since."""
        thread = threading.get_ident()
        if thread not in self._by_thread or self._by_thread[thread].token != token:
            self._by_thread[thread] = _Desk(token)
        return self._by_thread[thread]

    def release(self, token: str) -> None:
        """Drop the desks of a run."""
        for thread, desk in list(self._by_thread.items()):
            if desk.token == token:
                self._by_thread.pop(thread, None)


_DESKS = _Desks()


def release(token: str) -> None:
    """Release the memory that a run occupies in this worker."""
    _DESKS.release(token)


async def release_later(token: str) -> None:
    """Release the memory of a run without a caller that waits, which Dask allows for coroutines only."""
    release(token)


def simulate(packed: bytes) -> tuple[Answer, int]:
    """Simulate a chunk and write its part; return the answer and the number of simulated queries."""
    order = _unpack(packed)
    desk = _DESKS.of(order.token)
    queries = 0

    def tick(count: int) -> None:
        nonlocal queries
        queries += count

    try:
        if (fault := _first_fault(order, desk)) is not None:
            raise RequestError(f"{dask_module().get_worker().address}, a worker, cannot take part: {fault}")
        perform(order.chunk, order.directory, desk.populations, tick)
    except BaseException as error:
        return Answer.of(order.chunk, error), queries
    return Answer("done"), queries


def fault_of_worker(packed: bytes) -> str | None:
    """Return why this worker cannot take part in a run; None if it can."""
    order = _unpack(packed)
    try:
        with interrupts.contained("it cannot load the scenario's components"):
            return _first_fault(order, _Desk(order.token))
    except UserError as error:
        return str(error)


def _first_fault(order: _Order, desk: _Desk) -> str | None:
    """Compare this worker with the manifest: version and kernels once, each file when it is first needed."""
    if desk.manifest is None:
        if not order.directory.has("manifest.json"):
            return f"it does not see {order.directory}: not a shared folder"
        manifest = order.directory.manifest()
        version = importlib.metadata.version("lppm-sim")
        if manifest.lppm_sim != version:
            return f"it has version {version} of lppm-sim, the run is made by {manifest.lppm_sim}: {SAME_ENVIRONMENT}"
        kind = kernels.describe()
        if manifest.kernels.split()[0] != kind.split()[0]:
            return f"its kernels are {kind}, the run is made with {manifest.kernels}: see {kernels.VARIABLE}"
        desk.manifest = manifest
    return _differing_file(order.chunk.point.scenario, desk.manifest.files, desk.verified_files)


def _differing_file(scenario: Scenario, expected: Mapping[str, str], verified: set[str]) -> str | None:
    """Return the first input file or custom component that differs from the driver's, if any; add to `verified`."""
    components, access = scenario.own_components(), scenario.place.code
    for name in {*scenario.files(), *components} - verified:
        try:
            if name in components:
                refuse_stale(name, access)
            path = source_file(name, access) if name in components else scenario.locate(name)
            fingerprint = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, ValueError, InputError) as error:
            return str(error)
        if fingerprint != expected.get(name):
            return f"{name}: {path} is another one than where the run was started"
        verified.add(name)
    return None
