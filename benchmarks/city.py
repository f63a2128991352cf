"""Rows about a whole city: cost and memory of many users beside few, and two Dask workers beside one.

`main` is the measured driver of a Dask cluster: it runs a small study first, so that imports, compilation and the start
of workers do not count, then the study itself.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks.memory import main_of
from benchmarks.population import QUERIES, Costs, costs, scenario
from benchmarks.scale import Scale
from benchmarks.targets import Measurement, Skipped
from benchmarks.timing import Samples
from sim.errors import UserError
from sim.execution.pool import usable_cores

_WARM_UP_USERS = 1_000


def measure_cost(scale: Scale) -> Measurement:
    """Measure the CPU time of a query of SP-Exp in a large population, beside that in a small one."""
    samples = {name: Samples((many.query_s,), (few.query_s,)) for name, (few, many) in _populations(scale).items()}
    worst = max(samples.values(), key=lambda sample: sample.measured[0] / sample.limit[0])
    return Measurement(*worst.best, samples, note=_note(scale))


def measure_memory(scale: Scale) -> Measurement:
    """Measure the peak memory of a process that is driver and worker in one, tables included."""
    samples = {
        name: Samples((many.peak_bytes,), (few.peak_bytes,)) for name, (few, many) in _populations(scale).items()
    }
    worst = max(samples.values(), key=lambda sample: sample.measured[0] / sample.limit[0])
    return Measurement(*worst.best, samples, note=_note(scale))


_measured: dict[tuple[int, bool], Costs] = {}


def _populations(scale: Scale) -> dict[str, tuple[Costs, Costs]]:
    """Return the costs of the small and the large population, measured once for both rows."""
    for users in (scale.few_citizens, scale.citizens):
        for replay in (False, True):
            if (users, replay) not in _measured:
                _measured[users, replay] = costs(users, replay=replay)
    return {
        name: (_measured[scale.few_citizens, replay], _measured[scale.citizens, replay])
        for name, replay in {"favourites": False, "replay": True}.items()
    }


def _note(scale: Scale) -> str:
    return f"{scale.citizens:,} users beside {scale.few_citizens:,}, {QUERIES} queries each, favourites and replay"


def measure_dask(scale: Scale) -> Measurement:
    """Time one simulation on two Dask workers, beside one."""
    if usable_cores() < 2:
        raise Skipped("the machine has only one core")
    try:
        two_s, one_s = (main_of(__name__, json.dumps([scale.dask_users, workers])) for workers in (2, 1))
    except UserError as error:
        raise Skipped(str(error)) from error
    note = f"{scale.dask_users:,} users x {QUERIES} queries, wall-clock time without start-up and tables"
    return Measurement(two_s, one_s, note=note)


def main() -> None:
    """Run a study on a Dask cluster of this machine and print the wall-clock time of its simulations in s."""
    from sim.execution.dask.cluster import Cluster
    from sim.execution.run import run
    from sim.simulation.progress import Silent

    class LastChunk(Silent):
        at_s = 0.0

        def end_chunk(self) -> None:
            self.at_s = perf_counter()

    users, workers = json.loads(sys.argv[1])
    pool = Cluster("local", workers)
    with tempfile.TemporaryDirectory() as folder:
        run(scenario(min(_WARM_UP_USERS, users)), out=Path(folder) / "warm-up", pool=pool, figures=False)
        began_s, last = perf_counter(), LastChunk()
        run(scenario(users), out=Path(folder) / "run", pool=pool, figures=False, progress=last)
        pool.close()
    print(json.dumps(last.at_s - began_s))
