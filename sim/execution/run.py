"""Run a scenario: plan its chunks, simulate them round by round into a run directory, then write the results."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from sim.analysis.result import Result
from sim.components.permission import AllowCode
from sim.execution.calibration.points import has_realised_budgets, with_strengths
from sim.execution.chunks import FailedSimulation
from sim.execution.failures import FailedChunks, describe_failure
from sim.execution.finish import finish
from sim.execution.inputs import default_directory, permitted
from sim.execution.local_pool import Workers
from sim.execution.manifest import describe_run, identity_of
from sim.execution.plan import Chunk, refuse_shard, share_of
from sim.execution.pool import Failure, InProcess, Pool, perform, to_stderr
from sim.execution.population_cache import PopulationCache
from sim.execution.resume import intact_parts, refuse_another_run, refuse_other_inputs
from sim.execution.stopping import Round, rounds
from sim.execution.study import Study
from sim.execution.training import count_training
from sim.scenario.models import Scenario
from sim.scenario.sweep import columns
from sim.simulation import interrupts
from sim.simulation.progress import Progress, Silent, Tally, explained_interrupt
from sim.storage.errors import RequestError
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import DamagedManifestError, PartCheck, RunDirectory


def run(
    scenario: Scenario,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    figures: bool = True,
    workers: int | None = None,
    dask: str | None = None,
    pool: Pool | None = None,
    shard: tuple[int, int] | None = None,
    chunk: str | None = None,
    chunk_queries: int | None = None,
    dask_timeout: float | None = None,
    allow_code: AllowCode | None = None,
) -> Result:
    """Run a scenario into a run directory and return its result; resume the run if the directory holds part of it.

    A resumed run does not repeat finished chunks. Results depend on the scenario alone, not on `workers`, `dask`,
    `pool`, `shard` or `chunk_queries`.

    - `out`: run directory, a path or URL (default: ``outputs/<name>-<digest>``).
    - `progress`: progress callback (default: none).
    - `figures`: whether to write figures and the report besides the tables.
    - `workers`: number of worker processes; 1, the default, simulates in this process.
    - `dask`: address of a Dask scheduler, path of a scheduler file, or ``"local"`` for a cluster of `workers` processes
      on this machine (default: one for each core).
    - `pool`: open pool that simulates the chunks; it stays open.
    - `shard`: (i, N), simulate only the i-th of N shares and write no results. When all shares exist, a run without
      `shard` writes the results.
    - `chunk`: id of the only chunk to simulate, in this process; an error in it is raised unchanged.
    - `chunk_queries`: minimum number of queries in a chunk (default: `sim.execution.plan.CHUNK_QUERIES`).
    - `dask_timeout`: maximum time in seconds to wait while a cluster has no worker (default: one hour; two minutes
      for ``"local"``).
    - `allow_code`: permission to import custom components (``module:Class``): True, or the only folders to import
      from (default: as allowed by `load` or the environment).

    Raises `FailedChunks` at the end if chunks failed; all other chunks are written. An exception of component code that
    would end the program, such as SystemExit, is a failure as well. Ctrl-C and SIGTERM raise `Interrupted`, a
    KeyboardInterrupt whose message states which chunks are saved.
    """
    tally = Tally(progress or Silent())
    with interrupts.recorded(), explained_interrupt(tally), interrupts.contained(f"scenario {scenario.name!r}"):
        study = Study.of(permitted(scenario, allow_code), chunk_queries=chunk_queries)
        if shard is not None:
            refuse_shard(shard, study.plan)
        if chunk is not None:
            if shard is not None or dask is not None or workers is not None:
                raise RequestError(
                    "`chunk` simulates one chunk in this process: omit `shard`, `dask` and `workers`",
                    code="exclusive-options",
                )
            study = _calibrated(study, out, InProcess(study.populations), chunk_queries)
            return _run_chunk(chunk, _Run.open(study, out, thorough=False, rebuild=False), tally)
        for note in study.notes():
            to_stderr(note)
        with ExitStack() as stack:
            used = None
            if has_realised_budgets(study.points):
                used = stack.enter_context(_pool(pool, workers, dask, study, dask_timeout))
                study = _calibrated(study, out, used, chunk_queries)
            # Thorough checks read all parts: each of many shards would read the parts of all others.
            opened = _Run.open(study, out, thorough=shard is None, rebuild=True).with_points()
            stack.callback(opened.directory.clean)  # killed workers may leave temporary files
            done = intact_parts(opened.parts)
            used = used or stack.enter_context(_pool(pool, workers, dask, study, dask_timeout))
            last_round, failures = _simulate(opened, used, tally, shard, done)
        described = [describe_failure(failure, opened.directory, study.scenario, study.plan) for failure in failures]
        if shard is None:
            return finish(opened.directory, opened.manifest, study.points, last_round, described, figures=figures)
        if described:
            raise FailedChunks(opened.directory, described, len(share_of(last_round.chunks, *shard)), shard=shard)
        return Result(opened.directory)


def _pool(
    pool: Pool | None, workers: int | None, dask: str | None, study: Study, dask_timeout: float | None
) -> AbstractContextManager[Pool]:
    """Return a context with the given pool, which stays open, or with a new one."""
    return nullcontext(pool) if pool else closing(open_pool(workers, dask, study.populations, dask_timeout))


def _calibrated(study: Study, out: str | Path | None, pool: Pool, chunk_queries: int | None) -> Study:
    """Replace realised budgets by the strengths that simulations find; results in the run directory are reused."""
    if not has_realised_budgets(study.points):
        return study
    identity = identity_of(study)
    place = out if out is not None else default_directory(study.scenario, study.files)
    directory = replace(RunDirectory.create(place), digest=identity.digest)
    refuse_other_inputs(directory, identity, study)
    points, calibrations = with_strengths(study.points, directory, pool, study.populations)
    return study.calibrated(points, calibrations, chunk_queries)


def open_pool(
    workers: int | None, dask: str | None, populations: PopulationCache | None = None, dask_timeout: float | None = None
) -> Pool:
    """Open a pool: this process, `workers` processes, or a Dask cluster."""
    if dask is None and dask_timeout is not None:
        raise RequestError(
            "dask_timeout (--dask-timeout) limits the wait for Dask workers and needs dask (--dask)",
            code="missing-option",
        )
    if dask is not None:
        from sim.execution.dask.cluster import Cluster

        return Cluster(dask, workers, timeout_s=dask_timeout)
    return InProcess(populations) if workers is None or workers == 1 else Workers(workers)


@dataclass(frozen=True, slots=True)
class _Run:
    """Study with its run directory."""

    study: Study
    directory: RunDirectory
    manifest: RunManifest
    parts: list[PartCheck]
    """Parts that the directory already holds."""

    @classmethod
    def open(cls, study: Study, out: str | Path | None, *, thorough: bool, rebuild: bool) -> _Run:
        """Create the run directory, or open it if it holds the same run.

        With `thorough` all parts are read and verified; with `rebuild` a damaged manifest is ignored and later
        replaced.
        """
        manifest = describe_run(study)
        created = RunDirectory.create(out if out is not None else default_directory(study.scenario, study.files))
        directory = replace(created, digest=manifest.identity.digest)
        parts = list(directory.survey(thorough=thorough))
        refuse_another_run(directory, manifest, study, parts, rebuild=rebuild)
        return cls(study, directory, manifest, parts)

    def with_points(self) -> _Run:
        """Write the points of the sweep and their values, and record the checksum of the file in the manifest."""
        points = self.study.points
        values = columns(points)
        frame = pd.DataFrame([{"point": point.index, **own} for point, own in zip(points, values, strict=True)])
        written = self.directory.write_csv("points.csv", frame).read_bytes()
        tables = {"points.csv": hashlib.sha256(written).hexdigest()}
        return replace(self, manifest=self.manifest.updated(tables=tables))

    def planned_parts(self) -> list[str] | None:
        """Return the parts listed by the manifest on disk; None if it is missing or damaged."""
        try:
            return self.directory.manifest().parts if self.directory.has("manifest.json") else None
        except DamagedManifestError:
            return None


def _simulate(
    opened: _Run, pool: Pool, progress: Tally, shard: tuple[int, int] | None, done: set[str]
) -> tuple[Round, list[Failure]]:
    """Simulate all unfinished chunks, round by round; return the last round and the failures."""
    study, directory = opened.study, opened.directory
    failures: list[Failure] = []
    started = False
    for current in rounds(study.plan, directory):
        share = current.chunks if shard is None else share_of(current.chunks, *shard)
        todo = [chunk for chunk in share if chunk.id not in done]
        # An interrupted run with more replications may have left more parts than this round plans.
        parts = sorted({chunk.id for chunk in current.chunks} | set(directory.parts()))
        if todo or opened.planned_parts() != parts:
            directory.write_manifest(opened.manifest.updated(parts=parts, repetitions=current.described()))
        if todo:
            count_training(todo, study.populations, pool, directory)
            expected = sum(map(study.queries, todo))
            progress.start(expected, chunks=len(todo), skipped=0 if started else len(share) - len(todo))
            started = True
            progress.plan(directory, chunks=len(share), kept=len(share) - len(todo))
            for ended in pool.run(todo, directory, progress.advance):
                progress.end_chunk()
                queries = study.queries(ended.chunk) if ended.queries is None else ended.queries
                if isinstance(ended, Failure):
                    failures.append(ended)
                    progress.give_up(queries)
                else:
                    done.add(ended.chunk.id)
                    progress.keep(queries)
        if failures or shard is not None:
            break
    if not started:
        progress.plan(directory, chunks=len(share), kept=len(share))
        progress.start(0, chunks=0, skipped=len(share))
    study.plan.chunks(current.times, directory.parts())  # raises if a concurrent run has written overlapping parts
    return current, failures


def _run_chunk(chunk_id: str, opened: _Run, progress: Progress) -> Result:
    """Simulate one chunk in this process; an error in it is raised unchanged, with its traceback."""
    chunk = _chunk_of(chunk_id, opened)
    progress.start(opened.study.queries(chunk), chunks=1, skipped=0)
    error: BaseException | None = None
    try:
        perform(chunk, opened.directory, opened.study.populations, progress.advance)
    except FailedSimulation as failed:
        error = failed.__cause__
    if error is not None and not isinstance(error, Exception):
        raise RuntimeError(interrupts.described(error)) from error
    if error is not None:
        raise error
    progress.end_chunk()
    return Result(opened.directory)


def _chunk_of(chunk_id: str, opened: _Run) -> Chunk:
    plan = opened.study.plan
    if (chunk := plan.named(chunk_id)) is None:
        examples = ", ".join(chunk.id for chunk in plan.chunks(existing=opened.directory.parts())[:3])
        raise RequestError(f"this run has no chunk {chunk_id}: its chunks are {examples} ...", code="unknown-chunk")
    return chunk
