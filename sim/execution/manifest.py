"""Manifest of a run before its first simulation: scenario, inputs, versions, worlds and output spaces."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from typing import Any

from sim.errors import input_errors
from sim.execution.inputs import run_digest
from sim.execution.population_cache import PopulationCache
from sim.execution.study import Study
from sim.inference import kernels
from sim.interfaces import DesignCapabilities, LPPMCapabilities
from sim.lppm import outputs
from sim.mobility.statistics import statistics
from sim.scenario.lppms import LPPMSpec
from sim.scenario.plausibility import remarks
from sim.scenario.sweep import Point, points
from sim.storage.event_schema import SCHEMA_VERSION
from sim.storage.manifest import RunIdentity, RunManifest
from sim.world import World

_PACKAGES = ("simpy", "numpy", "scipy", "networkx", "pandas", "matplotlib", "pydantic", "pyarrow")


def identity_of(study: Study) -> RunIdentity:
    """Return the identity of a run, without building any component."""
    return RunIdentity(
        schema_version=SCHEMA_VERSION,
        scenario=json.loads(study.scenario.canonical()),
        files=study.files,
        kernels=kernels.describe(),
        lppm_sim=importlib.metadata.version("lppm-sim"),
    )


def describe_run(study: Study) -> RunManifest:
    """Return the manifest of a run, with everything that is needed to repeat it and to read its event log."""
    scenario = study.scenario
    worlds, spaces = _worlds(study.points, study.populations)
    content = {
        "schema_version": SCHEMA_VERSION,
        "scenario": json.loads(scenario.canonical()),
        "folder": str(scenario.place.folder.resolve()),
        "digest": run_digest(scenario, study.files),
        "seed": scenario.seed,
        "files": study.files,
        "lppm_sim": importlib.metadata.version("lppm-sim"),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES}
        | {"python": platform.python_version()},
        "kernels": kernels.describe(),
        "worlds": worlds,
        "output_spaces": spaces,
        "remarks": _remarks(study),
        "finished": False,
        "parts": [],
        "repetitions": [],
        "short_names": {lppm.name: lppm.kind for lppm in scenario.lppms if lppm.kind is not None},
        **({"calibrations": study.calibrations} if study.calibrations else {}),
    }
    return RunManifest.of(content, scenario=scenario)


def _remarks(study: Study) -> list[str]:
    """Return the remarks on the scenario; realised budgets and the strengths found for them have their own."""
    simulated = remarks(point.scenario for point in study.points)
    requested = remarks(point.scenario for point in points(study.scenario)) if study.calibrations else []
    return list(dict.fromkeys([*simulated, *requested]))


def _worlds(swept: list[Point], populations: PopulationCache) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return each distinct world with its points, and the output space of each LPPM.

    Estimates are cells of the world's grid; so are outputs, unless the design has another output space.
    """
    points_of: dict[str, list[Point]] = {}
    for point in swept:
        points_of.setdefault(point.scenario.canonical(only=frozenset({"seed", "world"})), []).append(point)
    worlds, spaces = [], dict[str, dict[int, Any]]()
    for own_points in points_of.values():
        setting = populations.setting(own_points[0])
        world = setting.world
        worlds.append(
            {
                "points": sorted(point.index for point in own_points),
                "grid": world.grid.describe(),
                "roads": None if world.roads is None else world.roads.describe(),
                "traces": setting.readings(),
            }
        )
        space_of_design: dict[str, Any] = {}
        for point in own_points:
            for lppm in point.scenario.lppms:
                design = (lppm.design if lppm.lppm is None else lppm.lppm).model_dump_json()
                if design not in space_of_design:
                    space_of_design[design] = _output_space(lppm, world)
                spaces.setdefault(lppm.name, {})[point.index] = space_of_design[design]
    return worlds, {lppm: outputs.described(by_point) for lppm, by_point in spaces.items()}


def _output_space(lppm: LPPMSpec, world: World) -> Any:
    """Return the output space of an LPPM, as `sim.lppm.outputs.read` reads it."""
    if lppm.lppm is not None:
        with input_errors(f"lppms.{lppm.name}.lppm"):
            complete = lppm.lppm.build(world, statistics([], n_cells=world.grid.n_cells))
        own_space = LPPMCapabilities.space.of(complete)
        return "cells" if own_space is None else own_space.describe()
    with input_errors(f"lppms.{lppm.name}.design"):
        design = lppm.design.build(world)
    space = DesignCapabilities.space.of(design)
    return "cells" if space is None else space.describe()
