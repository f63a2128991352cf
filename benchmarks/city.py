"""Rows about a whole city: cost and memory of many users beside few, and two Dask workers beside one.

`main` is the measured driver: it runs a small study first, so that imports, compilation and the start of workers do not
count, then the study itself.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from multiprocessing import active_children
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.memory import main_of, resident
from benchmarks.scale import Scale
from benchmarks.targets import Measurement, Skipped
from benchmarks.timing import Samples
from sim.errors import UserError
from sim.execution.pool import usable_cores

_WARM_UP_USERS = 200
_FILE_BLOCK = 100_000


class _Cost(NamedTuple):
    """Cost of a study."""

    queries: int
    cpu_s: float
    """CPU time of driver and workers."""
    wall_s: float
    driver_bytes: float
    worker_bytes: float
    """Peak memory of the largest worker; 0 without workers."""


def measure_cost(scale: Scale) -> Measurement:
    """Measure the CPU time of a query of SP-Exp in a large population, beside that in a small one."""
    samples = {}
    for mobility in ("favourites", "replay"):
        few, many = (_study(scale, mobility, users) for users in (scale.few_citizens, scale.citizens))
        samples[mobility] = Samples((many.cpu_s / many.queries,), (few.cpu_s / few.queries,))
    worst = max(samples.values(), key=lambda sample: sample.measured[0] / sample.limit[0])
    return Measurement(*worst.best, samples, note=_note(scale))


def measure_memory(scale: Scale) -> Measurement:
    """Measure the peak memory of the driver and of a worker in a large population, beside a small one."""
    samples = {}
    for mobility in ("favourites", "replay"):
        few, many = (_study(scale, mobility, users) for users in (scale.few_citizens, scale.citizens))
        samples[f"driver, {mobility}"] = Samples((many.driver_bytes,), (few.driver_bytes,))
        samples[f"worker, {mobility}"] = Samples((many.worker_bytes,), (few.worker_bytes,))
    worst = max(samples, key=lambda case: samples[case].measured[0] / samples[case].limit[0])
    return Measurement(*samples[worst].best, samples, note=f"largest: {worst}; {_note(scale)}")


def measure_dask(scale: Scale) -> Measurement:
    """Time one simulation on two Dask workers, beside one."""
    if usable_cores() < 2:
        raise Skipped("the machine has only one core")
    try:
        two, one = (_run_in_process(scale, "favourites", scale.dask_users, ["dask", workers]) for workers in (2, 1))
    except UserError as error:
        raise Skipped(str(error)) from error
    note = f"{scale.dask_users:,} users x {scale.citizen_queries} queries, wall-clock time without start-up"
    return Measurement(two.wall_s, one.wall_s, note=note)


def _note(scale: Scale) -> str:
    return f"{scale.citizens:,} users beside {scale.few_citizens:,}, {scale.citizen_queries} queries each, two workers"


_studies: dict[tuple[Scale, str, int], _Cost] = {}


def _study(scale: Scale, mobility: str, users: int) -> _Cost:
    """Return the cost of a study, run once for the rows about time and memory."""
    key = (scale, mobility, users)
    if key not in _studies:
        _studies[key] = _run_in_process(scale, mobility, users, ["workers", 2])
    return _studies[key]


def _run_in_process(scale: Scale, mobility: str, users: int, pool: list[Any]) -> _Cost:
    work = {"mobility": mobility, "users": users, "queries": scale.citizen_queries, "pool": pool}
    return _Cost(*main_of(__name__, json.dumps(work)))


def _scenario(mobility: Any, users: int, queries: int) -> dict[str, Any]:
    return {
        "name": "city",
        "world": {"grid": "san_francisco"},
        "users": {"count": users, "queries": queries, "mobility": mobility},
        "training": {"others": {"kind": "others", "count": 50, "queries": 50, "mobility": "favourites"}},
        "lppms": ["SP-Exp"],
        "attacks": ["sporadic"],
        "record": {"log": "summary", "window": queries, "expected": False, "snapshots": []},
    }


def write_traces(path: Path, users: int, queries: int) -> None:
    """Write a trace file of people who visit a few cells each, block by block."""
    rng = np.random.default_rng(0)
    fields: dict[str, Any] = {"user": pa.string(), "time_s": pa.int64(), "cell": pa.int64()}
    schema = pa.schema(fields)
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, users, _FILE_BLOCK):
            count = min(_FILE_BLOCK, users - first)
            places = rng.integers(250, size=(count, 4))
            cells = np.take_along_axis(places, rng.integers(4, size=(count, queries)), axis=1)
            names = [f"p{number:07d}" for number in range(first, first + count)]
            users_of_rows = pa.array(names).take(np.repeat(np.arange(count), queries))
            times_s = pa.array(np.tile(np.arange(queries) * 3600, count))
            writer.write_table(pa.table([users_of_rows, times_s, pa.array(cells.ravel())], schema=schema))


def _open_pool(kind: str, workers: int) -> Any:
    if kind == "dask":
        from sim.execution.dask.cluster import Cluster

        return Cluster("local", workers)
    from sim.execution.local_pool import Workers

    return Workers(workers)


def _cpu_s() -> float:
    """Return the CPU time of this process and its living children in s."""
    pids = [os.getpid(), *(child.pid for child in active_children())]
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    return sum(int(own[11]) + int(own[12]) for own in fields) / os.sysconf("SC_CLK_TCK")  # user and system time


def _peaks() -> list[int]:
    """Return the peak memory of each living child in bytes."""
    statuses = [Path(f"/proc/{child.pid}/status").read_text() for child in active_children()]
    return [int(line.split()[1]) * 1024 for text in statuses for line in text.splitlines() if line.startswith("VmHWM")]


def main() -> None:
    """Run the study in the first argument and print its cost as JSON."""
    from sim.execution.run import run
    from sim.scenario.models import Scenario

    work = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        mobility = work["mobility"]

        def scenario(users: int) -> Scenario:
            moves: Any = mobility
            if mobility == "replay":
                path = Path(folder) / f"traces-{users}.parquet"
                write_traces(path, users, work["queries"])
                moves = {"kind": "replay", "file": str(path)}
            return Scenario.model_validate(_scenario(moves, users, work["queries"]))

        pool = _open_pool(*work["pool"])
        run(scenario(_WARM_UP_USERS), out=Path(folder) / "warm-up", pool=pool, chunk_queries=_WARM_UP_USERS * 5)
        study = scenario(work["users"])
        cpu_s, began = _cpu_s(), perf_counter()
        run(study, out=Path(folder) / "run", pool=pool)
        wall_s, cpu_s = perf_counter() - began, _cpu_s() - cpu_s
        cost = _Cost(work["users"] * work["queries"], cpu_s, wall_s, resident()[1], max(_peaks(), default=0))
        pool.close()
    print(json.dumps(cost))
