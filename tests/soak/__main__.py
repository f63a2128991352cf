"""Monitor the memory of long simulations in local workers: ``python -m tests.soak --minutes 20 --workers 2``.

Exit code 0: the memory of driver and workers is flat; 1: a process grows or was replaced; 2: the time was too short to
decide. `tests.soak.memory` documents the bound.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.memory import MOST_MB_PER_MIN, NOISE_MB, Sample, Verdict, children, judge, resident_mb

_EVERY_S = 2.0
_SHOWN_EVERY_S = 60.0
_PATIENCE_S = 300.0
"""Time limit of the last round after the end of the test, in seconds."""


def main() -> int:
    """Parse the command line, run the test, print the table and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    series, work, code = _soak(arguments.minutes * 60, arguments.workers)
    verdicts = {name: judge(samples) for name, samples in series.items()}
    _print_table(verdicts, work)
    if code != 0:
        print(f"the simulations ended with exit code {code}")
        return 1
    if len(series) > arguments.workers + 1:
        print(f"found {len(series) - 1} workers instead of {arguments.workers}: one died and was replaced")
        return 1
    states = {verdict.state for verdict in verdicts.values()}
    print(
        f"bound: {MOST_MB_PER_MIN:g} MB/min per process after warm-up, or {NOISE_MB:g} MB if that is more; "
        f"verdict: {'grows' if 'grows' in states else 'too short to decide' if 'too short' in states else 'flat'}"
    )
    return 1 if "grows" in states else 2 if "too short" in states else 0


def _soak(seconds: float, workers: int) -> tuple[dict[str, list[Sample]], str, int]:
    """Run the simulations and sample their memory; return the samples, the work done and the exit code."""
    series: dict[int, list[Sample]] = {}
    with tempfile.TemporaryDirectory(prefix="lppm-sim-soak-") as folder:
        log = Path(folder) / "log"
        with log.open("w") as output:
            arguments = [sys.executable, "-m", "tests.soak.driver", str(seconds), str(workers)]
            driver = subprocess.Popen(arguments, stdout=output)
        began = shown = time.monotonic()
        try:
            while driver.poll() is None and (now := time.monotonic()) - began < seconds + _PATIENCE_S:
                for pid in (driver.pid, *children(driver.pid)):
                    if (size := resident_mb(pid)) is not None:
                        series.setdefault(pid, []).append((now - began, size))
                if now - shown >= _SHOWN_EVERY_S:
                    shown = now
                    sizes = ", ".join(f"{samples[-1][1]:.0f}" for samples in series.values())
                    print(f"{now - began:6.0f} s  driver, workers: {sizes} MB; {_last_line(log)}", flush=True)
                time.sleep(min(_EVERY_S, seconds / 20))
        finally:
            driver.kill()
            driver.wait()
        names = {pid: "driver" if pid == driver.pid else f"worker {i}" for i, pid in enumerate(series)}
        return {names[pid]: samples for pid, samples in series.items()}, _last_line(log), driver.returncode


def _last_line(log: Path) -> str:
    lines = log.read_text().splitlines()
    return lines[-1] if lines else "no round has ended yet"


def _print_table(verdicts: dict[str, Verdict], work: str) -> None:
    print(f"\n{'process':<10}{'window':>9}{'median':>10}{'peak':>10}{'slope':>14}{'growth':>10}  state")
    for name, verdict in verdicts.items():
        print(
            f"{name:<10}{verdict.window_s:>7.0f} s{verdict.median_mb:>7.1f} MB{verdict.peak_mb:>7.1f} MB"
            f"{verdict.slope_mb_per_min:>7.2f} MB/min{verdict.growth_mb:>7.1f} MB  {verdict.state}"
        )
    print(f"work: {work}")


if __name__ == "__main__":
    sys.exit(main())
