"""The command line starts fast: no heavy library is imported before a command needs it."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "pandas", "scipy", "matplotlib", "pydantic")


def test_package_and_command_line_import_no_heavy_library() -> None:
    script = f"import sim, sim.cli, sys; print([name for name in {HEAVY} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert process.stdout.strip() == "[]"
