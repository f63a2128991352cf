"""Helpers that several test modules use."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from matplotlib.transforms import BboxBase

import sim
from sim.attack.identification import IdentificationParameters
from sim.belief.gravity_filter import GravityFilterParameters
from sim.cli import main
from sim.components.files import VARIABLE
from sim.components.registry import Parameters
from sim.errors import InvalidValue, UserError, code_of
from sim.events import Shift
from sim.execution.plan import Chunk, Plan, tasks
from sim.inference import kernels
from sim.interfaces import Demand, Mobility
from sim.mobility.recorded.replay import ReplayParameters
from sim.mobility.traces import Life
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import ScenarioError
from sim.scenario.sweep import points
from sim.simulation.population import Population
from sim.storage.event_schema import EVENTS, SCHEMA_VERSION
from sim.storage.load import load
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "data").absolute()
"""Folder of the real data sets, which may not exist."""

MakeScenario = Callable[..., Scenario]
"""The `make_scenario` fixture: a small scenario with changes."""

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload="window.hacked=1">',
    "'; window.hacked=1; '",
    "\u202eabc ${window.hacked=1} &amp; $title",
)
"""Names that would do harm if a page took them for more than names."""

SMALL = """
name: small
seed: 3
replications: 1
world: {grid: {kind: rectangle, rows: 4, cols: 5, width_km: 5, height_km: 4}}
users: {count: 3, queries: 12, mobility: {kind: favourites, places: 4}}
training: {others: {kind: others, count: 8, queries: 30}}
lppms: [SP-Exp, PEB-Exp, identity]
attacks: [sporadic, markov]
sweep: {"lppms.*.design.epsilon_per_km": [0.5, 2]}
"""
QUERIES = 3 * 12 * (3 + 2)
"""How many queries the small scenario simulates."""

BASE = """
world: {grid: {kind: rectangle, rows: 4, cols: 5, width_km: 5, height_km: 4}}
users: {count: 2, queries: 6, mobility: favourites}
training: {others: {kind: others, count: 3, queries: 8}}
lppms: [SP-Exp, {kind: PEB-Exp, name: peb}, {kind: SP-LH, name: "LH 0.5"}]
attacks: [sporadic, markov]
"""


_PLAIN = Scenario.model_validate(
    {
        "name": "test",
        "replications": 1,
        "users": {"count": 1, "queries": 1, "mobility": {"kind": "favourites"}},
        "lppms": [{"kind": "identity", "name": "unused"}],
        "attacks": [],
        "record": {"snapshots": []},
    }
)


@contextmanager
def raises_code(kind: type[UserError] | type[InvalidValue], code: str) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect an error of this type with this code, or a ScenarioError with a fault of this code."""
    with pytest.raises(kind) as error:
        yield error
    codes = error.value.codes if isinstance(error.value, ScenarioError) else [code_of(error.value, "")]
    assert code in codes, f"expected code {code!r}, got {codes} of: {error.value}"


@contextmanager
def plainly() -> Iterator[None]:
    """Go the plain way where there is a compiled one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compiled", lambda: None)
        yield


INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background ignores it
from sim.cli import main
main()
"""
"""The command line in a process that heeds Ctrl-C, however the tests were started."""


