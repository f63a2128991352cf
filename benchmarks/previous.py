"""Row about an earlier version: the simulation of a shipped scenario beside the same at an earlier commit.

The sources of the earlier version come from the history of the repository; without it the row is skipped.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from benchmarks.memory import LIMIT_S
from benchmarks.scale import Scale
from benchmarks.targets import Measurement, Skipped
from benchmarks.timing import Samples

BEFORE = "5521a5e3b03c"
"""Last commit before larger kernels and blocks of users."""
ROOT = Path(__file__).parents[1]
_SIMULATE = """
import json, sys, time
import sim
from sim.execution.chunks import run_chunk
from sim.execution.study import Study
study = Study.of(sim.load(sys.argv[1], settings=json.loads(sys.argv[2])))
chunks = study.plan.chunks()
for chunk in chunks:  # builds the population, loads the kernels
    run_chunk(chunk, study.populations)
    break
began = time.process_time()
for chunk in chunks:
    run_chunk(chunk, study.populations)
print(time.process_time() - began)
"""


def measure_checkins(scale: Scale) -> Measurement:
    """Time the simulation of `sporadic_checkins` in one process, without tables and figures."""
    scenario = ROOT / "scenarios" / "sporadic_checkins.yaml"
    settings = {"users.queries": scale.checkins_queries}
    with tempfile.TemporaryDirectory() as folder:
        _extract(Path(folder))
        for version in (Path(folder), ROOT):
            _seconds(version, scenario, settings)  # compiles the kernels
        pairs = [
            (_seconds(ROOT, scenario, settings), _seconds(Path(folder), scenario, settings))
            for _ in range(scale.long_rounds)
        ]
    samples = Samples(tuple(now for now, _ in pairs), tuple(before for _, before in pairs))
    note = f"two attacks, expected metrics, {scale.checkins_queries} queries per user, commit {BEFORE}"
    return Measurement(*samples.best, {"sporadic_checkins": samples}, note=note)


def _extract(folder: Path) -> None:
    """Write the sources of the earlier version to a folder."""
    command = ["git", "-C", str(ROOT), "archive", BEFORE, "sim"]
    try:
        archive = subprocess.run(command, capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Skipped(f"the history of the repository has no commit {BEFORE}") from error
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as sources:
        sources.extractall(folder, filter="data")


def _seconds(sources: Path, scenario: Path, settings: dict[str, int]) -> float:
    """Return the CPU time of the simulation with the package in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", _SIMULATE, str(scenario), json.dumps(settings)],
        cwd=sources,
        env=os.environ | {"PYTHONPATH": str(sources)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    return float(done.stdout)
