"""Memory of a process."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.memory import bytes_of_users


@pytest.mark.usefixtures("plain_kernels")
def test_the_memory_of_the_parent_process_is_not_counted() -> None:
    """A child of a large process reports its own memory."""
    held = np.ones(40_000_000)
    assert 0 < bytes_of_users(100, 10, (6, 8), 1e-6) < held.nbytes / 4
