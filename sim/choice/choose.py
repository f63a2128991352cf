"""Choose a mechanism: calibrate each candidate to the goal, run all of them, rank them, and write the choice."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from sim.analysis.result import Result
from sim.choice.candidates import suitable
from sim.choice.ranking import Candidate, Ranking, ranked
from sim.choice.request import Request
from sim.components.permission import CodeAccess
from sim.execution.calibration.chunks import CalibrationChunk
from sim.execution.calibration.points import Calibrated, search, with_lppms
from sim.execution.inputs import fingerprints, permitted, run_digest
from sim.execution.pool import to_stderr
from sim.execution.population_cache import PopulationCache
from sim.execution.run import open_pool
from sim.execution.run import run as run_scenario
from sim.inference import kernels
from sim.scenario.load import load_source
from sim.scenario.models import Scenario
from sim.scenario.plausibility import unresolved
from sim.scenario.reading.python_source import PythonSource
from sim.scenario.rewriting import plain
from sim.scenario.sweep import points
from sim.simulation.progress import Progress
from sim.storage.errors import RunError
from sim.storage.run_directory import RunDirectory

ATTACKS = ["sporadic", "markov", "smoothing"]
"""Adversaries by default: the worst case, who know the user's test statistics."""
OUTSIDERS: list[str | dict[str, str]] = [
    "face-value",  # a report remapped to the user's own places reveals them to those who take it as it is
    {"kind": "home", "training": "others"},
    {"kind": "sporadic-learning", "training": "others"},
    {"kind": "markov-trained", "training": "others"},
]
"""Adversaries without data on the user: those who know the profile know the home."""
_TRAINING = {"own": "own_past"}


@dataclass(frozen=True, slots=True)
class Choice:
    """A finished choice: the request, the ranking, and where everything is."""

    request: Request
    ranking: Ranking
    scenario: Scenario
    """The candidates with their strengths; it reproduces the comparison."""
    result: Result
    warnings: tuple[str, ...]
    """Limits of the trust in the choice."""
    remarks: tuple[str, ...]
    folder: Path


def scenario_of(
    data: Mapping[str, Any], request: Request, names: Sequence[str], *, seed: int, folder: Path
) -> Scenario:
    """Return the scenario with the candidates, at a strength that is to be replaced."""
    training: dict[str, Any] = dict(_TRAINING)
    if request.kind == "hide-home":
        training["others"] = "other_users"
    completed = {"training": training, "attacks": OUTSIDERS if request.kind == "hide-home" else ATTACKS, **data}
    whole = {"name": "choice", "seed": seed, **completed, "lppms": list(names)}
    source = PythonSource(name="choose", data=whole)
    return load_source(source, folder, CodeAccess(beside=folder))


def with_candidates(scenario: Scenario, names: Sequence[str]) -> Scenario:
    """Return a scenario with other mechanisms and without a sweep."""
    source = PythonSource(name="choose", data={**plain(scenario), "lppms": list(names), "sweep": {}})
    place = scenario.place
    return load_source(source, place.folder, place.code, data=place.data)


def choose(
    scenario: Scenario,
    request: Request,
    folder: Path,
    *,
    all_of_them: bool = False,
    remarks: Sequence[str] = (),
    workers: int | None = None,
    progress: Progress | None = None,
    figures: bool = True,
    notify: Callable[[str], None] = to_stderr,
) -> Choice:
    """Calibrate and rank the mechanisms of a scenario; the same call resumes an interrupted choice."""
    scenario = permitted(scenario)
    names, left_out = suitable([lppm.kind or lppm.name for lppm in scenario.lppms], scenario, all_of_them=all_of_them)
    scenario = scenario.model_copy(update={"lppms": [one for one in scenario.lppms if (one.kind or one.name) in names]})
    populations = PopulationCache()
    with closing(open_pool(workers, None, populations)) as pool:
        (point,) = points(scenario)
        chunks = {
            lppm.name: CalibrationChunk(
                f"calibration-{number}",
                point,
                range(0),
                (lppm.name,),
                goal=request.goal,
                targets=(request.target_value,),
            )
            for number, lppm in enumerate(scenario.lppms)
        }
        results = search(chunks.values(), _search_directory(folder, scenario), pool, populations, notify)
        calibrated = {name: results[chunk.id, request.target_value] for name, chunk in chunks.items()}
        met = {name: one for name, one in calibrated.items() if one.solution.meets}
        unmet = [_unmet(name, one, request) for name, one in calibrated.items() if name not in met]
        if not met:
            raise RunError(
                f"no candidate can {request.words}: {'; '.join(unmet)}. Ask for less, or name other candidates.",
                code="goal-not-reached",
            )
        fixed = _fixed(scenario, met)
        result = run_scenario(fixed, out=folder / "run", progress=progress, figures=figures, pool=pool)
    inexact = [_inexact(name, one, request) for name, one in met.items() if one.solution.outcome != "reached"]
    ranking = ranked(result, fixed, request, met)
    inexact += [
        _not_confirmed(one, met[one.name], request)
        for one in ranking.candidates
        if one.outcome != met[one.name].solution.outcome
    ]
    return Choice(
        request,
        ranking,
        fixed,
        result,
        tuple(_warnings(scenario, request, result.manifest.remarks)),
        (*remarks, *left_out, *unmet, *inexact),
        folder,
    )


