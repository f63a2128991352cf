"""Helpers shared by test modules."""

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
from pydantic import ValidationError

import sim
from sim.attack.identification import IdentificationParameters
from sim.belief.gravity_filter import GravityFilterParameters
from sim.cli import main
from sim.components.files import VARIABLE
from sim.components.registry import Parameters
from sim.errors import code_of
from sim.events import Shift
from sim.execution.plan import Chunk, Plan, tasks
from sim.inference import kernels
from sim.interfaces import Demand, Mobility
from sim.mobility.recorded.replay import ReplayParameters
from sim.mobility.traces import Life
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import Fault, ScenarioError
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
"""Names that would run code if a page did not escape them."""

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
"""Number of queries that the small scenario simulates."""

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
def raises_code(kind: type[Exception], code: str) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect an error of this type with this code; ScenarioError and ValidationError may hold others beside it."""
    with pytest.raises(kind) as error:
        yield error
    codes = _codes(error.value)
    assert code in codes, f"expected code {code!r}, got {codes} of: {error.value}"


def _codes(error: BaseException) -> list[str]:
    if isinstance(error, ScenarioError):
        return error.codes
    if isinstance(error, ValidationError):
        return [code_of(detail.get("ctx", {}).get("error", error), detail["type"]) for detail in error.errors()]
    return [code_of(error, "")]


@contextmanager
def numpy_kernels() -> Iterator[None]:
    """Use the NumPy functions even if numba is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compiled", lambda: None)
        yield


INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore it
from sim.cli import main
main()
"""
"""Program that runs the command line and reacts to Ctrl-C, even if the tests run in the background."""


def until(true: Callable[[], Any], seconds: float = 120) -> None:
    """Wait until a condition holds. The limit is long, since machines may be slow; only failing tests reach it."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not in {seconds} s"
        time.sleep(0.02)


@contextmanager
def ending(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """Kill a process at the end of the block if it is still running."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def lppm_sim(*arguments: str | Path) -> Result:
    """Run a command in this process, and check the rules that hold for all commands."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception  # no command may end with a traceback
    if result.exit_code == 2:
        assert result.stdout == ""
        assert result.stderr
    return result


def refused(*arguments: str | Path) -> str:
    """Run a command that must reject the request with exit code 2, and return its error message."""
    result = lppm_sim(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


def done(*arguments: str | Path) -> str:
    """Run a command that must succeed, and return its output."""
    result = lppm_sim(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def faults(path: Path, *settings: str, data: Path | None = None) -> list[Fault]:
    """Return the faults of a scenario file, with places without the file name."""
    with pytest.raises(ScenarioError) as error:
        load(path, settings=settings, data=data)
    return [replace(fault, where=fault.where.replace(f"{path}:", "")) for fault in error.value.faults]


def label(fault: Fault) -> str:
    """Return place, path and code of a fault, such as ``6:3: users.count [wrong-type]``."""
    return " ".join(part for part in (f"{fault.where}:", fault.path, f"[{fault.code}]") if part)


def assert_fault(fault: Fault, expected: str, *words: str) -> None:
    """Check the end of a fault's label, and that its message contains each of the words: values, names, remedies."""
    actual = label(fault) if "[" in expected else label(fault).partition(" [")[0]
    assert f" {actual}".endswith(f" {expected}"), f"expected {expected}, got {fault}"
    for word in words:
        assert word in fault.message


def assert_faults(actual: Sequence[Fault], *expected: Sequence[str]) -> None:
    """Check labels and words of all faults, in their order."""
    assert len(actual) == len(expected), [label(fault) for fault in actual]
    for fault, words in zip(actual, expected, strict=True):
        assert label(fault).startswith(words[0]), f"expected {words[0]}, got {fault}"
        assert_fault(fault, *words)


def log_of(scenario: Scenario, out: Path) -> pd.DataFrame:
    """Run a scenario into a folder, with one chunk per replication and without figures; return its event log."""
    return sim.run(scenario, out=out, figures=False, chunk_queries=1).events()


@contextmanager
def recorded_shifts(shifts_of: Callable[[str, int], tuple[Shift, ...]]) -> Iterator[None]:
    """Record shifts, by user and replication, without changing the users' behaviour."""
    live = Population._live

    def changed(population: Population, user: str, mobility: Mobility, demand: Demand) -> Life:
        return replace(live(population, user, mobility, demand), shifts=shifts_of(user, population.replication))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Population, "_live", changed)
        yield


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder and its subfolders, by relative path."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def plan(scenario: Scenario) -> list[Chunk]:
    """Return the chunks of a scenario, with one replication each."""
    return Plan(tasks(points(scenario))).chunks()


def rename_hostile(run: RunDirectory) -> RunDirectory:
    """Replace the names of users, LPPMs, attacks and shifts of a run by hostile ones, as in a run from a stranger.

    Returns the run directory with these names; its scenario is not validated.
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
    # Validation rejects a scenario with such names, but pages must be safe without it.
    scenario = run.manifest().scenario
    parts = {
        key: [part.model_copy(update={"name": names.get(part.name, part.name)}) for part in getattr(scenario, key)]
        for key in ("lppms", "attacks")
    }
    manifest = RunManifest.of(content, scenario=scenario.model_copy(update=hostile | parts))
    hostile_run = replace(run, digest=manifest.identity.digest)
    for part, frame in tables.items():
        notes, snapshots = run.notes(part), run.snapshots(part)
        for column in ("lppm", "attack", "shift", "user"):
            frame[column] = frame[column].map(names, na_action="ignore")
        for column in ("lppm", "user"):
            snapshots[column] = np.array([names[name] for name in snapshots[column].tolist()])
        table = pa.Table.from_pandas(frame, schema=EVENTS, preserve_index=False)
        hostile_run.write_part(part, table, renamed(notes), snapshots=snapshots)
    hostile_run.write_manifest(manifest)
    return hostile_run


def manifest_content(*, scenario: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return the content of a manifest with all required keys and some changes."""
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
    """Return a manifest for runs that a test writes."""
    return RunManifest.of(manifest_content(scenario=scenario, **changes))


def assert_apart(page: BboxBase, boxes: Sequence[BboxBase], *, touch: float = 1.0) -> None:
    """Check that boxes of a figure lie on the page and do not overlap by more than `touch` pixels."""
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
    """Construct a component from keywords: its parameters, and the arguments that the simulator passes.

    With `unchecked=True` the parameters are not validated.
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
