"""Cost of a sweep besides its simulations: chunks, workers and the driver. Its `main` is the measured driver."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.memory import LIMIT_S, environment, main_of, resident
from benchmarks.timing import Samples, seconds_of, side_by_side
from sim.execution.blocks import ChunkSize
from sim.execution.chunks import run_chunk
from sim.execution.cost.estimate import estimate
from sim.execution.local_pool import Workers
from sim.execution.plan import Chunk, Plan, tasks
from sim.execution.pool import InProcess, Pool
from sim.execution.population_cache import PopulationCache
from sim.execution.run import run
from sim.scenario.models import Scenario
from sim.scenario.sweep import points
from sim.storage.run_directory import RunDirectory


def _dask() -> Pool:
    from sim.execution.dask.cluster import Cluster

    return Cluster("local", 2)


EPSILON = "lppms.*.design.epsilon_per_km"
POOLS: dict[str, Callable[[], Pool]] = {"here": InProcess, "workers": lambda: Workers(2), "dask": _dask}
_GRID = {"kind": "rectangle", "rows": 25, "cols": 10, "width_km": 9.125, "height_km": 17.0}


def short(replications: int, *, queries: int = 1) -> Scenario:
    """Return a study of simulations with one user."""
    return _study(replications, [1.0], users=1, queries=queries, lppms=["SP-Exp"], attacks=["sporadic"])


def long(replications: int, users: int) -> Scenario:
    """Return a study of simulations with several users that take one or two seconds each."""
    return _study(replications, [0.5, 1.0], users=users, queries=150, lppms=["MK-Exp", "PEB-Exp"], attacks=["markov"])


def _study(replications: int, epsilons: list[float], *, users: int, queries: int, **parts: Any) -> Scenario:
    return Scenario.model_validate(
        {
            "name": "bench",
            "replications": replications,
            "world": {"grid": _GRID},
            "users": {"count": users, "queries": queries, "mobility": "favourites"},
            "training": {"others": {"kind": "others", "count": 10, "queries": 50}},
            "sweep": {EPSILON: epsilons},
            **parts,
        }
    )


def chunks_of(scenario: Scenario, *, joined: int = 1) -> list[Chunk]:
    """Return the chunks of a study, each of `joined` replications."""
    return Plan(tasks(points(scenario)), lambda _point, _lppms: ChunkSize(joined)).chunks()


def seconds_per_chunk(pool: str, count: int) -> float:
    """Return the time in s between two finished chunks of one query, after a warm-up."""
    chunks = chunks_of(short(count + count // 4))
    workers = POOLS[pool]()
    with tempfile.TemporaryDirectory() as folder:
        directory = run(short(1), out=Path(folder) / "run", figures=False).run
        try:
            _run_all(workers, chunks[count:], directory)
            began = perf_counter()
            _run_all(workers, chunks[:count], directory)
            return (perf_counter() - began) / count
        finally:
            workers.close()


def _run_all(pool: Pool, chunks: list[Chunk], directory: RunDirectory) -> None:
    ended = sum(1 for _ in pool.run(chunks, directory, lambda _queries: None))
    if ended != len(chunks) or len(set(directory.parts()) & {chunk.id for chunk in chunks}) != ended:
        raise RuntimeError(f"{ended} of {len(chunks)} chunks were simulated")


def simulation_samples(rounds: int, *, queries: int = 1000) -> Samples:
    """Return the time in s of a simulation of one query, with one of many queries as the limit."""
    (one,), (many,) = (chunks_of(short(1, queries=count)) for count in (1, queries))

    def seconds(chunk: Chunk) -> float:
        populations = PopulationCache()
        run_chunk(chunk, populations)  # builds the population
        return seconds_of(lambda: run_chunk(chunk, populations))

    return side_by_side(lambda: seconds(one), lambda: seconds(many), rounds=rounds)


def sweep_samples(replications: int, users: int, rounds: int, *, start_up: bool) -> Samples:
    """Return the time in s of a sweep on two workers, with that on one as the limit.

    With `start_up` it is measured from start to end.
    """

    def seconds(workers: int) -> float:
        took_s = _seconds_of_run(long(replications, users), workers)
        return took_s if start_up else took_s - _seconds_of_run(short(4), workers, "--chunk-queries", "1")

    return side_by_side(lambda: seconds(2), lambda: seconds(1), rounds=rounds)


ESTIMATED: dict[str, dict[str, Any]] = {
    "learning": {"lppms": ["SP-Exp", "PEB-LH"], "replications": 3},
    "slow training for few queries": {
        "users": {"count": 40, "queries": 4, "mobility": "favourites"},
        "training": {"others": {"kind": "others", "count": 150, "queries": 200}},
        "lppms": ["SP-Exp"],
    },
    "slow mechanism at one point": {
        "users": {"count": 3, "queries": 60, "mobility": "favourites"},
        "lppms": [{"kind": "PEB-LH", "belief": {"solver": "em", "gap": 1e-9, "max_iterations": 400}}, "Exp"],
        "attacks": [],
        "record": {"expected": False},
    },
}
"""Studies whose time is difficult to estimate, as changes to a small one."""


def estimate_sample(changes: dict[str, Any]) -> Samples:
    """Return the estimated time of the simulations of a study and their CPU time, the larger one as measured."""
    study = _study(1, [0.5, 1.0, 2.0], users=3, queries=25, lppms=["SP-Exp"], attacks=["sporadic"])
    scenario = Scenario.model_validate(study.model_dump(mode="json", exclude_unset=True) | changes)
    times = estimate(scenario, limit_s=LIMIT_S).times
    if times is None:
        raise RuntimeError("the time of the study was not estimated")
    estimated_s = times.simulation_s  # this process has started already, and draws no figures
    with tempfile.TemporaryDirectory() as folder:
        began_s = process_time()
        run(scenario, out=Path(folder) / "run", figures=False)
        taken_s = process_time() - began_s
    return Samples((max(estimated_s, taken_s),), (min(estimated_s, taken_s),))


def _seconds_of_run(study: Scenario, workers: int, *options: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.json"
        file.write_text(study.model_dump_json(exclude_unset=True))
        words = [sys.executable, "-m", "sim.cli", "run", str(file), "-o", f"{folder}/run", "--no-figures"]
        words += ["--workers", str(workers), *options]
        began = perf_counter()
        subprocess.run(words, check=True, capture_output=True, timeout=LIMIT_S, env=environment())
        return perf_counter() - began


def driver_bytes(simulations: int) -> int:
    """Return the peak memory in bytes of a driver of short simulations on two workers."""
    return int(main_of(__name__, str(simulations)))


def main() -> None:
    """Run many short simulations, in chunks of the default size, and print the peak memory of this process."""
    simulations = int(sys.argv[1])
    epsilons = [round(0.01 * (step + 1), 2) for step in range(min(simulations, 100))]
    replications = simulations // len(epsilons)
    with tempfile.TemporaryDirectory() as folder:
        study = short(replications).model_dump(mode="json", exclude_unset=True)
        study["sweep"] = {EPSILON: epsilons}
        result = run(Scenario.model_validate(study), out=Path(folder) / "run", figures=False, workers=2)
        if result.totals().users["queries"].sum() != replications * len(epsilons):
            raise RuntimeError("not all simulations are in the log")
    print(json.dumps(resident()[1]))
