"""One mechanism in its world, from the arguments of `sim.protect` and `sim.export_mechanism`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sim.api.parameters import mapping_of, plain
from sim.api.statistics import make_statistics, read_traces, statistics_of
from sim.components.files import Place
from sim.errors import InputError
from sim.mobility.statistics import Statistics
from sim.protection.setup import Setup
from sim.scenario.load import Settings
from sim.scenario.lppms import LPPMSpec
from sim.scenario.reading.python_source import PythonSource
from sim.scenario.reading.source import Source, parse_value
from sim.scenario.reading.validation import validate


def setup_of(given: Mapping[str, Any], settings: Settings, origin: str) -> Setup:
    """Return the validated configuration with some values of the mechanism changed; faults name `origin`."""
    source: Source = PythonSource(name=origin, data=dict(given))
    for path, value, where in _changes(settings):
        source = source.overlay(("lppm", *path.split(".")), value, where)
    return validate(Setup, source)


def _changes(settings: Settings) -> Iterator[tuple[str, Any, str]]:
    """Yield path, value and origin of each setting."""
    if isinstance(settings, Mapping):
        yield from ((path, plain(value), f"settings {path}") for path, value in settings.items())
        return
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not all(name.isidentifier() for name in path.split(".")):
            raise InputError(
                f"--set: found {setting!r}, expected PATH=VALUE, such as design.epsilon_per_km=1",
                code="invalid-setting",
            )
        yield path, parse_value(text, f"--set {path}"), f"--set {path}"


def lppm_mapping(lppm: str | Mapping[str, Any] | LPPMSpec) -> dict[str, Any]:
    """Return a mechanism as a mapping, with a name if it has no short name."""
    mapping = mapping_of(lppm)
    return mapping if "kind" in mapping else {"name": "lppm"} | mapping


def world_mapping(world: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a world given as a mapping, or as the kind of its grid."""
    return {"grid": world} if isinstance(world, str) else dict(plain(world))


def trained_on(training: Any, setup: Setup, place: Place) -> Statistics:
    """Return the statistics of training data given as such, as a histogram or as a trace file; None: no data."""
    world = setup.build_world(place)
    if not isinstance(training, str | Path):
        return statistics_of(training, world, "training")
    return make_statistics(read_traces(training, world=world), world=world, restart_s=setup.restart_s)
