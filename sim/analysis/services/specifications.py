"""The services whose losses are computed, at each sweep point of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sim.components.files import Place, files_of
from sim.components.spec import Name, Spec
from sim.scenario.models import Scenario
from sim.scenario.reading.python_source import PythonSource
from sim.scenario.reading.validation import validate
from sim.scenario.sweep import points
from sim.scenario.world import AnyService, build_services
from sim.storage.errors import RequestError, RunError
from sim.storage.manifest import RecordedWorld, RunManifest
from sim.storage.run_directory import RunDirectory
from sim.world import Service
from sim.world.parameters import ServiceParameters
from sim.world.roads.graph import Roads

Specifications = Mapping[str, ServiceParameters]


class _Services(Spec):
    services: Annotated[dict[Name, AnyService], Field(min_length=1)]


def read_specifications(services: Mapping[str, Any], place: Place, origin: str = "services") -> Specifications:
    """Return services given by mappings; raise `ScenarioError` with all faults, whose place is `origin`."""
    context = {"folder": place.folder, "data": place.data}
    return validate(_Services, PythonSource(name=origin, data={"services": dict(services)}), context=context).services


def services_of_run(run: RunDirectory, given: Specifications | None, place: Place) -> dict[int, dict[str, Service]]:
    """Return the services by sweep point and name.

    The files of `given` services are in `place`; None stands for the services of the scenario, whose files are relative
    to its folder. Roads, where a service needs them, are those of the scenario.
    """
    manifest = run.manifest()
    own = Place(Path(manifest.folder), place.data)
    by_point: dict[int, dict[str, Service]] = {}
    for world, scenario in zip(manifest.worlds, _scenarios(manifest), strict=True):
        specs = scenario.world.services if given is None else given
        if not specs:
            raise RequestError(
                f"{run}: the scenario of this run names no service: ask for one with --service (in Python: the "
                "argument `services`), or name services in the scenario under `world.services`",
                code="no-services",
            )
        if given is None:
            _require_unchanged(manifest, (name for spec in specs.values() for name in files_of(spec)), own)
        roads = _roads(world, scenario, manifest, own) if any(spec.needs_roads for spec in specs.values()) else None
        locations = world.restore_locations()
        built = build_services(specs, locations, roads, own if given is None else place)
        by_point |= dict.fromkeys(world.points, built)
    return by_point


def _scenarios(manifest: RunManifest) -> list[Scenario]:
    """Return a scenario with each of the worlds."""
    scenario = manifest.scenario
    if not any(path.partition(".")[0] in ("world", "seed") for path in scenario.sweep):
        return [scenario] * len(manifest.worlds)
    by_index = {point.index: point.scenario for point in points(scenario)}
    return [by_index[world.points[0]] for world in manifest.worlds]


def _roads(world: RecordedWorld, scenario: Scenario, manifest: RunManifest, place: Place) -> Roads | None:
    """Build the roads of a world again; raise `RunError` if they are not those of the run."""
    if scenario.world.roads is None:
        return None
    _require_unchanged(manifest, files_of(scenario.world.roads), place)
    roads = scenario.world.build_roads(scenario.seed, place)
    if roads is not None and roads.describe() != world.roads:
        raise RunError(
            f"lppm-sim {manifest.lppm_sim} made other roads than this version: run the scenario again",
            code="input-changed",
        )
    return roads


def _require_unchanged(manifest: RunManifest, names: Iterable[str], place: Place) -> None:
    """Raise `RunError` if a file of the scenario is not that of the run."""
    for name in names:
        path = place.locate(name)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != manifest.files.get(name, digest):
            raise RunError(
                f"{path} has changed since the run: restore the file, run the scenario again, or ask for services of "
                "other files with --service (in Python: the argument `services`)",
                code="input-changed",
            )