def _warnings(scenario: Scenario, request: Request, remarks: Sequence[str]) -> Iterator[str]:
    """Yield what limits the trust in a choice: cells that are too large, too few users, implausible mechanisms."""
    locations = scenario.build_locations()
    name = "the radius" if request.kind == "hide-home" else "the goal"
    if text := unresolved(request.distance_km, locations):
        yield f"{name} of {1000 * request.distance_km:g} m is {text}"
    yield from remarks


def _fixed(scenario: Scenario, calibrated: Mapping[str, Calibrated]) -> Scenario:
    """Return the scenario of the comparison: the calibrated candidates with their strengths."""
    kept = [lppm for lppm in scenario.lppms if lppm.name in calibrated]
    fixed = {
        lppm.name: lppm.model_copy(update={"design": lppm.design.with_strength(calibrated[lppm.name].strength)})
        for lppm in kept
    }
    for lppm in fixed.values():
        lppm.model_fields_set.add("design")
    return with_lppms(scenario.model_copy(update={"lppms": kept}), fixed)


def _unmet(name: str, one: Calibrated, request: Request) -> str:
    side = "cannot lose as little" if request.limits_loss else "does not protect as much"
    return f"{name} {side}: {one.reached.value:.3g} at {one.parameter} {one.strength:.4g}"


def _inexact(name: str, one: Calibrated, request: Request) -> str:
    """Return a remark on a candidate that is on the right side of the goal, but not at it."""
    difference = f"{one.reached.value:.3g} instead of {request.target_value:g}"
    if one.solution.outcome == "unreachable":
        return f"{name}: {difference} at the end of the range of {one.parameter}"
    return f"{name}: {difference}, because the next value of {one.parameter} misses the goal"


def _not_confirmed(one: Candidate, calibrated: Calibrated, request: Request) -> str:
    """Return a remark on a candidate that meets the goal in the calibration, but not in the comparison."""
    return (
        f"{one.name}: {one.realised:.3g} instead of {request.target_value:g} in the comparison "
        f"(calibration: {calibrated.reached.value:.3g}, from {calibrated.sample.queries:,} queries)"
    )


def _search_directory(folder: Path, scenario: Scenario) -> RunDirectory:
    """Return the directory of the evaluations, which are identified by everything that determines them."""
    files = fingerprints([scenario])
    inputs = [run_digest(scenario, files), kernels.describe().split()[0], importlib.metadata.version("lppm-sim")]
    digest = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
    return replace(RunDirectory.create(folder / "search"), digest=digest)


def scenario_text(choice: Choice, lppms: Sequence[str] | None = None) -> str:
    """Return a scenario file in the folder of the choice that reproduces the comparison, or some of its mechanisms."""
    data = plain(choice.scenario)
    if lppms is not None:
        names = [lppm.name for lppm in choice.scenario.lppms]
        data["lppms"] = [data["lppms"][names.index(name)] for name in lppms]
    located = {name: _relative(choice.scenario.locate(name), choice.folder) for name in choice.scenario.files()}
    text: str = yaml.safe_dump(_renamed(data, located), sort_keys=False, allow_unicode=True, width=100)
    return text


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return plain data with file names replaced."""
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
