"""The console for results, and formatting of sizes and durations."""

from __future__ import annotations

import sys

from rich.console import Console


def stdout() -> Console:
    """Return the console for results."""
    # emoji=False: "module:Star:" must not become a star.
    return Console(width=None if sys.stdout.isatty() else 160, emoji=False)


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def data_size(size_bytes: float, *, digits: int = 1) -> str:
    """Format bytes as megabytes, or as gigabytes from 1 GB.

    >>> data_size(12.34e6), data_size(5.2e9), data_size(261_497e6)
    ('12.3 MB', '5.2 GB', '261.5 GB')
    """
    return f"{size_bytes / 1e9:,.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:,.{digits}f} MB"
