"""What a sweep costs beside its simulations: chunks, workers, the driver. Its `main` is the driver that is measured."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from sim.bench.memory import LIMIT_S, resident
from sim.bench.timing import Samples, seconds_of, side_by_side
from sim.execution.chunks import Workshop, run_chunk
from sim.execution.local_pool import Workers
from sim.execution.plan import Chunk, Plan, tasks
from sim.execution.pool import InProcess, Pool
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
    """Return a study of simulations that take a second or two, with twenty users."""
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
    """Return the chunks of a study, each of so many replications."""
    return Plan(tasks(points(scenario)), lambda _point, _lppms: joined).chunks()


def seconds_per_chunk(pool: str, count: int) -> float:
    """Return how often a pool ends a chunk that holds one query, in seconds, once it has warmed up."""
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
        raise RuntimeError("not all chunks were simulated")


def simulation_samples(rounds: int, *, queries: int = 1000) -> Samples:
    """Return what a simulation of one query takes, and beside it one of many queries."""
    (one,), (many,) = (chunks_of(short(1, queries=count)) for count in (1, queries))

    def seconds(chunk: Chunk) -> float:
        workshop = Workshop()
        run_chunk(chunk, workshop)  # the people are there from now on
        return seconds_of(lambda: run_chunk(chunk, workshop))

    return side_by_side(lambda: seconds(one), lambda: seconds(many), rounds=rounds)


def sweep_samples(replications: int, users: int, rounds: int) -> Samples:
    """Return how long a sweep takes on two workers from start to end, and beside it on one."""
    return side_by_side(
        lambda: _seconds_of_run(long(replications, users), 2),
        lambda: _seconds_of_run(long(replications, users), 1),
        rounds=rounds,
    )


def _seconds_of_run(study: Scenario, workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.json"
        file.write_text(study.model_dump_json(exclude_unset=True))
        words = [sys.executable, "-m", "sim.cli", "run", str(file), "-o", f"{folder}/run", "--no-figures"]
        began = perf_counter()
        subprocess.run([*words, "--workers", str(workers)], check=True, capture_output=True, timeout=LIMIT_S)
        return perf_counter() - began


def driver_bytes(simulations: int) -> int:
    """Return the most memory that the driver of so many short simulations on two workers ever has, in bytes."""
    script = f"from {__name__} import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, str(simulations)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    return int(json.loads(done.stdout))


def main() -> None:
    """Run so many simulations, cut into chunks as a study of that size is, and print the most memory it took."""
    simulations = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        study = short(max(simulations // 100, 1)).model_dump(mode="json", exclude_unset=True)
        study["sweep"] = {EPSILON: [round(0.01 * (step + 1), 2) for step in range(100)]}
        result = run(Scenario.model_validate(study), out=Path(folder) / "run", figures=False, workers=2)
        if result.totals().users["queries"].sum() != simulations // 100 * 100:
            raise RuntimeError("not all simulations are in the log")
    print(json.dumps(resident()[1]))
