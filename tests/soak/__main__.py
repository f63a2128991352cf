"""Watch the memory of real simulations in local workers: ``python -m tests.soak --minutes 20 --workers 2``.

Ends with 0 if the memory of driver and workers is flat, with 1 if a process grows or was replaced, with 2 if the time
was too short to judge. `tests.soak.memory` says what the bound is and why.
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
"""How long the last round may take after the time is over."""


def main() -> int:
    """Parse the command line, soak, print the table and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    series, work, code = _soak(asked.minutes * 60, asked.workers)
    verdicts = {name: judge(samples) for name, samples in series.items()}
    _print_table(verdicts, work)
    if code != 0:
        print(f"the simulations ended with {code}")
        return 1
    if len(series) > asked.workers + 1:
        print(f"{len(series) - 1} workers were seen instead of {asked.workers}: one died and was replaced")
        return 1
    states = {verdict.state for verdict in verdicts.values()}
    print(
        f"bound: {MOST_MB_PER_MIN:g} MB/min per process after warm-up, or {NOISE_MB:g} MB if that is more; "
        f"verdict: {'grows' if 'grows' in states else 'too short to judge' if 'too short' in states else 'flat'}"
    )
    return 1 if "grows" in states else 2 if "too short" in states else 0


def _soak(seconds: float, workers: int) -> tuple[dict[str, list[Sample]], str, int]:
    """Start the simulations and sample them until they end; return the samples, the work done and the exit code."""
    series: dict[int, list[Sample]] = {}
    with tempfile.TemporaryDirectory(prefix="lppm-sim-soak-") as folder:
        log = Path(folder) / "log"
        with log.open("w") as output:
            words = [sys.executable, "-m", "tests.soak.driver", str(seconds), str(workers)]
            driver = subprocess.Popen(words, stdout=output)
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
    for name, own in verdicts.items():
        print(
            f"{name:<10}{own.window_s:>7.0f} s{own.median_mb:>7.1f} MB{own.peak_mb:>7.1f} MB"
            f"{own.slope_mb_per_min:>7.2f} MB/min{own.growth_mb:>7.1f} MB  {own.state}"
        )
    print(f"work: {work}")


if __name__ == "__main__":
    sys.exit(main())
