"""lppm-sim: a discrete-event, agent-based simulator of location privacy.

>>> import sim
>>> scenario = sim.load("scenarios/sporadic_checkins.yaml")  # doctest: +SKIP
>>> result = sim.run(scenario)  # doctest: +SKIP
>>> result.summary()  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.analysis.result import Result
    from sim.execution.run import run
    from sim.scenario.models import Scenario
    from sim.storage.load import load

__all__ = ["Result", "Scenario", "load", "run"]

_HOME = {
    "Result": "sim.analysis.result",
    "Scenario": "sim.scenario.models",
    "load": "sim.storage.load",
    "run": "sim.execution.run",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are asked for: `import sim` itself costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'sim' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