def until(true: Callable[[], Any], seconds: float = 120) -> None:
    """Wait until something is true. Only a test that fails waits for so long: machines are slow at times."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not in {seconds} s"
        time.sleep(0.02)


@contextmanager
def ending(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """Kill a process at the end of the block if it is still running: nobody waits for one that hangs."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def lppm_sim(*words: str | Path) -> Result:
    """Give a command, and hold it to what all commands have in common."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception  # a traceback is never an answer
    if result.exit_code == 2:
        assert result.stdout == ""
        assert result.stderr
    return result


def refused(*words: str | Path) -> str:
    """Return what is said to a request that is wrong."""
    result = lppm_sim(*words)
    assert result.exit_code == 2, result.output
    return result.stderr


def done(*words: str | Path) -> str:
    """Return what a command prints that does its work."""
    result = lppm_sim(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def faults(path: Path, *settings: str, data: Path | None = None) -> list[str]:
    """Return the faults of a file, without its folder."""
    with pytest.raises(ScenarioError) as raised:
        load(path, settings=settings, data=data)
    return [str(fault).replace(f"{path}:", "") for fault in raised.value.faults]


def log_of(scenario: Scenario, out: Path) -> pd.DataFrame:
    """Run a scenario into a folder, a chunk per replication, without figures, and return its event log."""
    return sim.run(scenario, out=out, figures=False, chunk_queries=1).events()


@contextmanager
def told_shifts(shifts_of: Callable[[str, int], tuple[Shift, ...]]) -> Iterator[None]:
    """Write shifts, by user and replication, into lives that go on as they were: what is told of them is tried."""
    live = Population._live

    def changed(population: Population, user: str, mobility: Mobility, demand: Demand) -> Life:
        return replace(live(population, user, mobility, demand), shifts=shifts_of(user, population.replication))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Population, "_live", changed)
        yield


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def plan(scenario: Scenario) -> list[Chunk]:
    """Return the chunks that are surely run, each of one replication."""
    return Plan(tasks(points(scenario))).chunks()


def rename_hostile(run: RunDirectory) -> RunDirectory:
    """Give users, LPPMs, attacks and shifts of a run names that would do harm, as if its files came from a stranger.

    The scenario with these names is in the directory that is returned, and is not validated.
    """
    names: dict[str, str] = {}

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {names.get(key, key): renamed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [renamed(item) for item in value]
        return names.get(value, value) if isinstance(value, str) else value

    tables = {part: run.read_part(part).to_pandas() for part in run.parts()}
    every = pd.concat(list(tables.values()))
    for column in ("lppm", "attack", "shift", "user"):
        old = every[column].dropna().unique().tolist()
        names |= dict(zip(old, (f"{name} {column}" for name in HOSTILE), strict=False))
    content = renamed(run.manifest().content)
    hostile = {"name": HOSTILE[0], "description": HOSTILE[1]}
    content["scenario"] |= hostile
    # A scenario with such names is refused when it is validated: pages must be safe all the same.
    scenario = run.manifest().scenario
    parts = {
        key: [part.model_copy(update={"name": names.get(part.name, part.name)}) for part in getattr(scenario, key)]
        for key in ("lppms", "attacks")
    }
    manifest = RunManifest.of(content, scenario=scenario.model_copy(update=hostile | parts))
    stranger = replace(run, digest=manifest.identity.digest)
    for part, frame in tables.items():
        kept, snapshots = run.notes(part), run.snapshots(part)
        for column in ("lppm", "attack", "shift", "user"):
            frame[column] = frame[column].map(names, na_action="ignore")
        for column in ("lppm", "user"):
            snapshots[column] = np.array([names[name] for name in snapshots[column].tolist()])
        table = pa.Table.from_pandas(frame, schema=EVENTS, preserve_index=False)
        stranger.write_part(part, table, renamed(kept), snapshots=snapshots)
    stranger.write_manifest(manifest)
    return stranger


def manifest_content(*, scenario: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return the JSON of a manifest with all keys that one must have."""
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": json.loads(_PLAIN.canonical()) | (scenario or {}),
        "folder": ".",
        "digest": "0" * 64,
        "seed": 1,
        "files": {},
        "lppm_sim": "0",
        "versions": {},
        "kernels": "plain",
        "worlds": [],
        "output_spaces": {},
        "finished": True,
        "parts": [],
        "repetitions": [],
    } | changes


def a_manifest(*, scenario: dict[str, Any] | None = None, **changes: Any) -> RunManifest:
    """Return a manifest for runs that a test writes itself."""
    return RunManifest.of(manifest_content(scenario=scenario, **changes))


def assert_apart(page: BboxBase, boxes: Sequence[BboxBase], *, touch: float = 1.0) -> None:
    """Hold boxes of a figure to what makes it readable: they lie on the page, and none covers another."""
    for box in boxes:
        assert box.x0 >= page.x0 - 1
        assert box.y0 >= page.y0 - 1
        assert box.x1 <= page.x1 + 1
        assert box.y1 <= page.y1 + 1
    for one, other in itertools.combinations(boxes, 2):
        across = min(one.x1, other.x1) - max(one.x0, other.x0)
        up = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert min(across, up) < touch


def made(cls: type[T], /, **settings: Any) -> T:
    """Construct a component from keywords: those of its parameters, and what the simulator gives to its constructor.

    With `unchecked` the parameters may lie outside their limits.
    """
    unchecked = settings.pop("unchecked", False)
    name = {"IdentificationAttack": "IdentificationParameters"}.get(cls.__name__, f"{cls.__name__}Parameters")
    model: type[Parameters] = vars(sys.modules[cls.__module__])[name]
    given = inspect.signature(cls).parameters
    if model is IdentificationParameters:
        settings = {"name": "identification", "model": "sporadic"} | settings
    if model is ReplayParameters:
        settings = settings | {"file": str(settings["file"])}
    if settings.get("half_life_queries", "") is None and "half_life_queries" in model.model_fields:
        settings = settings | {"half_life_queries": "none"}
    own = {
        key: value
        for key, value in settings.items()
        if key in model.model_fields and not (key in given and key == "metric" and not isinstance(value, str))
    }
    parameters = model.model_construct(**own) if unchecked else model(**own)
    rest = {key: value for key, value in settings.items() if key not in own}
    if isinstance(parameters, ReplayParameters):
        rest["file"] = Path(parameters.file)
    if isinstance(parameters, GravityFilterParameters):
        rest["kernels"] = parameters.kernels(rest.pop("distance"))
    make: Any = cls
    component: T = make(parameters, **rest)
    return component
