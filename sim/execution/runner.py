"""Run a scenario into a run directory: plan, simulate chunk by chunk, write each part, then sum up and draw."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from sim.analysis import budgets
from sim.analysis.adaptation import Adaptation
from sim.analysis.result import Result
from sim.analysis.sweep_labels import swept_words, with_swept_values
from sim.components.custom import refuse_stale, source_file
from sim.components.permission import AllowCode
from sim.errors import UserError, input_errors
from sim.execution.chunks import FailedSimulation, Notes, Workshop, joined_notes
from sim.execution.local_pool import Failure, Here, Pool, Workers, perform, to_stderr
from sim.execution.plan import CHUNK_QUERIES, Chunk, Plan, tasks
from sim.execution.stopping import Round, rounds
from sim.inference import kernels
from sim.interfaces import DesignCapabilities
from sim.lppm import outputs
from sim.scenario import build
from sim.scenario.consistency import findings
from sim.scenario.models import Scenario
from sim.scenario.plausibility import remarks
from sim.scenario.protection import LPPMSpec
from sim.scenario.reading.faults import Fault, ScenarioError, dotted
from sim.scenario.sweep import Point, models, points
from sim.simulation import interrupts
from sim.simulation.progress import Progress, Silent, Tally, explained_interrupt
from sim.storage.errors import NotApplicable, RequestError, RunError
from sim.storage.event_schema import SCHEMA_VERSION
from sim.storage.manifest import FREE_KEYS, parts_digest
from sim.storage.part_ids import replications_in
from sim.storage.run_directory import DamagedManifestError, PartCheck, RunDirectory
from sim.storage.status import failed_where
from sim.world import World

OUTPUTS = Path("outputs")
MOST_FAILURES = 5
_PACKAGES = ("simpy", "numpy", "scipy", "networkx", "pandas", "matplotlib", "pydantic", "pyarrow")


def default_directory(scenario: Scenario) -> Path:
    """Return where a scenario's run goes unless said: its name and the first letters of its run's digest."""
    return _directory(scenario, _fingerprints(_variants(scenario)))


def _variants(scenario: Scenario) -> list[Scenario]:
    """Return scenarios that together name every file and component that the points of a sweep do."""
    values = [value for tried in scenario.sweep.values() for value in tried]
    # Numbers bring in no file and no component, so the points need not be made to know which there are.
    plain = all(isinstance(value, int | float) for value in values)
    return [scenario] if plain else [point.scenario for point in points(scenario)]


def _directory(scenario: Scenario, files: dict[str, str]) -> Path:
    return OUTPUTS / f"{scenario.name.replace(' ', '_')}-{_digest(scenario, files)[:8]}"


def _digest(scenario: Scenario, files: dict[str, str]) -> str:
    """Return a fingerprint of a run: the scenario's digest and, where it reads any files, what is in them."""
    if not files:
        return scenario.digest
    return hashlib.sha256(json.dumps([scenario.digest, files], sort_keys=True).encode()).hexdigest()


def run(
    scenario: Scenario,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    figures: bool = True,
    workers: int | None = None,
    dask: str | None = None,
    pool: Pool | None = None,
    shard: tuple[int, int] | None = None,
    chunk: str | None = None,
    chunk_queries: int | None = None,
    dask_timeout: float | None = None,
    allow_code: AllowCode | None = None,
) -> Result:
    """Run a scenario, or go on with it: chunks whose part is there already are not simulated again.

    `workers` processes share the work, or those of the Dask cluster at the address `dask` (`local`: one that is
    started for the run), or those of a `pool` that is there and stays open; results are the same wherever they come
    from, and however many queries make a chunk. With `shard` (i, N) only the i-th of N shares is simulated, and
    nothing is summed up: a run without it does that, when all shares are there. With `chunk` only the chunk with this
    id is simulated, in this process, and an error in it is raised as it is. Else one that fails is reported at the end
    (`FailedChunks`), when everything else is done. `dask_timeout` limits, in seconds, how long the run waits for a
    Dask worker while there is none (`dask_cluster.WAIT_S`). Custom components (``module:Class``) are imported only
    with `allow_code`: True, or the only folders to import from; the default is what `load` or the environment allowed.

    Ctrl-C raises `Interrupted`, a KeyboardInterrupt that says what is kept. An exception of component
    code that would end the program, such as SystemExit, is a failure like any other.
    """
    tally = Tally(progress or Silent())
    with interrupts.recorded(), explained_interrupt(tally), interrupts.contained(f"scenario {scenario.name!r}"):
        return _run(
            permitted(scenario, allow_code),
            out=out,
            progress=tally,
            figures=figures,
            workers=workers,
            dask=dask,
            pool=pool,
            shard=shard,
            chunk=chunk,
            chunk_queries=chunk_queries,
            dask_timeout=dask_timeout,
        )


