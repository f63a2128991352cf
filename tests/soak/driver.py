"""Simulate repeatedly in local workers: each round is a new run that is then resumed with more replications."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import sim
from sim.execution.local_pool import Workers
from sim.scenario.models import Scenario

SCENARIO = {
    "name": "soak",
    "world": {"grid": {"kind": "rectangle", "rows": 5, "cols": 5, "width_km": 6, "height_km": 6}},
    "users": {"count": 2, "queries": 15, "mobility": {"kind": "favourites", "places": 5}},
    "training": {"others": {"kind": "others", "count": 10, "queries": 40}},
    "lppms": ["SP-Exp", "MK-Exp", "PEB-Exp"],
    "attacks": ["sporadic", "markov", "sporadic-learning"],
    "record": {"posterior": True, "snapshots": [1, 10]},
    "sweep": {"lppms.*.design.epsilon_per_km": [0.5, 2]},
}
REPLICATIONS = (5, 30)


def main(seconds: float, workers: int) -> None:
    """Run rounds in one set of workers until the time is over; print one line per round."""
    os.environ["LPPM_SIM_CACHE"] = "off"
    until = time.monotonic() + seconds
    with closing(Workers(workers)) as pool, tempfile.TemporaryDirectory(prefix="lppm-sim-soak-") as folder:
        number = 0
        while time.monotonic() < until:
            out = Path(folder) / f"round-{number}"
            for replications in REPLICATIONS:
                scenario = Scenario.model_validate({**SCENARIO, "seed": number, "replications": replications})
                result = sim.run(scenario, out=out, figures=False, pool=pool, chunk_queries=1)
            rows, chunks = len(result.events()), len(result.run.parts())
            result.summary()
            shutil.rmtree(out)
            number += 1
            print(f"round {number}: {chunks} chunks, {rows} rows", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
