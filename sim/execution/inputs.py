"""Inputs of a run: data files and custom components of a scenario, their fingerprints, and the digest of the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from sim.components.imports import source_file
from sim.components.permission import AllowCode
from sim.scenario.models import Scenario
from sim.scenario.sweep import points

OUTPUTS = Path("outputs")


def permitted(scenario: Scenario, allow_code: AllowCode | None = None) -> Scenario:
    """Return the scenario with permission to import its custom components; raise `CodeNotAllowed` without it."""
    place = scenario.place
    code = place.code.granted(allow_code)
    code.require(custom_components(scenario))
    return scenario if code == place.code else scenario.model_copy(deep=True).at(place.folder, place.data, code)


def custom_components(scenario: Scenario) -> list[str]:
    """Return every ``module:Class`` in a scenario or in a point of its sweep, without importing any."""
    return sorted({name for variant in _variants(scenario) for name in variant.own_components()})


def component_sources(scenario: Scenario) -> dict[str, Path]:
    """Return the source file of every custom component of a scenario."""
    return {name: source_file(name, scenario.place.code) for name in custom_components(scenario)}


def fingerprints(scenarios: Iterable[Scenario]) -> dict[str, str]:
    """Return the SHA-256 of each file that the scenarios read, and of the source file of each ``module:Class``."""
    paths: dict[str, Path] = {}
    for scenario in scenarios:
        paths |= {name: scenario.locate(name) for name in scenario.files()}
        paths |= {name: source_file(name, scenario.place.code) for name in scenario.own_components()}
    return {name: fingerprint(path) for name, path in sorted(paths.items())}


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_digest(scenario: Scenario, files: dict[str, str]) -> str:
    """Return the digest of a run: the scenario's digest, combined with the fingerprints of its files if it has any."""
    if not files:
        return scenario.digest
    return hashlib.sha256(json.dumps([scenario.digest, files], sort_keys=True).encode()).hexdigest()


def default_directory(scenario: Scenario, files: dict[str, str] | None = None) -> Path:
    """Return the default directory of a run: scenario name and first eight characters of the run's digest.

    `files` are the fingerprints of the scenario's files (default: computed).
    """
    digest = run_digest(scenario, fingerprints(_variants(scenario)) if files is None else files)
    return OUTPUTS / f"{scenario.name.replace(' ', '_')}-{digest[:8]}"


def _variants(scenario: Scenario) -> list[Scenario]:
    """Return scenarios that together refer to every file and component of all points of a sweep."""
    swept_values = [value for values in scenario.sweep.values() for value in values]
    # Numbers never refer to a file or a component: then the scenario alone suffices, without building any point.
    only_numbers = all(isinstance(value, int | float) for value in swept_values)
    return [scenario] if only_numbers else [point.scenario for point in points(scenario)]
