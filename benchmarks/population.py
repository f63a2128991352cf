"""Cost of large populations: CPU time per query, memory and disk space, for synthetic and for recorded users.

    python -m benchmarks.population 1000 100000          # synthetic users (favourites)
    python -m benchmarks.population 1000 100000 --replay # the same users, written to a trace file first

Each population is simulated in a new process, which is driver and worker in one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.memory import main_of, resident
from sim.execution.run import run
from sim.inference import kernels
from sim.mobility.synthetic.favourites import Favourites, FavouritesParameters
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.simulation.progress import Silent
from sim.world import Grid

QUERIES = 20
"""Number of queries of each user."""
_BLOCK = 10_000
_WARM_UP_USERS = 50


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured costs of one population."""

    users: int
    query_s: float
    """CPU time of a query in s, without the tables at the end."""
    simulation_bytes: int
    """Peak memory until the last block, imports included."""
    peak_bytes: int
    """Peak memory including the tables at the end."""
    row_bytes: float
    """Size of the event log on disk for each of its rows."""


class _Finished(Silent):
    """Progress callback that records CPU time and memory at the end of each block."""

    cpu_s = 0.0
    peak_bytes = 0

    def end_chunk(self) -> None:
        """Record the state after a block."""
        self.cpu_s, self.peak_bytes = process_time(), resident()[1]


def scenario(users: int, file: Path | None = None) -> Scenario:
    """Return a scenario with SP-Exp and a sporadic attack on the grid of San Francisco."""
    mobility: Any = "favourites" if file is None else {"kind": "replay", "file": str(file)}
    return Scenario.model_validate(
        {
            "name": "population",
            "replications": 1,
            "world": {"grid": "san_francisco"},
            "users": {"count": users, "queries": QUERIES, "mobility": mobility},
            "training": {"others": {"kind": "others", "mobility": "favourites", "count": 100, "queries": QUERIES}},
            "lppms": ["SP-Exp"],
            "attacks": ["sporadic"],
            "record": "summary",
        }
    )


def write_traces(users: int, file: Path) -> None:
    """Write a Parquet file with the visits of synthetic users, some thousand users at a time."""
    grid = Grid.san_francisco()
    people = Favourites(FavouritesParameters(), locations=grid, seed=1)
    names = people.users(users)
    schema = pa.Schema.from_pandas(pd.DataFrame({"user": ["a"], "time_s": [0], "cell": [0]}), preserve_index=False)
    with pq.ParquetWriter(file, schema) as writer:
        for first in range(0, users, _BLOCK):
            rows = [
                (user, visit.time_s, visit.cell)
                for user in names[first : first + _BLOCK]
                for visit in islice(people.visits(user, stream(1, "moves", user, 0)), QUERIES)
            ]
            writer.write_table(pa.Table.from_pandas(pd.DataFrame(rows, columns=schema.names), schema))


def costs(users: int, *, replay: bool = False) -> Costs:
    """Measure a population in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "traces.parquet"
        if replay:
            write_traces(users, file)
        work = {"users": users, "file": str(file) if replay else None, "out": f"{folder}/run"}
        return Costs(**main_of("benchmarks.population", json.dumps(work)))


def main() -> None:
    """Simulate the population in the first argument and print its costs."""
    work = json.loads(sys.argv[1])
    kernels.compiled()
    finished = _Finished()
    study = scenario(work["users"], None if work["file"] is None else Path(work["file"]))
    run(scenario(_WARM_UP_USERS), out=work["out"] + "-warm-up", figures=False)  # late imports do not count
    began_s = process_time()
    result = run(study, out=work["out"], figures=False, progress=finished)
    parts = [result.run.part_path(part) for part in result.run.parts()]
    rows = sum(result.run.read_part(part, []).num_rows for part in result.run.parts())
    size = sum(len(part.read_bytes()) for part in parts)
    measured = Costs(
        users=work["users"],
        query_s=(finished.cpu_s - began_s) / (work["users"] * QUERIES),
        simulation_bytes=finished.peak_bytes,
        peak_bytes=resident()[1],
        row_bytes=size / rows,
    )
    print(json.dumps(asdict(measured)))


def _table() -> None:
    parser = argparse.ArgumentParser(description="Measure the cost of large populations.")
    parser.add_argument("users", type=int, nargs="+", help="numbers of users; the first is the reference")
    parser.add_argument("--replay", action="store_true", help="replay the users from a trace file")
    options = parser.parse_args()
    print(f"{'users':>10} {'us/query':>10} {'ratio':>6} {'MB':>6} {'ratio':>6} {'MB, tables':>11} {'bytes/row':>10}")
    reference: Costs | None = None
    for users in options.users:
        own = costs(users, replay=options.replay)
        reference = reference or own
        print(
            f"{users:>10,} {own.query_s * 1e6:>10.1f} {own.query_s / reference.query_s:>6.2f} "
            f"{own.simulation_bytes / 1e6:>6.0f} {own.simulation_bytes / reference.simulation_bytes:>6.2f} "
            f"{own.peak_bytes / 1e6:>11.0f} {own.row_bytes:>10.1f}",
            flush=True,
        )


if __name__ == "__main__":
    _table()
