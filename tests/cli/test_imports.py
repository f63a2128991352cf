"""The command line starts fast: no heavy library is imported before a command needs it."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "pandas", "scipy", "matplotlib", "pydantic")


def test_nothing_heavy_is_imported_by_the_bare_package_or_the_command_line() -> None:
    script = f"import sim, sim.cli, sys; print([name for name in {HEAVY} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert process.stdout.strip() == "[]"
