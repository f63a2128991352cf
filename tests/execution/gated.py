"""Scenario whose simulations wait at a gate, so that a test can stop its run after the first and before the last chunk.

The environment variable `GATE` names a file, the gate, which holds the path of a folder. While the file exists, each
simulation waits if the folder holds a part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import sim
from sim.components.permission import CodeAccess
from sim.scenario.models import Scenario

VARIABLE = "GATE"
CHUNKS = 10

_DESIGN = f'''
import os, time
from pathlib import Path
from sim.lppm.designs.identity import Identity


class Gated(Identity):
    """Identity that waits while the gate is closed and a part is written."""

    uses_prior = True

    def __init__(self, *, world):
        super().__init__(n_cells=world.n_cells)

    def __call__(self, prior):
        while is_closed():
            Path(f"{{os.environ['{VARIABLE}']}}.{{os.getpid()}}").touch()
            time.sleep(0.01)
        return super().__call__(prior)


def is_closed():
    try:
        events = Path(Path(os.environ["{VARIABLE}"]).read_text())
    except (KeyError, FileNotFoundError):
        return False
    return any(events.glob("*.parquet"))
'''

_SCENARIO = f"""
name: gated
replications: {CHUNKS}
world: {{grid: {{kind: rectangle, rows: 3, cols: 3, width_km: 3, height_km: 3}}}}
users: {{count: 2, queries: 5, mobility: favourites}}
lppms: [PEB-Exp, {{name: gated, belief: fixed_profile, design: "gated_design:Gated"}}]
attacks: [sporadic]
"""


class Gated(NamedTuple):
    """The scenario, its file, and the folder of an uninterrupted run."""

    scenario: Scenario
    file: Path
    whole: Path

    @property
    def command(self) -> list[str]:
        """The words of the command that runs it, in chunks of one replication, into the folder `run`."""
        return ["run", str(self.file), "-o", "run", "--no-figures", "--chunk-queries", "1", "--allow-code"]


def run(scenario: Scenario, out: Path | str, **options: Any) -> sim.Result:
    """Run a scenario with a chunk for each replication."""
    return sim.run(scenario, out=out, figures=False, chunk_queries=1, **options)


def write_gated(folder: Path) -> Gated:
    """Write the scenario and its component into a folder, and run it once."""
    (folder / "gated_design.py").write_text(_DESIGN)
    (folder / "gated.yaml").write_text(_SCENARIO)
    scenario = sim.load(folder / "gated.yaml").at(folder, None, CodeAccess(allowed=True, beside=folder))
    run(scenario, folder / "whole")
    return Gated(scenario, folder / "gated.yaml", folder / "whole")


class Gate:
    """A gate for the run in a folder."""

    def __init__(self, file: Path, out: Path) -> None:
        self._file = file
        self.environment = {VARIABLE: str(file)}
        """Environment of the processes that wait at the gate."""
        file.write_text(str(out.absolute() / "events"))

    def waiting(self) -> int:
        """Return the number of processes that have waited at the gate."""
        return len(list(self._file.parent.glob(f"{self._file.name}.*")))

    def open(self) -> None:
        """Let all simulations continue."""
        self._file.unlink(missing_ok=True)
