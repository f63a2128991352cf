"""One thread for linear algebra: limits are restored, and estimates do not depend on the number of threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NESTED = """
import numpy
from threading import Barrier, Thread
from sim.inference.blas_threads import _threaded, one_blas_thread

def counts():
    return [library.num_threads for library in _threaded()]

before = counts()
assert before and all(count == 2 for count in before), before
with one_blas_thread():
    with one_blas_thread():
        assert set(counts()) == {1}
    assert set(counts()) == {1}
assert counts() == before

inside, left = Barrier(2), Barrier(2)
def first():
    with one_blas_thread():
        inside.wait()
    left.wait()
def second():
    with one_blas_thread():
        inside.wait()
        left.wait()  # the first block has ended
        assert set(counts()) == {1}
threads = [Thread(target=work) for work in (first, second)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert counts() == before
try:
    with one_blas_thread():
        raise KeyError
except KeyError:
    assert counts() == before
print("passed")
"""

ESTIMATE = """
import hashlib
import numpy as np
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters

n_cells, reports = 250, 3_000
places = np.abs(np.subtract.outer(np.arange(n_cells), np.arange(n_cells)))
rng = np.random.default_rng(1)
belief = EstimatedProfile(EstimatedProfileParameters(), initial_profile=np.full(n_cells, 1 / n_cells))
for time_s in range(reports):
    belief._learn(time_s, np.exp(-rng.uniform(0.05, 0.5) * places[rng.choice([20, 90, 91, 200]) + rng.integers(9)]))
print(hashlib.sha256(belief.prior(reports).tobytes()).hexdigest())
"""


def output(program: str, threads: str, kernels: str = "") -> str:
    environment = os.environ | dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads)
    environment["LPPM_SIM_KERNELS"] = kernels
    command = [sys.executable, "-c", program]
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=240)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


ONE_THREAD = """
from sim.inference.blas_threads import _threaded, one_blas_thread
with one_blas_thread():
    print(_threaded())
"""


def test_one_thread_needs_no_limit() -> None:
    assert output(ONE_THREAD, "1") == "()"


def test_limits_are_nested_shared_and_restored() -> None:
    assert output(NESTED, "2") == "passed"


@pytest.mark.parametrize("kernels", ["", "plain"])
def test_estimate_has_the_same_bits_for_any_number_of_threads(kernels: str) -> None:
    assert output(ESTIMATE, "1", kernels) == output(ESTIMATE, "2", kernels)
