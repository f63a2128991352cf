"""The memory of a process."""

from __future__ import annotations

import subprocess
import sys


def test_the_memory_of_a_process_that_started_another_is_not_counted() -> None:
    """A child of a large process tells its own memory, not its parent's."""
    script = (
        "import numpy as np; from benchmarks.memory import bytes_of_users\n"
        "held = np.ones(40_000_000)\n"
        "print(bytes_of_users(2, 4, (3, 4), 1e-6), held[0])"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=240
    ).stdout
    assert 0 < int(said.split()[0]) < 40_000_000 * 8 / 4
