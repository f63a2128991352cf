"""Resume a run directory: refuse a directory of another run, and list the parts that need no simulation."""

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
    """Raise an error if a directory holds another run, or if a custom component has changed since it was imported.

    `parts` are the parts in the directory. With `rebuild` a damaged manifest is ignored, because a new one replaces it.
    """
    sources = component_sources(study.scenario)
    previous = _previous_manifest(directory, rebuild=rebuild)
    _refuse_to_mix(directory, previous, manifest, sources, study.plan, parts)
    for name in sources:
        refuse_stale(name, study.scenario.place.code)


def refuse_other_inputs(directory: RunDirectory, identity: RunIdentity, study: Study) -> None:
    """Raise RequestError if the manifest in a directory is of another run, before anything is written there."""
    previous = _previous_manifest(directory, rebuild=True)
    if previous is None:
        return
    if differences := list(_differing_lines(previous.identity, identity, component_sources(study.scenario))):
        raise _another_run(directory, differences)


def intact_parts(parts: Sequence[PartCheck]) -> set[str]:
    """Return the parts that are readable; report damaged parts on stderr."""
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
    """Raise RequestError with the differences if the directory holds another run; more replications are allowed."""
    unplanned = [part.part for part in parts if plan.named(part.part) is None]
    differences = list(_differing_lines(previous.identity, manifest.identity, sources)) if previous is not None else []
    if not differences and not unplanned:
        _refuse_foreign_parts(directory, parts, has_manifest=previous is not None)
        return
    if not differences and isinstance(previous, RunManifest) and all(part in previous.parts for part in unplanned):
        _refuse_other_replications(directory, previous.scenario, manifest.scenario, unplanned)
    if differences:
        raise _another_run(directory, differences)
    raise RequestError(
        f"{directory} holds a run of another scenario; differences:\n"
        f"  events/{unplanned[0]}.parquet, which does not belong to this run\n"
        "Choose another folder with -o, or remove this one.",
        code="foreign-part",
    )


def _another_run(directory: RunDirectory, differences: Sequence[str]) -> RequestError:
    """Return the error for a directory with the run of other inputs."""
    listed = "\n".join(differences[:20])
    same_scenario = not any(line.startswith("  scenario.") for line in differences)
    content = "another run of this scenario:" if same_scenario else "a run of another scenario; differences:"
    return RequestError(
        f"{directory} holds {content}\n{listed}\nChoose another folder with -o, or remove this one.",
        code="run-differs",
    )


def _previous_manifest(directory: RunDirectory, *, rebuild: bool) -> RunManifest | OtherSchema | None:
    """Return the manifest of the directory; None if it is missing, or if it is damaged and `rebuild`."""
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
    """Raise RequestError for parts of other inputs or versions and, without a manifest, for parts of unknown runs."""
    for part in parts:
        if part.run not in (None, directory.digest):
            code = "foreign-part"
            reason = "belongs to another run: its scenario, input files, kernels or version of lppm-sim differ"
        elif part.run is None and part.fault is None and not has_manifest:
            code = "unidentified-part"
            reason = "was written by an earlier version, and without a manifest its run is unknown"
        else:
            continue
        raise RequestError(
            f"{directory.part_path(part.part)} {reason}. Choose another folder with -o, or remove this file.", code=code
        )


def _differing_lines(previous: RunIdentity, current: RunIdentity, sources: Mapping[str, Path]) -> Iterator[str]:
    """Yield a line for each difference that makes two runs different."""
    if previous.schema_version != current.schema_version:
        yield f"  schema_version: {previous.schema_version!r} in the directory, {current.schema_version!r} now"
    for path, old, new in _differences(previous.scenario, current.scenario, "scenario"):
        if not {*path.split(".")[1:2]} & {*FREE_KEYS}:
            yield f"  {path}: {old!r} in the directory, {new!r} now"
    for name in sorted(previous.files.keys() | current.files.keys()):
        label = f"{name} ({sources[name].name})" if name in sources else name
        if name not in previous.files or name not in current.files:
            yield f"  {label}: " + (
                "read only by the run in the directory" if name in previous.files else "read only now"
            )
        elif previous.files[name] != current.files[name]:
            yield f"  {label} has changed since the run in the directory"
    if previous.kernels.split()[0] != current.kernels.split()[0]:
        yield f"  kernels: {previous.kernels} in the directory, {current.kernels} now (see LPPM_SIM_KERNELS)"
    if previous.lppm_sim != current.lppm_sim:
        yield f"  version of lppm-sim: {previous.lppm_sim} in the directory, {current.lppm_sim} now"


def _refuse_other_replications(
    directory: RunDirectory, previous: Scenario, current: Scenario, unplanned: list[str]
) -> None:
    """Raise RequestError if the unplanned parts are replications that only the previous run requested."""
    before, now = previous.replications, current.replications
    if isinstance(before, RepeatUntil) != isinstance(now, RepeatUntil):
        old, new = (
            f"until_half_width_km: {number.until_half_width_km}" if isinstance(number, RepeatUntil) else f"{number}"
            for number in (before, now)
        )
        raise RequestError(
            f"{directory} holds this scenario with `replications: {old}`, requested is `{new}`: a fixed number of "
            "replications and a stopping rule have different parts. Choose another folder with -o, or remove this one.",
            code="replications-differ",
        )
    stops = [replications_in(part).stop for part in unplanned]
    most = max(stops) if isinstance(before, RepeatUntil) else before
    allowed = now.at_most if isinstance(now, RepeatUntil) else now
    if most > allowed and min(stops) > allowed:
        raise RequestError(
            f"{directory} holds more of this run: {most} replications in the directory, {allowed} requested; "
            f"request {most} or more, or choose another folder with -o",
            code="fewer-replications",
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
