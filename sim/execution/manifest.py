"""Manifest of a run before its first simulation: scenario, inputs, versions, worlds and output spaces."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from typing import Any

from sim.execution.inputs import run_digest
from sim.execution.population_cache import PopulationCache
from sim.execution.secrets import built, found_secret
from sim.execution.study import Study
from sim.inference import kernels
from sim.interfaces import DesignCapabilities, LPPMCapabilities
from sim.lppm import outputs
from sim.scenario.lppms import LPPMSpec
from sim.scenario.plausibility import remarks
from sim.scenario.sweep import Point, points
from sim.storage.event_schema import SCHEMA_VERSION
from sim.storage.manifest import RunIdentity, RunManifest
from sim.world import Grid

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
    worlds, spaces, secrets = _worlds(study.points, study.populations)
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
        **({"secrets": secrets} if secrets else {}),
    }
    return RunManifest.of(content, scenario=scenario)


def _remarks(study: Study) -> list[str]:
    """Return the remarks on the scenario; realised budgets and the strengths found for them have their own."""
    simulated = remarks(point.scenario for point in study.points)
    requested = remarks(point.scenario for point in points(study.scenario)) if study.calibrations else []
    return list(dict.fromkeys([*simulated, *requested]))


def _worlds(
    swept: list[Point], populations: PopulationCache
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, str]]:
    """Return each distinct world with its points, the output space of each LPPM, and the secrets of custom ones.

    Estimates are cells of the world's grid; so are outputs, unless the design has another output space.
    """
    points_of: dict[str, list[Point]] = {}
    for point in swept:
        points_of.setdefault(point.scenario.canonical(only=frozenset({"seed", "world"})), []).append(point)
    worlds, spaces, secrets = [], dict[str, dict[int, Any]](), dict[str, str]()
    for own_points in points_of.values():
        setting = populations.setting(own_points[0])
        world = setting.world
        worlds.append(
            {
                "points": sorted(point.index for point in own_points),
                "grid" if isinstance(world.locations, Grid) else "locations": world.locations.describe(),
                "roads": None if world.roads is None else world.roads.describe(),
                "traces": setting.readings(),
            }
        )
        of_design: dict[str, tuple[Any, str | None]] = {}
        for point in own_points:
            for lppm in point.scenario.lppms:
                design = (lppm.design if lppm.lppm is None else lppm.lppm).model_dump_json()
                if design not in of_design:
                    component = built(lppm, world)
                    of_design[design] = _output_space(component, lppm), found_secret(component, lppm)
                spaces.setdefault(lppm.name, {})[point.index], secret = of_design[design]
                if secret is not None:
                    secrets[lppm.name] = secret
    return worlds, {lppm: outputs.described(by_point) for lppm, by_point in spaces.items()}, secrets


def _output_space(component: Any, lppm: LPPMSpec) -> Any:
    """Return the output space of a built LPPM, as `sim.lppm.outputs.read` reads it."""
    capability = DesignCapabilities.space if lppm.lppm is None else LPPMCapabilities.space
    space = capability.of(component)
    return "cells" if space is None else space.describe()
