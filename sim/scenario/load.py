"""Load and validate a scenario file; all faults are reported together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sim.components.files import Place, data_folder
from sim.components.permission import AllowCode, CodeAccess
from sim.components.wording import listing, shown
from sim.scenario.consistency import findings
from sim.scenario.large_grids import large_grid_findings
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import Fault, Loc, ScenarioError, dotted
from sim.scenario.reading.paths import combinations, expand, sweep_key
from sim.scenario.reading.source import Source, parse_value, read
from sim.scenario.reading.validation import validate
from sim.scenario.variants import Variants, frozen

_MAX_PLACES = 4
MOST_BAD_VALUES = 20
"""Largest number of invalid values reported per swept path; the values after them are not validated."""
_NOT_SWEPT = frozenset({"name", "description", "sweep"})


Settings = Sequence[str] | Mapping[str, Any]


def load_file(
    path: str | Path,
    *,
    settings: Settings = (),
    data: str | Path | None = None,
    allow_code: AllowCode | None = None,
) -> Scenario:
    """Load and validate a scenario file; see `sim.load` for the arguments."""
    path = Path(path)
    source, code = read(path), CodeAccess(beside=path.parent).granted(allow_code)
    if "name" not in source.data:
        source = source.overlay(("name",), _plain_name(path), "the file name")
    return load_source(source, path.parent, code, settings=settings, data=data)


def load_source(
    source: Source, folder: Path, code: CodeAccess, *, settings: Settings = (), data: str | Path | None = None
) -> Scenario:
    """Validate the data of a scenario with some values changed; file names are relative to `folder`."""
    place = Place(folder, data_folder(None if data is None else Path(data)), code)
    source, scenario, reached = _changed(source, _validated(source, place), place, settings)
    _check_sweep(source, scenario, place)
    _reject_swept(source, scenario, reached)
    return scenario


def _plain_name(path: Path) -> str:
    """Return the default name of a scenario: the file stem, with characters not allowed in names replaced."""
    name = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "_.+-") else "-" for letter in path.stem
    )
    return name.lstrip("_.+-")[:60] or "scenario"


def _validated(source: Source, place: Place) -> Scenario:
    context = {"folder": place.folder, "data": place.data}
    scenario = validate(Scenario, source, context=context, findings=findings(source.data)).at(*place)
    if faults := [source.fault(*finding) for finding in large_grid_findings(scenario)]:
        raise ScenarioError(faults)
    return scenario


@contextmanager
def _attributed_to(where: str, path: str) -> Iterator[None]:
    """Attribute all faults to the setting or sweep value that caused them, since the scenario is valid without it.

    A fault that occurs in several places is reported once, at `path`.
    """
    try:
        yield
    except ScenarioError as error:
        paths_of: dict[tuple[str, str], list[str]] = {}
        for fault in error.faults:
            paths_of.setdefault((fault.message, fault.code), []).append(fault.path)
        raise ScenarioError(
            Fault(where, paths[0], message, code)
            if len(paths) == 1
            else Fault(where, path, f"{message} (in {_shortened(paths)})", code)
            for (message, code), paths in paths_of.items()
        ) from None


@contextmanager
def _collected(faults: list[Fault]) -> Iterator[None]:
    """Collect faults instead of raising them."""
    try:
        yield
    except ScenarioError as error:
        faults += error.faults


def _shortened(paths: Sequence[str]) -> str:
    """List a few paths, without their common ending.

    >>> _shortened(["lppms.0.design.remap", "lppms.2.design.remap"])
    'lppms.0 and lppms.2'
    """
    steps = [path.split(".") for path in paths]
    while all(len(each) > 1 and each[-1] == steps[0][-1] for each in steps):
        steps = [each[:-1] for each in steps]
    names = [".".join(each) for each in steps]
    return listing(names if len(names) <= _MAX_PLACES else [*names[:_MAX_PLACES], "others"], "and")


def _changed(
    source: Source, scenario: Scenario, place: Place, settings: Settings
) -> tuple[Source, Scenario, list[tuple[str, list[Loc]]]]:
    """Return the data and the scenario with all settings, and the places that each setting reaches.

    The scenario need not be valid between two settings. A fault of the last one names the setting that caused it.
    """
    reached: list[tuple[str, list[Loc]]] = []
    faults: list[Fault] = []
    for path, value, where in _changes(settings):
        try:
            locs = _places_of(source, scenario, path, where)
        except ScenarioError as error:
            raise ScenarioError([*faults, *error.faults]) from None
        for loc in locs:
            source = source.overlay(loc, value, where, model=scenario)
        reached.append((where, locs))
        earlier = {(fault.path, fault.message, fault.code): fault for fault in faults}
        faults = []
        with _collected(faults), _attributed_to(where, ""):
            scenario = _validated(source, place)
        faults = [earlier.get((fault.path, fault.message, fault.code), fault) for fault in faults]
    if faults:
        raise ScenarioError(faults)
    return source, scenario, reached


def _changes(settings: Settings) -> Iterator[tuple[str, Any, str]]:
    """Yield path, value and origin of each setting; faults name the origin as their place."""
    if isinstance(settings, Mapping):
        yield from ((path, value, f"settings {path}") for path, value in settings.items())
        return
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            message = f"found {setting!r}, expected path=value, such as replications=10"
            raise ScenarioError([Fault("--set", "", message, "invalid-setting")])
        yield path.strip(), parse_value(text, f"--set {path}"), f"--set {path}"


def _places_of(source: Source, scenario: Scenario, path: str, origin: str) -> list[Loc]:
    """Return the places that a setting changes: one key of the sweep, which may be new, or existing places."""
    if (key := sweep_key(path)) is not None:
        return [("sweep", key)]
    try:
        return expand(scenario, source.data, path)
    except ScenarioError as error:
        raise ScenarioError(Fault(origin, "", fault.message, fault.code) for fault in error.faults) from None


def _reject_swept(source: Source, scenario: Scenario, reached: Sequence[tuple[str, list[Loc]]]) -> None:
    """Reject settings of swept values: the sweep would override them."""
    swept = {loc: path for path in scenario.sweep for loc in expand(scenario, source.data, path)}
    faults = []
    for where, locs in reached:
        lost = {loc: path for loc in locs for at, path in swept.items() if loc[: len(at)] == at}
        for path in dict.fromkeys(lost.values()):
            first = next(loc for loc in lost if lost[loc] == path)
            subject = "the path" if len(lost) == len(locs) else f"`{dotted(first)}`, which the path matches,"
            remedy = f"set `sweep.{path}=[...]` instead, or `sweep={{}}`"
            message = f"{subject} is swept by `sweep.{path}`; {remedy}"
            faults.append(Fault(where, "", message, "setting-is-swept"))
    if faults:
        raise ScenarioError(faults)


def _check_sweep(source: Source, scenario: Scenario, place: Place) -> None:
    """Validate each value of each swept path, first alone, then in all combinations."""
    faults: list[Fault] = []
    reached: dict[Loc, str] = {}
    points = _Points(source, scenario, place)
    for path, values in sorted(
        scenario.sweep.items(), key=lambda item: (("sweep", item[0]) in source.origins, item[0])
    ):
        where = source.where(("sweep", path), "key")
        try:
            locs = expand(scenario, source.data, path, where=where)
        except ScenarioError as error:
            faults += [Fault(fault.where, f"sweep.{path}", fault.message, fault.code) for fault in error.faults]
            continue
        faults += [Fault(where, f"sweep.{path}", *reason) for reason in _no_effect(locs, reached)]
        reached |= dict.fromkeys(locs, path)
        faults += _faults_of_values(source, points, path, values, locs)
    if faults:
        raise ScenarioError(faults)
    if len(scenario.sweep) > 1:
        _check_combinations(source, scenario, points)


def _faults_of_values(
    source: Source, points: _Points, path: str, values: Sequence[Any], locs: Sequence[Loc]
) -> list[Fault]:
    """Return the faults of the values of one swept path, each tried alone."""
    faults: list[Fault] = []
    seen: set[Any] = set()
    bad = 0
    for i, value in enumerate(values):
        where = source.where(("sweep", path, i))
        before = len(faults)
        if (key := frozen(value)) in seen:
            message = f"this value is given twice, found {shown(value)} again"
            faults.append(Fault(where, f"sweep.{path}", message, "duplicate-value"))
        seen.add(key)
        with _collected(faults), _attributed_to(where, f"sweep.{path}"):
            points.check(dict.fromkeys(locs, value), where)
        bad += len(faults) > before
        if bad == MOST_BAD_VALUES and i + 1 < len(values):
            message = f"the {len(values) - i - 1:,} values after this one were not validated: {bad} values are invalid"
            faults.append(Fault(where, f"sweep.{path}", message, "not-validated"))
            break
    return list(_merged(faults))


def _merged(faults: Sequence[Fault]) -> Iterator[Fault]:
    """Merge faults that several values of a sweep share: then the sweep is the cause, not one of its values."""
    groups: dict[tuple[str, str, str], list[Fault]] = {}
    for fault in faults:
        groups.setdefault((fault.path, fault.message, fault.code), []).append(fault)
    for first, *others in groups.values():
        if others:
            values = "1 more value" if len(others) == 1 else f"{len(others)} more values"
            remedy = (
                f"the same for {values} of this sweep; without the sweep (`--set sweep={{}}`) the scenario is valid"
            )
            yield replace(first, message=f"{first.message}; {remedy}")
        else:
            yield first


def _no_effect(locs: Sequence[Loc], reached: dict[Loc, str]) -> Iterator[tuple[str, str]]:
    """Yield the reasons, each with its code, why sweeping these places changes nothing or overrides another path."""
    if locs[0][0] in _NOT_SWEPT:
        fixed = listing(sorted(_NOT_SWEPT), "and")
        yield f"cannot be swept: {fixed} do not affect the simulation", "not-sweepable"
    for other in dict.fromkeys(reached[loc] for loc in locs if loc in reached):
        yield f"sets the same value as the path {other!r}: remove one of them", "overlapping-paths"


def _check_combinations(source: Source, scenario: Scenario, points: _Points) -> None:
    places = {path: expand(scenario, source.data, path) for path in sorted(scenario.sweep)}
    origins = [source.origins[loc] for loc in source.origins if loc[0] == "sweep"]
    where = origins[-1] if origins else source.where(("sweep",), "key")
    for values in combinations(dict(sorted(scenario.sweep.items()))):
        changes = {loc: values[path] for path, locs in places.items() for loc in locs}
        with _attributed_to(where, "sweep"):
            points.check(changes, where)


class _Points:
    """Validation of the points of a sweep: fast for valid points, again in full for the places of the faults."""

    def __init__(self, source: Source, scenario: Scenario, place: Place) -> None:
        self._source, self._scenario, self._place = source, scenario, place
        self._variants = Variants(scenario, source.data, {"folder": place.folder, "data": place.data})

    def check(self, changes: dict[Loc, Any], where: str) -> None:
        """Raise ScenarioError if the scenario with these changes, whose origin is `where`, is invalid."""
        try:
            if next(findings(self._variants.plain(changes)), None) is None:
                self._variants.validate(changes)
                if next(large_grid_findings(self._variants.scenario(changes)), None) is None:
                    return
        except (ValidationError, ValueError):
            pass
        source = self._source
        for loc, value in changes.items():
            source = source.overlay(loc, value, where, model=self._scenario)
        _validated(source, self._place)


def schema() -> str:
    """Return the JSON schema of scenario files, for editors."""
    return json.dumps(Scenario.model_json_schema(), indent=2)
