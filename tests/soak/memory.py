"""Sample the memory of a process and its children, and decide whether it grows.

The bound is `MOST_MB_PER_MIN` = 0.5 MB per minute and process, with a floor of `NOISE_MB` = 8 MB over the whole
window. The allocators of NumPy, Arrow and glibc return freed pages with a delay, which changes the resident size of a
flat process by some MB. At the bound, a run of 24 hours would grow by 0.7 GB, which is acceptable.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_MB_PER_MIN = 0.5
NOISE_MB = 8.0
WARM_UP_SHARE = 0.25
"""Share of the samples that is ignored: imports, kernel compilation and caches take memory in that time."""
SHORTEST_WINDOW_S = 120.0
"""Shortest window after warm-up for which growth per minute is meaningful."""
_MOST_PAIRS_OF = 400
_MB = 1e6

Sample = tuple[float, float]
"""Seconds since the start, resident size in MB."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The development of the memory of one process after warm-up."""

    window_s: float
    slope_mb_per_min: float
    """Theil-Sen estimate: the median of the slopes of all pairs of samples."""
    growth_mb: float
    """Median of the last quarter of the window minus that of its first quarter."""
    median_mb: float
    peak_mb: float
    """Maximum of all samples, including warm-up."""
    state: str
    """``flat``, ``grows`` or ``too short``."""


def judge(samples: Sequence[Sample]) -> Verdict:
    """Return the verdict on the samples of one process, given in order of time.

    >>> judge([(float(t), 200.0) for t in range(0, 1200, 2)]).state
    'flat'
    >>> judge([(float(t), 200.0 + t / 60) for t in range(0, 1200, 2)]).state
    'grows'
    """
    if not samples:
        raise ValueError("samples must have at least one element, got 0")
    window = samples[int(len(samples) * WARM_UP_SHARE) :]
    window_s = window[-1][0] - window[0][0]
    slope = slope_per_min(window)
    quarter = max(len(window) // 4, 1)
    first, last = (statistics.median(size for _, size in part) for part in (window[:quarter], window[-quarter:]))
    growth = last - first
    allowed_mb = max(MOST_MB_PER_MIN * window_s / 60, NOISE_MB)
    grows = slope * window_s / 60 > allowed_mb or growth > allowed_mb
    return Verdict(
        window_s=window_s,
        slope_mb_per_min=slope,
        growth_mb=growth,
        median_mb=statistics.median(size for _, size in window),
        peak_mb=max(size for _, size in samples),
        state="too short" if window_s < SHORTEST_WINDOW_S else "grows" if grows else "flat",
    )


def slope_per_min(samples: Sequence[Sample]) -> float:
    """Return the Theil-Sen slope per minute of evenly thinned samples; 0 if there are fewer than two.

    >>> slope_per_min([(0, 1.0), (60, 2.0), (120, 99.0), (180, 4.0), (240, 5.0)])
    1.0
    """
    thinned = samples[:: -(-len(samples) // _MOST_PAIRS_OF) or 1]
    slopes = [60 * (b - a) / (t - s) for (s, a), (t, b) in itertools.combinations(thinned, 2) if t > s]
    return statistics.median(slopes) if slopes else 0.0


def resident_mb(pid: int) -> float | None:
    """Return the resident size of a process in MB, None if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / _MB


def children(pid: int) -> list[int]:
    """Return the child processes of a process, except the resource tracker of multiprocessing.

    A child that still has the command line of its parent is between fork and exec and may become the tracker.
    """
    pids: list[int] = []
    try:
        own = _command_line(pid)
        for task in Path(f"/proc/{pid}/task").iterdir():
            pids += map(int, (task / "children").read_text().split())
        lines = {child: _command_line(child) for child in sorted(pids)}
    except OSError:
        return []
    return [child for child, line in lines.items() if line != own and b"resource_tracker" not in line]


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
