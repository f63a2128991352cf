"""The verdict on flat and leaking memory series, and a soak test of a few seconds; ``make soak`` runs a long one."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest

from tests.soak.memory import MOST_MB_PER_MIN, NOISE_MB, Sample, children, judge, resident_mb
from tests.support import ROOT

MINUTES = 20


def series(*, leak_mb_per_min: float = 0.0, noise_mb: float = 2.0, minutes: float = MINUTES) -> list[Sample]:
    """Return a series of 180 MB, reached within a minute, with noise, delayed release of pages, and a leak."""
    rng = Random(1)
    samples = []
    for step in range(int(minutes * 30)):
        minute = step / 30
        warming = 80.0 * max(1 - minute, 0)
        sawtooth = 3.0 * (step % 45) / 45
        samples.append((60 * minute, 180 - warming + sawtooth + rng.gauss(0, noise_mb) + leak_mb_per_min * minute))
    return samples


@pytest.mark.parametrize("noise_mb", [0.0, 2.0, 5.0])
def test_noise_and_warm_up_do_not_count_as_growth(noise_mb: float) -> None:
    verdict = judge(series(noise_mb=noise_mb))
    assert verdict.state == "flat"
    assert abs(verdict.slope_mb_per_min) < MOST_MB_PER_MIN / 2


@pytest.mark.parametrize("leak_mb_per_min", [1.0, 5.0, 100.0])
def test_leak_is_detected(leak_mb_per_min: float) -> None:
    verdict = judge(series(leak_mb_per_min=leak_mb_per_min))
    assert verdict.state == "grows"
    assert verdict.slope_mb_per_min == pytest.approx(leak_mb_per_min, abs=0.2)


def test_shrinking_memory_does_not_count_as_growth() -> None:
    assert judge(series(leak_mb_per_min=-2.0)).state == "flat"


def test_single_step_counts_as_growth() -> None:
    stepped = [(time_s, size + (3 * NOISE_MB if time_s > 800 else 0)) for time_s, size in series()]
    assert judge(stepped).state == "grows"


def test_temporary_peak_is_reported_but_does_not_count_as_growth() -> None:
    peaked = [(time_s, size + (500 if 600 < time_s < 660 else 0)) for time_s, size in series()]
    verdict = judge(peaked)
    assert verdict.state == "flat"
    assert verdict.peak_mb > 600


def test_short_series_is_undecided() -> None:
    assert judge(series(leak_mb_per_min=100, minutes=2)).state == "too short"


def test_resident_size_includes_allocated_memory() -> None:
    code = "import sys; block = b'x' * 50_000_000; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.pid in children(os.getpid())
        size = resident_mb(process.pid)
        process.kill()
    assert size is not None
    assert 50 < size < 500
    assert resident_mb(process.pid) is None


@pytest.mark.slow
def test_short_soak_test_reports_that_it_is_too_short() -> None:
    arguments = [sys.executable, "-m", "tests.soak", "--minutes", "0.02", "--workers", "2"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if line.endswith("too short")] == [
        "driver",
        "worker",
        "worker",
    ]
    assert "work: round" in done.stdout
    assert "verdict: too short to decide" in done.stdout
