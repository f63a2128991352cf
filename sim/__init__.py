"""lppm-sim: a discrete-event, agent-based simulator of location privacy.

All public names are listed in ``sim.__all__`` and imported on first use.

>>> import sim
>>> scenario = sim.make_scenario(users={"mobility": "favourites", "queries": 5}, lppms=["SP-Exp"])
>>> result = sim.run(scenario)  # doctest: +SKIP
>>> result.summary()  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.analysis.adaptation import Adaptation as Adaptation
    from sim.api.attack import make_attack as make_attack
    from sim.api.checking import check_component as check_component
    from sim.api.choose import Choice as Choice
    from sim.api.choose import choose as choose
    from sim.api.export_mechanism import export_mechanism as export_mechanism
    from sim.api.frames import traces_from_frame as traces_from_frame
    from sim.api.frames import traces_to_frame as traces_to_frame
    from sim.api.listing import list_components as list_components
    from sim.api.listing import list_parameters as list_parameters
    from sim.api.lppm import Mechanism as Mechanism
    from sim.api.lppm import make_lppm as make_lppm
    from sim.api.protect import protect as protect
    from sim.api.result import Result as Result
    from sim.api.result import compare as compare
    from sim.api.run import run as run
    from sim.api.scenario import make_scenario as make_scenario
    from sim.api.statistics import make_statistics as make_statistics
    from sim.api.statistics import read_traces as read_traces
    from sim.api.statistics import scenario_traces as scenario_traces
    from sim.api.world import make_world as make_world
    from sim.components.imports import ComponentError as ComponentError
    from sim.components.permission import CodeNotAllowed as CodeNotAllowed
    from sim.errors import InputError as InputError
    from sim.errors import InvalidValue as InvalidValue
    from sim.errors import UserError as UserError
    from sim.events import Guess as Guess
    from sim.events import Query as Query
    from sim.events import Report as Report
    from sim.events import Visit as Visit
    from sim.execution.failures import FailedChunks as FailedChunks
    from sim.interfaces import Attack as Attack
    from sim.interfaces import Belief as Belief
    from sim.interfaces import Channel as Channel
    from sim.interfaces import Demand as Demand
    from sim.interfaces import Design as Design
    from sim.interfaces import Mobility as Mobility
    from sim.interfaces import OutputSpace as OutputSpace
    from sim.lppm.channels.matrix import MatrixChannel as MatrixChannel
    from sim.lppm.channels.remapped import RemappedChannel as RemappedChannel
    from sim.lppm.theory import Theory as Theory
    from sim.mobility.statistics import Statistics as Statistics
    from sim.mobility.traces import Trace as Trace
    from sim.protection.protector import Answer as Answer
    from sim.protection.protector import Protector as Protector
    from sim.rng import stream as stream
    from sim.scenario.models import Scenario as Scenario
    from sim.scenario.reading.faults import Fault as Fault
    from sim.scenario.reading.faults import ScenarioError as ScenarioError
    from sim.simulation.interrupts import Interrupted as Interrupted
    from sim.simulation.progress import Progress as Progress
    from sim.storage.load import load as load
    from sim.world import Distance as Distance
    from sim.world import Grid as Grid
    from sim.world import World as World

    __version__: str

_MODULES = {
    "sim.analysis.adaptation": ("Adaptation",),
    "sim.api.attack": ("make_attack",),
    "sim.api.checking": ("check_component",),
    "sim.api.choose": ("Choice", "choose"),
    "sim.api.export_mechanism": ("export_mechanism",),
    "sim.api.frames": ("traces_from_frame", "traces_to_frame"),
    "sim.api.listing": ("list_components", "list_parameters"),
    "sim.api.lppm": ("Mechanism", "make_lppm"),
    "sim.api.protect": ("protect",),
    "sim.api.result": ("Result", "compare"),
    "sim.api.run": ("run",),
    "sim.api.scenario": ("make_scenario",),
    "sim.api.statistics": ("make_statistics", "read_traces", "scenario_traces"),
    "sim.api.world": ("make_world",),
    "sim.components.imports": ("ComponentError",),
    "sim.components.permission": ("CodeNotAllowed",),
    "sim.errors": ("InputError", "InvalidValue", "UserError"),
    "sim.events": ("Guess", "Query", "Report", "Visit"),
    "sim.execution.failures": ("FailedChunks",),
    "sim.interfaces": ("Attack", "Belief", "Channel", "Demand", "Design", "Mobility", "OutputSpace"),
    "sim.lppm.channels.matrix": ("MatrixChannel",),
    "sim.lppm.channels.remapped": ("RemappedChannel",),
    "sim.lppm.theory": ("Theory",),
    "sim.mobility.statistics": ("Statistics",),
    "sim.mobility.traces": ("Trace",),
    "sim.rng": ("stream",),
    "sim.protection.protector": ("Answer", "Protector"),
    "sim.scenario.models": ("Scenario",),
    "sim.scenario.reading.faults": ("Fault", "ScenarioError"),
    "sim.simulation.interrupts": ("Interrupted",),
    "sim.simulation.progress": ("Progress",),
    "sim.storage.load": ("load",),
    "sim.world": ("Distance", "Grid", "World"),
}
"""Module of each public name."""

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Adaptation",
    "Answer",
    "Attack",
    "Belief",
    "Channel",
    "Choice",
    "CodeNotAllowed",
    "ComponentError",
    "Demand",
    "Design",
    "Distance",
    "FailedChunks",
    "Fault",
    "Grid",
    "Guess",
    "InputError",
    "Interrupted",
    "InvalidValue",
    "MatrixChannel",
    "Mechanism",
    "Mobility",
    "OutputSpace",
    "Progress",
    "Protector",
    "Query",
    "RemappedChannel",
    "Report",
    "Result",
    "Scenario",
    "ScenarioError",
    "Statistics",
    "Theory",
    "Trace",
    "UserError",
    "Visit",
    "World",
    "__version__",
    "check_component",
    "choose",
    "compare",
    "export_mechanism",
    "list_components",
    "list_parameters",
    "load",
    "make_attack",
    "make_lppm",
    "make_scenario",
    "make_statistics",
    "make_world",
    "protect",
    "read_traces",
    "run",
    "scenario_traces",
    "stream",
    "traces_from_frame",
    "traces_to_frame",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `import sim` is cheap."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("lppm-sim")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'sim' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
