"""Measure the memory of many PEB users in a separate process, whose `main` is in this module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.people import DESIGNS, City, timed_run
from sim.attack.optimal import OptimalAttack
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.lppm.mechanism import Mechanism

LIMIT_S = 3600.0
"""Time limit of a measurement in a separate process."""
_STATUS = Path("/proc/self/status")


def environment() -> dict[str, str]:
    """Return an environment in which a process can import this package from any folder."""
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}


def main_of(module: str, argument: str) -> Any:
    """Run `main` of a module in a new process, and return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", f"from {module} import main; main()", argument],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_S,
        env=environment(),
    )
    return json.loads(done.stdout)


def bytes_of_users(users: int, queries: int, shape: tuple[int, int], gap: float) -> int:
    """Return the maximum growth in bytes of the memory of a new process while it simulates PEB users."""
    work = json.dumps({"users": users, "queries": queries, "shape": shape, "gap": gap})
    return int(main_of(__name__, work))


def _simulate(users: int, queries: int, shape: tuple[int, int], gap: float) -> None:
    """Simulate users with PEB-Exp and one sporadic attack."""
    city = City(shape)
    traces = [city.trace(f"user-{number}", queries) for number in range(users)]
    profiles = {trace.user: city.statistics(trace).profile for trace in traces}
    training = city.statistics(city.trace("another user", queries)).profile
    design = DESIGNS["Exp 1/km"](distance=city.distance)

    def lppm_of(_user: str) -> Mechanism:
        return Mechanism(
            belief=EstimatedProfile(EstimatedProfileParameters(gap=gap), initial_profile=training), design=design
        )

    attack = OptimalAttack(belief_of=lambda user: FixedProfile(profile=profiles[user]), distance=city.distance)
    timed_run(city, traces, lppm_of, attack, stamped=False)


def resident() -> tuple[int, int]:
    """Return the current and the peak memory of this process in bytes."""
    if _STATUS.exists():
        # Not getrusage: on Linux its maximum includes that of the parent process.
        fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
        return int(fields["VmRSS"].split()[0]) * 1024, int(fields["VmHWM"].split()[0]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return most, most


def main() -> None:
    """Simulate the work in the first argument and print the growth of memory."""
    work = json.loads(sys.argv[1])
    work["shape"] = tuple(work["shape"])
    _simulate(**{**work, "users": 2, "queries": 5})  # late imports and compilation do not count
    before, _ = resident()
    _simulate(**work)
    print(json.dumps(resident()[1] - before))
