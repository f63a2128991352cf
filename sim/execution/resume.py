"""Resume a run directory: refuse one that holds another run, and list the parts that need no simulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.components.imports import refuse_stale
from sim.execution.failures import MOST_FAILURES
from sim.execution.inputs import component_sources
from sim.execution.plan import Plan
from sim.execution.pool import to_stderr
from sim.execution.study import Study
from sim.scenario.models import RepeatUntil, Scenario
from sim.storage.errors import RequestError
from sim.storage.manifest import FREE_KEYS, OtherSchema, RunIdentity, RunManifest
from sim.storage.part_ids import replications_in
from sim.storage.run_directory import DamagedManifestError, PartCheck, RunDirectory


def refuse_another_run(
    directory: RunDirectory,
    manifest: RunManifest,
    study: Study,
    parts: Sequence[PartCheck],
    *,
    rebuild: bool,
) -> None:
    """Refuse a directory that holds another run, and custom components that have changed since they were imported.

    `parts` are the parts in the directory. With `rebuild` a damaged manifest is ignored, since a new one replaces it.
    """
    sources = component_sources(study.scenario)
    previous = _previous_manifest(directory, rebuild=rebuild)
    _refuse_to_mix(directory, previous, manifest, sources, study.plan, parts)
    for name in sources:
        refuse_stale(name, study.scenario.place.code)


def intact_parts(parts: Sequence[PartCheck]) -> set[str]:
    """Return the parts that can be read, and report those that cannot on stderr."""
    damaged = [part for part in parts if part.fault is not None]
    for part in damaged[:MOST_FAILURES]:
        to_stderr(f"part {part.part} is damaged and simulated again: {part.fault}")
    if len(damaged) > MOST_FAILURES:
        to_stderr(f"and {len(damaged) - MOST_FAILURES} more damaged parts are simulated again")
    return {part.part for part in parts} - {part.part for part in damaged}


def _refuse_to_mix(
    directory: RunDirectory,
    previous: RunManifest | OtherSchema | None,
    manifest: RunManifest,
    sources: Mapping[str, Path],
    plan: Plan,
    parts: Sequence[PartCheck],
) -> None:
    """Refuse to mix two experiments in one directory and list their differences; more replications are allowed."""
    unplanned = [part.part for part in parts if plan.named(part.part) is None]
    differences = list(_differing_lines(previous.identity, manifest.identity, sources)) if previous is not None else []
    if not differences and not unplanned:
        _refuse_foreign_parts(directory, parts, has_manifest=previous is not None)
        return
    if not differences and isinstance(previous, RunManifest) and all(part in previous.parts for part in unplanned):
        _refuse_other_replications(directory, previous.scenario, manifest.scenario, unplanned)
    listed = "\n".join(differences[:20] or [f"  events/{unplanned[0]}.parquet, which is no part of this one"])
    same_scenario = differences and not any(line.startswith("  scenario.") for line in differences)
    content = "another run of this scenario:" if same_scenario else "a run of another scenario; they differ in"
    raise RequestError(f"{directory} holds {content}\n{listed}\nChoose another folder with -o, or remove this one.")


def _previous_manifest(directory: RunDirectory, *, rebuild: bool) -> RunManifest | OtherSchema | None:
    """Return the directory's manifest; None if there is none, or if a damaged one is to be rebuilt."""
    if not directory.has("manifest.json"):
        return None
    try:
        return directory.any_manifest()
    except DamagedManifestError as error:
        if not rebuild:
            raise
        to_stderr(
            f"{directory.describe('manifest.json')} is damaged and rebuilt from the scenario and the parts: "
            f"{error.reason}"
        )
        return None


def _refuse_foreign_parts(directory: RunDirectory, parts: Sequence[PartCheck], *, has_manifest: bool) -> None:
    """Refuse parts of other inputs or versions and, without a manifest, parts that do not name their run."""
    for part in parts:
        if part.run not in (None, directory.digest):
            reason = "belongs to another run: its scenario, input files, kernels or version of lppm-sim differ"
        elif part.run is None and part.fault is None and not has_manifest:
            reason = "was written by an earlier version, and without a manifest nothing tells which run it belongs to"
        else:
            continue
        raise RequestError(
            f"{directory.part_path(part.part)} {reason}. Choose another folder with -o, or remove this file."
        )


def _differing_lines(previous: RunIdentity, current: RunIdentity, sources: Mapping[str, Path]) -> Iterator[str]:
    """Yield a line for each difference that makes two runs different."""
    if previous.schema_version != current.schema_version:
        yield f"  schema_version: {previous.schema_version!r} there, {current.schema_version!r} now"
    for path, old, new in _differences(previous.scenario, current.scenario, "scenario"):
        if not {*path.split(".")[1:2]} & {*FREE_KEYS}:
            yield f"  {path}: {old!r} there, {new!r} now"
    for name in sorted(previous.files.keys() | current.files.keys()):
        label = f"{name} ({sources[name].name})" if name in sources else name
        if name not in previous.files or name not in current.files:
            yield f"  {label}: " + ("only read there" if name in previous.files else "only read now")
        elif previous.files[name] != current.files[name]:
            yield f"  {label} has changed since this run was made"
    if previous.kernels.split()[0] != current.kernels.split()[0]:
        yield f"  it was made with {previous.kernels} kernels, now they are {current.kernels}: see LPPM_SIM_KERNELS"
    if previous.lppm_sim != current.lppm_sim:
        yield f"  it was made by version {previous.lppm_sim} of lppm-sim, this is version {current.lppm_sim}"


def _refuse_other_replications(
    directory: RunDirectory, previous: Scenario, current: Scenario, unplanned: list[str]
) -> None:
    """Refuse a directory whose unplanned parts are replications that only the previous run asked for."""
    before, now = previous.replications, current.replications
    if isinstance(before, RepeatUntil) != isinstance(now, RepeatUntil):
        old, new = (
            f"until_half_width_km: {number.until_half_width_km}" if isinstance(number, RepeatUntil) else f"{number}"
            for number in (before, now)
        )
        raise RequestError(
            f"{directory} holds this scenario with `replications: {old}`, now it is `{new}`: a fixed "
            "number and a search for one are kept in other parts. Choose another folder with -o, or remove this one."
        )
    stops = [replications_in(part).stop for part in unplanned]
    most = max(stops) if isinstance(before, RepeatUntil) else before
    allowed = now.at_most if isinstance(now, RepeatUntil) else now
    if most > allowed and min(stops) > allowed:
        raise RequestError(
            f"{directory} holds more of this run: it has {most} replications there, {allowed} now; "
            f"ask for {most} or more, or choose another folder with -o"
        )


def _differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _differences(before, after, f"{path}.{i}")
    elif old != new:
        yield path, old, new