def _run(
    scenario: Scenario,
    *,
    out: str | Path | None,
    progress: Tally,
    figures: bool,
    workers: int | None,
    dask: str | None,
    pool: Pool | None,
    shard: tuple[int, int] | None,
    chunk: str | None,
    chunk_queries: int | None,
    dask_timeout: float | None,
) -> Result:
    """Plan, simulate and sum up, as `run` says."""
    if faults := [
        Fault("scenario", dotted(loc), message) for loc, message in findings(scenario.model_dump(mode="json"))
    ]:
        raise ScenarioError(faults)
    swept = points(scenario)
    workshop = Workshop()
    model = models(swept)

    def queries(point: Point) -> int:
        return workshop.queries(model[point.setting])

    size = chunk_queries or CHUNK_QUERIES
    plan = Plan(tasks(swept), lambda point, lppms: -(-size // (queries(point) * lppms)))
    if shard is not None:
        _refuse_shard(shard, plan)
    files = _fingerprints([point.scenario for point in swept])
    manifest = _manifest(scenario, files, swept, workshop)
    directory = RunDirectory.create(out if out is not None else _directory(scenario, files))
    directory = replace(directory, digest=parts_digest(manifest))
    # Of many shards each would read all that the others have written.
    there = directory.survey(thorough=shard is None and chunk is None)
    _refuse_another_run(directory, manifest, scenario, plan, there, rebuild=chunk is None)
    if chunk is not None:
        if shard is not None or dask is not None or workers is not None:
            raise RequestError("a chunk alone is simulated here: leave out what shares the work")
        _simulate_alone(_named(chunk, plan, directory), queries, directory, workshop, progress)
        return Result(directory)
    written = directory.write_csv("points.csv", _points_frame(swept)).read_bytes()
    manifest["tables"] = {"points.csv": hashlib.sha256(written).hexdigest()}
    done = _whole(there)
    try:
        with closing(open_pool(workers, dask, workshop, dask_timeout)) if pool is None else nullcontext(pool) as hands:
            end, failures = _simulate(plan, directory, manifest, queries, progress, hands, shard, done)
    finally:
        directory.clean()  # workers may have been killed
    told = [_described(failure, directory, scenario, plan) for failure in failures]
    if shard is None:
        return _finish(directory, manifest, swept, end, told, figures=figures)
    if told:
        raise FailedChunks(directory, told, len(_share(end.chunks, *shard)), shard=shard)
    return Result(directory)


def _finish(
    directory: RunDirectory,
    manifest: dict[str, Any],
    swept: list[Point],
    end: Round,
    failures: list[dict[str, Any]],
    *,
    figures: bool,
) -> Result:
    """Write the final manifest, sum up what was simulated, and raise `FailedChunks` for the rest."""
    failed = {failure["chunk"] for failure in failures}
    simulated = [chunk for chunk in end.chunks if chunk.id not in failed]
    planned = {"parts": sorted(chunk.id for chunk in end.chunks), "repetitions": end.described()}
    result = Result(directory)
    ended = {"finished": not failures, "notes": _notes(result, simulated), "failures": failures}
    directory.write_manifest(manifest | planned | ended)
    try:
        if simulated:
            _note_budgets(result, swept)
            _sum_up(result, figures=figures)
    except RunError as error:
        if failures:
            raise FailedChunks(directory, failures, len(end.chunks), also=str(error)) from error
        raise
    if failures:
        raise FailedChunks(directory, failures, len(end.chunks))
    return result


def permitted(scenario: Scenario, allow_code: AllowCode | None = None) -> Scenario:
    """Return the scenario with the permission to import its custom components, or raise `CodeNotAllowed`."""
    place = scenario.place
    code = place.code.granted(allow_code)
    code.require(custom_components(scenario))
    return scenario if code == place.code else scenario.model_copy(deep=True).at(place.folder, place.data, code)


def custom_components(scenario: Scenario) -> list[str]:
    """Return every ``module:Class`` that a scenario or a point of its sweep names, without importing any."""
    return sorted({name for variant in _variants(scenario) for name in variant.own_components()})


def _note_budgets(result: Result, swept: list[Point]) -> None:
    """Write into the manifest which budgets of quality loss were exceeded, if any."""
    found = budgets.found_exceeded([(point.index, point.scenario) for point in swept], result.shown_summary())
    if found:
        words = swept_words(pd.DataFrame(found), result.points())
        noted = [one | {"at": at} for one, at in zip(found, words, strict=True)]
        result.run.write_manifest(result.manifest | {budgets.EXCEEDED: noted})


def _sum_up(result: Result, *, figures: bool) -> None:
    """Write the tables and, if asked for, the figures and the report."""
    result.run.write_csv("summary.csv", result.summary())
    result.run.write_csv("metrics.csv", result.metrics())
    if not (past := result.hindsight()).empty:
        result.run.write_csv("hindsight.csv", with_swept_values(past, result.points()))
    if not (table := result.tournament()).empty:
        result.run.write_csv("tournament.csv", table)
    if figures:
        from sim.plots import write_figures

        write_figures(result)
    # Where windows of a summary cut the shift there is no table, and whoever asks for it is told why.
    if not result.shifts().empty:
        with suppress(NotApplicable):
            sum_up_adaptation(result, result.adaptation(), figures=figures)
    if figures:
        from sim.report import write

        write(result)


def sum_up_adaptation(result: Result, found: Adaptation, *, figures: bool = True) -> None:
    """Write the table of how mechanisms followed a shift and, if asked for, the figure."""
    result.run.write_csv("adaptation.csv", with_swept_values(found.summary, result.points()))
    if figures:
        from sim.plots import write_adaptation

        write_adaptation(result.run, found)


def open_pool(
    workers: int | None, dask: str | None, workshop: Workshop | None = None, dask_timeout: float | None = None
) -> Pool:
    """Return who is to simulate: this process, so many others, or a Dask cluster."""
    if dask is None and dask_timeout is not None:
        raise RequestError("dask_timeout (--dask-timeout) limits the wait for Dask workers: it needs dask (--dask)")
    if dask is not None:
        from sim.execution.dask_cluster import Cluster

        return Cluster(dask, workers, timeout_s=dask_timeout)
    return Here(workshop) if workers is None or workers == 1 else Workers(workers)


def _simulate(
    plan: Plan,
    directory: RunDirectory,
    manifest: dict[str, Any],
    queries: Callable[[Point], int],
    progress: Tally,
    pool: Pool,
    shard: tuple[int, int] | None,
    done: set[str],
) -> tuple[Round, list[Failure]]:
    """Simulate what is not done yet, round by round; return the last round and what could not be simulated."""
    failures: list[Failure] = []
    begun = False
    for state in rounds(plan, directory):
        share = state.chunks if shard is None else _share(state.chunks, *shard)
        todo = [chunk for chunk in share if chunk.id not in done]
        # More than is planned so far may be there: a longer run was stopped.
        known = sorted({chunk.id for chunk in state.chunks} | set(directory.parts()))
        if todo or _planned(directory) != known:
            directory.write_manifest(manifest | {"parts": known, "repetitions": state.described()})
        if todo:
            expected = sum(_queries(chunk, queries) for chunk in todo)
            progress.start(expected, chunks=len(todo), skipped=0 if begun else len(share) - len(todo))
            begun = True
            progress.plan(directory, chunks=len(share), kept=len(share) - len(todo))
            for ended in pool.run(todo, directory, progress.advance):
                progress.end_chunk()
                if isinstance(ended, Failure):
                    failures.append(ended)
                    progress.give_up(_queries(ended.chunk, queries))
                else:
                    done.add(ended.chunk.id)
                    progress.keep(_queries(ended.chunk, queries))
        if failures or shard is not None:
            break
    if not begun:
        progress.plan(directory, chunks=len(share), kept=len(share))
        progress.start(0, chunks=0, skipped=len(share))
    plan.chunks(state.times, directory.parts())  # refuses what another run may have written twice meanwhile
    return state, failures


def _planned(directory: RunDirectory) -> list[str] | None:
    """Return the parts that the manifest lists; None if there is none, or it is damaged."""
    try:
        return directory.manifest()["parts"] if directory.has("manifest.json") else None
    except DamagedManifestError:
        return None


def _whole(there: Iterable[PartCheck]) -> set[str]:
    """Return the parts that can be read, and say which ones cannot."""
    there = list(there)
    damaged = [found for found in there if found.fault is not None]
    for found in damaged[:MOST_FAILURES]:
        to_stderr(f"part {found.part} is damaged and simulated again: {found.fault}")
    if len(damaged) > MOST_FAILURES:
        to_stderr(f"and {len(damaged) - MOST_FAILURES} more damaged parts are simulated again")
    return {found.part for found in there} - {found.part for found in damaged}


def _queries(chunk: Chunk, queries: Callable[[Point], int]) -> int:
    """Return about how many queries a chunk has."""
    return queries(chunk.point) * len(chunk.lppms) * len(chunk.replications)


def _share(chunks: list[Chunk], number: int, count: int) -> list[Chunk]:
    """Return one of so many shares, counted from 1. Neighbours stay together: they have people in common."""
    return chunks[len(chunks) * (number - 1) // count : len(chunks) * number // count]


def _refuse_shard(shard: tuple[int, int], plan: Plan) -> None:
    number, count = shard
    if not 1 <= number <= count:
        raise RequestError(f"a shard is i/N with i from 1 to N, got {number}/{count}")
    if any(task.half_width_km is not None for task in plan.tasks):
        raise RequestError(
            "a number of replications that depends on the figures (until_half_width_km) cannot be cut into shards, "
            "none of which sees them all: give a fixed number, or use --workers or --dask"
        )


def _named(name: str, plan: Plan, directory: RunDirectory) -> Chunk:
    if (chunk := plan.named(name)) is None:
        some = ", ".join(chunk.id for chunk in plan.chunks(there=directory.parts())[:3])
        raise RequestError(f"{name} is no chunk of this run: its chunks are {some} ...")
    return chunk


def _simulate_alone(
    chunk: Chunk, queries: Callable[[Point], int], directory: RunDirectory, workshop: Workshop, progress: Progress
) -> None:
    """Simulate one chunk here; what goes wrong in it is raised as it is, with all that led to it."""
    progress.start(_queries(chunk, queries), chunks=1, skipped=0)
    error: BaseException | None = None
    try:
        perform(chunk, directory, workshop, progress.advance)
    except FailedSimulation as failed:
        error = failed.__cause__
    if error is not None and not isinstance(error, Exception):
        raise RuntimeError(interrupts.described(error)) from error
    if error is not None:
        raise error
    progress.end_chunk()


class FailedChunks(UserError):
    """Some chunks could not be simulated; everything else is there."""

    def __init__(
        self,
        directory: RunDirectory,
        failures: Sequence[Mapping[str, Any]],
        planned: int,
        *,
        shard: tuple[int, int] | None = None,
        also: str | None = None,
    ) -> None:
        self.failures = failures
        own = "" if shard is None else f" of shard {shard[0]}/{shard[1]}"
        lines = [f"{len(failures)} of {planned} chunks{own} failed; all others are in {directory}"]
        # Shards do not write into the manifest that they share, so theirs are told here or nowhere.
        shown = failures if shard is not None else failures[:MOST_FAILURES]
        for failure in shown:
            lines.append(f"  {failed_where(failure)}: {failure['error']}")
            lines.append(f"    alone, with its traceback: {failure['command']}")
        if len(failures) > len(shown):
            lines.append(f"  and {len(failures) - len(shown)} more")
        if shard is None:
            lines.append(
                "Their tracebacks are in `failures` of manifest.json; `lppm-sim summarize` shows what is there."
            )
        if also is not None:
            lines.append(f"The tables are incomplete: {also}")
        super().__init__("\n".join([*lines, "A second run tries them again."]))


def _described(failure: Failure, directory: RunDirectory, scenario: Scenario, plan: Plan) -> dict[str, Any]:
    """Return a failure for the manifest, with the command that repeats it alone."""
    chunk, data = failure.chunk, scenario.place.data
    alone = chunk if failure.replication is None else plan.alone(chunk, failure.replication)
    words = ["lppm-sim", "run", directory.describe("manifest.json"), "-o", str(directory), "--chunk", alone.id]
    words += _code_options(scenario)
    return {
        "chunk": chunk.id,
        "point": chunk.point.index,
        "values": chunk.point.values,
        "replications": [alone.replications.start, alone.replications.stop - 1],
        "lppms": list(chunk.lppms) if failure.lppm is None else [failure.lppm],
        "error": failure.error,
        "traceback": failure.details,
        "command": shlex.join(words if data is None else [*words, "--data", str(data)]),
    }


def _code_options(scenario: Scenario) -> list[str]:
    """Return the options that permit a command on the manifest to import what the scenario could import."""
    names, code = custom_components(scenario), scenario.place.code
    folders = sorted({str(folder) for folder in map(code.folder_of, names) if folder is not None})
    return [f"--allow-code={folder}" for folder in folders] or ["--allow-code"] * bool(names)


def _manifest(scenario: Scenario, files: dict[str, str], swept: list[Point], workshop: Workshop) -> dict[str, Any]:
    """Return everything needed to run the scenario again and to read its log: a part of the run, not of the code."""
    folder = scenario.place.folder
    worlds, spaces = _worlds(swept, workshop)
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": json.loads(scenario.canonical()),
        "folder": str(folder.resolve()),
        "digest": _digest(scenario, files),
        "seed": scenario.seed,
        "files": files,
        "lppm_sim": importlib.metadata.version("lppm-sim"),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES}
        | {"python": platform.python_version()},
        "kernels": kernels.describe(),
        "worlds": worlds,
        "output_spaces": spaces,
        "remarks": remarks(point.scenario for point in swept),
        "finished": False,
    }


def _worlds(swept: list[Point], workshop: Workshop) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return each world once, with the points that lie in it, and what the outputs of each LPPM stand for.

    Estimates are cells of its grid, and so are outputs unless a design says otherwise.
    """
    places: dict[str, list[Point]] = {}
    for point in swept:
        places.setdefault(point.scenario.canonical(only=frozenset({"seed", "world"})), []).append(point)
    worlds, spaces = [], dict[str, dict[int, Any]]()
    for inhabitants in places.values():
        setting = workshop.setting(inhabitants[0])
        world = setting.world
        worlds.append(
            {
                "points": sorted(point.index for point in inhabitants),
                "grid": world.grid.describe(),
                "roads": None if world.roads is None else world.roads.describe(),
                "traces": setting.readings(),
            }
        )
        known: dict[str, Any] = {}
        for point in inhabitants:
            for lppm in point.scenario.lppms:
                text = lppm.design.model_dump_json()
                if text not in known:
                    known[text] = _described_space(lppm, world)
                spaces.setdefault(lppm.name, {})[point.index] = known[text]
    return worlds, {lppm: outputs.described(by_point) for lppm, by_point in spaces.items()}


def _described_space(lppm: LPPMSpec, world: World) -> Any:
    """Return what the outputs of an LPPM stand for, as `sim.lppm.outputs.read` reads it."""
    with input_errors(f"lppms.{lppm.name}.design"):
        design = build.build_design(lppm.design, world)
    space = DesignCapabilities.space.of(design)
    return "cells" if space is None else space.describe()


def _fingerprints(scenarios: Iterable[Scenario]) -> dict[str, str]:
    """Return the SHA-256 of each file that the scenarios read, and of the source of each ``module:Class``."""
    paths: dict[str, Path] = {}
    for scenario in scenarios:
        paths |= {name: scenario.locate(name) for name in scenario.files()}
        paths |= {name: source_file(name, scenario.place.code) for name in scenario.own_components()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(paths.items())}


def _refuse_another_run(
    directory: RunDirectory,
    manifest: dict[str, Any],
    scenario: Scenario,
    plan: Plan,
    there: Sequence[PartCheck],
    *,
    rebuild: bool,
) -> None:
    """Refuse a directory that holds another run, and custom components that have changed since they were imported."""
    sources = {name: source_file(name, scenario.place.code) for name in custom_components(scenario)}
    _refuse_to_mix(directory, _manifest_before(directory, rebuild=rebuild), manifest, sources, plan, there)
    for name in sources:
        refuse_stale(name, scenario.place.code)


def _refuse_to_mix(
    directory: RunDirectory,
    before: dict[str, Any] | None,
    manifest: dict[str, Any],
    own: Mapping[str, Path],
    plan: Plan,
    there: Sequence[PartCheck],
) -> None:
    """Never put two experiments into one directory: say what differs. More replications of the same are welcome."""
    strangers = [found.part for found in there if plan.named(found.part) is None]
    differences = list(_told_differences(before, manifest, own)) if before is not None else []
    if not differences and not strangers:
        _refuse_foreign_parts(directory, there, vouched_for=before is not None)
        return
    if not differences and before is not None and all(part in before["parts"] for part in strangers):
        _refuse_other_replications(directory, before, manifest, strangers)
    listed = "\n".join(differences[:20] or [f"  events/{strangers[0]}.parquet, which is no part of this one"])
    same = differences and not any(line.startswith("  scenario.") for line in differences)
    held = "another run of this scenario:" if same else "a run of another scenario; they differ in"
    raise RequestError(f"{directory} holds {held}\n{listed}\nChoose another folder with -o, or remove this one.")


def _manifest_before(directory: RunDirectory, *, rebuild: bool) -> dict[str, Any] | None:
    """Return the manifest of the run that is there; None if there is none, or if a damaged one is to be rebuilt."""
    if not directory.has("manifest.json"):
        return None
    try:
        return directory.manifest()
    except DamagedManifestError as error:
        if not rebuild:
            raise
        to_stderr(
            f"{directory.describe('manifest.json')} is damaged and rebuilt from the scenario and the parts: "
            f"{error.reason}"
        )
        return None


def _refuse_foreign_parts(directory: RunDirectory, there: Sequence[PartCheck], *, vouched_for: bool) -> None:
    """Refuse parts of other input files, or of another version; without a manifest also those that do not say."""
    for found in there:
        if found.run not in (None, directory.digest):
            reason = "belongs to another run: its scenario, input files, kernels or version of lppm-sim differ"
        elif found.run is None and found.fault is None and not vouched_for:
            reason = "was written by an earlier version, and without a manifest nothing tells which run it belongs to"
        else:
            continue
        raise RequestError(
            f"{directory.part_path(found.part)} {reason}. Choose another folder with -o, or remove this file."
        )


def _told_differences(before: dict[str, Any], now: dict[str, Any], own: Mapping[str, Path]) -> Iterator[str]:
    """Yield a line for each thing that makes two runs different ones."""
    for key in ("schema_version", "scenario"):
        for path, old, new in _differences(before.get(key), now[key], key):
            if not {*path.split(".")[1:2]} & {*FREE_KEYS}:
                yield f"  {path}: {old!r} there, {new!r} now"
    files = before.get("files") or {}
    for name in sorted(files.keys() | now["files"].keys()):
        called = f"{name} ({own[name].name})" if name in own else name
        if name not in files or name not in now["files"]:
            yield f"  {called}: " + ("only read there" if name in files else "only read now")
        elif files[name] != now["files"][name]:
            yield f"  {called} has changed since this run was made"
    if (used := before.get("kernels", "plain")).split()[0] != now["kernels"].split()[0]:
        yield f"  it was made with {used} kernels, now they are {now['kernels']}: see LPPM_SIM_KERNELS"
    if before.get("lppm_sim") != now["lppm_sim"]:
        yield f"  it was made by version {before.get('lppm_sim')} of lppm-sim, this is version {now['lppm_sim']}"


def _refuse_other_replications(
    directory: RunDirectory, before: dict[str, Any], now: dict[str, Any], strangers: list[str]
) -> None:
    """Say it if all that is too much there are replications which that run was asked for, and this one is not."""
    there, wanted = (run["scenario"]["replications"] for run in (before, now))
    if isinstance(there, dict) != isinstance(wanted, dict):
        ways = [
            f"until_half_width_km: {said['until_half_width_km']}" if isinstance(said, dict) else f"{said}"
            for said in (there, wanted)
        ]
        raise RequestError(
            f"{directory} holds this scenario with `replications: {ways[0]}`, now it is `{ways[1]}`: a fixed "
            "number and a search for one are kept in other parts. Choose another folder with -o, or remove this one."
        )
    stops = [replications_in(part).stop for part in strangers]
    if isinstance(there, dict):
        there, wanted = max(stops), wanted["at_most"]
    if there > wanted and min(stops) > wanted:
        raise RequestError(
            f"{directory} holds more of this run: it has {there} replications there, {wanted} now; "
            f"ask for {there} or more, or choose another folder with -o"
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


def _points_frame(swept: list[Point]) -> pd.DataFrame:
    """Return the sweep's points and their values."""
    return pd.DataFrame([{"point": point.index, **point.values} for point in swept])


def _notes(result: Result, chunks: list[Chunk]) -> list[dict[str, Any]]:
    """Return, by point and LPPM, how often beliefs ran out of mass and how well profiles were estimated."""
    found: dict[tuple[int, str], Notes] = {}
    for chunk in chunks:
        for lppm, notes in result.notes()[chunk.id].items():
            key = (chunk.point.index, lppm)
            found[key] = joined_notes(found[key], notes) if key in found else notes
    return [{"point": point, "lppm": lppm, **notes} for (point, lppm), notes in sorted(found.items())]
