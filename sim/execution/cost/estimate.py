"""Estimate the cost of a scenario: its work is counted, its CPU time and random lengths are estimated from a sample."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sim.execution.blocks import ChunkSize
from sim.execution.chunk_size import chunk_size, undivided_note
from sim.execution.cost.bounded import Collected, collect
from sim.execution.cost.footprint import peak_bytes
from sim.execution.cost.overhead import PART_S, START_S, Times, start_and_end
from sim.execution.cost.probe import PROBED_USERS, Prepared, Rate, Report, Secret, count_without_living, measurements
from sim.execution.cost.rows import event_rows
from sim.execution.plan import Task, tasks
from sim.execution.secrets import is_declared
from sim.inference import kernels
from sim.mobility.recorded.replay import ReplayParameters
from sim.scenario.feasibility import require_feasible
from sim.scenario.models import RepeatUntil, Scenario
from sim.scenario.sweep import Point, points

BYTES_PER_ROW = {"queries": 23, "summary": 51}
"""Size in bytes of a row of the event log on disk. Rows of a summary share less, and their parts are small."""
LIMIT_S = 2.5
"""Default time limit of the measurements in s."""
KERNEL_BYTES = 110_000_000
"""Memory of compiled kernels, added if they are not loaded yet."""
MOST_SETTINGS = 50
"""Maximum number of settings that are measured; others are assumed to equal the nearest measured one."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated cost of a scenario; the maximum if a stopping rule determines the number of replications."""

    points: int
    users: int
    simulations: int
    queries: int
    rows: int
    seconds: float | None
    """CPU time in s of the whole run with one process; None if it was not measured."""
    times: Times | None = None
    """CPU time of the stages of the run; None if it was not measured."""
    locations: tuple[str, ...] = ()
    """Number and size of the locations of all points, in words."""
    log_bytes: int = 0
    """Size of the event log on disk."""
    least_bytes: int = 0
    """Memory that a process would need for a single user with a single query."""
    peak_bytes: int = 0
    """Estimated peak memory of the largest process."""
    approximate: bool = False
    """Whether users, queries and rows are estimated from a sample."""
    unmeasured: tuple[str, ...] = ()
    """Descriptions of parts of the scenario that could not be measured or checked."""
    timed_out: bool = False
    """Whether the time limit ended the measurements."""
    incomplete: bool = False
    """Whether the time of an LPPM is missing, so that `seconds` is a lower bound."""
    readings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Statistics of each trace file read: see `sim.simulation.setting.Setting.readings`."""
    least: Cost | None = None
    """Minimum cost, if a stopping rule determines the number of replications."""
    exact: tuple[str, ...] = ()
    """LPPMs whose metrics are exact with one replication, at least at one point."""
    undivided: tuple[str, ...] = ()
    """Notes on large populations that are not divided into blocks of users."""
    secrets: dict[str, str] = field(default_factory=dict)
    """Custom LPPMs whose outputs depend on a secret, with the approximation that adversaries make who track it."""


def estimate(
    scenario: Scenario,
    swept: list[Point] | None = None,
    *,
    measure: bool = True,
    limit_s: float = LIMIT_S,
    started_s: float = START_S,
) -> Cost:
    """Count the work of a scenario and, if `measure`, estimate its CPU time from a few users of its first replication.

    `swept` are the points of its sweep (default: computed). Measurements stop after `limit_s` seconds, planning
    included; `Cost.unmeasured` lists what is missing. `started_s` is the CPU time in which the process has started.
    """
    began_s = time.monotonic()
    swept = points(scenario) if swept is None else swept
    require_feasible(point.scenario for point in swept)
    work = tasks(swept)
    settings = {task.point.setting: task.point for task in work}
    if measure:
        kernels.compiled()  # the time of loading them must not count as time of a query
    lppms = _middle_points(task for task in work if measure or not is_declared(task.spec))
    left_s = max(limit_s - (time.monotonic() - began_s), 0.2 * limit_s)
    job = partial(
        measurements,
        _spread(list(settings.values()), MOST_SETTINGS),
        lppms,
        measure=measure,
        measure_s=0.9 * left_s,
        prepare_s=0.4 * left_s,
    )
    collected: Collected[Report] = collect(job, limit_s=left_s)
    return _cost(work, settings, collected, lppms if measure else {}, limit_s, started_s)


def installed_bytes() -> int | None:
    """Return the memory of this machine in bytes; None if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _middle_points(work: Iterable[Task]) -> dict[str, Point]:
    """Return, for each LPPM, the middle one of the points at which it is simulated."""
    own: dict[str, list[Point]] = {}
    for task in work:
        own.setdefault(task.lppm, []).append(task.point)
    return {lppm: own_points[len(own_points) // 2] for lppm, own_points in own.items()}


def _spread(items: Sequence[Point], count: int) -> list[Point]:
    """Return `count` evenly spaced items, or all if there are fewer."""
    if len(items) <= count:
        return list(items)
    return [items[len(items) * k // count] for k in range(count)]


@dataclass(frozen=True, slots=True)
class _People:
    """Number of users of a setting and of their queries, as far as known, and the time to generate their lives."""

    users: int
    lengths: Sequence[int]
    past: float
    exact: bool
    once_s: float
    each_s: float

    @property
    def mean(self) -> float:
        """The mean number of queries of a user."""
        return sum(self.lengths) / len(self.lengths)

    @property
    def total(self) -> float:
        """The number of queries of all users in one simulation."""
        return self.scaled(sum(self.lengths))

    def scaled(self, total: float) -> float:
        """Scale a sum over the sampled users to all users."""
        return total * max(self.users, 1) / len(self.lengths)


def _cost(
    work: Sequence[Task],
    settings: dict[str, Point],
    collected: Collected[Report],
    probes: dict[str, Point],
    limit_s: float,
    started_s: float,
) -> Cost:
    """Combine counts and measurements."""
    prepared = {report.setting: report for report in collected.reports if isinstance(report, Prepared)}
    rates = {report.lppm: report for report in collected.reports if isinstance(report, Rate)}
    custom = {report.lppm: report.approximation for report in collected.reports if isinstance(report, Secret)}
    secrets = {lppm: approximation for lppm, approximation in custom.items() if approximation is not None}
    unknown = {task.lppm for task in work if not is_declared(task.spec)} - custom.keys()
    people_of = _people_of(settings, prepared)
    rows = _rows_by_task(work, people_of, secrets)
    here = _bytes_here()
    peak = max((_peak(task, people_of[task.point.setting], rows) for task in _some(work)), default=0.0)
    least_peak = max(peak_bytes(task.point.scenario, users=1, queries=1, past=0, rows=1) for task in _some(work))
    whole = Cost(
        points=len({task.point.index for task in work}),
        users=max(own.users for own in people_of.values()),
        simulations=0,
        queries=0,
        rows=0,
        seconds=None,
        locations=_locations(task.point.scenario for task in work),
        peak_bytes=round(here + peak),
        least_bytes=round(here + least_peak),
        approximate=not all(own.exact for own in people_of.values()),
        unmeasured=tuple(_unmeasured(collected, settings, rates, probes, unknown, limit_s)),
        timed_out=collected.ending == "time",
        incomplete=not probes.keys() <= rates.keys(),
        readings=next(iter(prepared.values())).readings if prepared else {},
        exact=tuple(dict.fromkeys(task.lppm for task in work if task.is_exact)),
        undivided=_undivided(settings, people_of),
        secrets=secrets,
    )

    def count(times: dict[tuple[int, str], int]) -> Cost:
        queries = sum(times[task.key] * people_of[task.point.setting].total for task in work)
        stages = _times(work, times, people_of, rates, rows, started_s) if rates else None
        return replace(
            whole,
            simulations=sum(times.values()),
            queries=round(queries),
            rows=round(sum(times[task.key] * rows[task.key] for task in work)),
            log_bytes=round(sum(times[task.key] * rows[task.key] * _bytes_per_row(task) for task in work)),
            seconds=None if stages is None else stages.cpu_s(),
            times=stages,
        )

    least, most = ({task.key: getattr(task, bound) for task in work} for bound in ("at_least", "at_most"))
    return replace(count(most), least=count(least) if least != most else None)


def _people_of(settings: dict[str, Point], prepared: dict[str, Prepared]) -> dict[str, _People]:
    """Return the users of each setting: as measured, as given in the scenario, or as in the last measured setting."""
    last: Prepared | None = next(iter(prepared.values()), None)
    people_of = {}
    for key, point in settings.items():
        report = prepared.get(key)
        last = report or last
        once_s, each_s = (0.0, 0.0) if last is None else (last.once_s, last.each_s)
        if report is not None:
            people_of[key] = _People(report.users, report.lengths, report.past, report.exact, once_s, each_s)
        elif (counted := count_without_living(point.scenario)) is not None:
            past = float(point.scenario.users.past_queries or 0)
            people_of[key] = _People(counted[0], [counted[1]], past, True, once_s, each_s)
        elif last is not None:
            users = point.scenario.users.count or last.users
            people_of[key] = _People(users, last.lengths, last.past, False, once_s, each_s)
        else:
            people_of[key] = _People(point.scenario.users.count or 0, [_guess(point.scenario)], 0.0, False, 0.0, 0.0)
    return people_of


def _guess(scenario: Scenario) -> int:
    """Return an approximate number of queries of an unmeasured user, from the size of a trace file if there is one."""
    users = scenario.users
    if isinstance(users.mobility, ReplayParameters):
        rows = rows_of_file(scenario.locate(users.mobility.file))
        each = math.ceil(rows / users.count) if users.count else rows
        return min(each, users.queries or each)
    return users.queries or 0


def rows_of_file(path: Path) -> int:
    """Return the approximate number of rows of a trace file: from its footer, or from its size and some lines."""
    if path.suffix == ".parquet":
        return int(pq.ParquetFile(path).metadata.num_rows)
    with path.open("rb") as file:
        head = file.read(65_536)
        file.seek(path.stat().st_size // 2)  # later lines may be longer: numbers grow
        head += file.read(65_536)
    packed = 5 if path.suffix in (".gz", ".bz2", ".xz", ".zip") else 1  # typical compression ratio of such text
    lines = head.count(b"\n") if packed == 1 else len(head) / 40
    return round(path.stat().st_size * packed * max(lines, 1) / max(len(head), 1))


def _rows_by_task(
    work: Sequence[Task], people_of: dict[str, _People], secrets: Collection[str]
) -> dict[tuple[int, str], float]:
    """Return the number of rows in the event log of one simulation of each task."""
    rows: dict[tuple[int, str], float] = {}
    known: dict[tuple[str, int, int, bool, bool], float] = {}
    for task in work:
        scenario, own, lppm = task.point.scenario, people_of[task.point.setting], task.spec
        has_secret = lppm.has_memory or lppm.name in secrets
        alike = (task.point.setting, id(scenario.attacks), id(scenario.record), lppm.full, has_secret)
        if alike not in known:
            attacks = scenario.attacks_on(lppm, has_secret=has_secret)
            known[alike] = own.scaled(event_rows(scenario, attacks, own.lengths))
        rows[task.key] = known[alike]
    return rows


def _bytes_per_row(task: Task) -> int:
    return BYTES_PER_ROW["queries" if task.point.scenario.record.summary_window is None else "summary"]


def _times(
    work: Sequence[Task],
    times: dict[tuple[int, str], int],
    people_of: dict[str, _People],
    rates: dict[str, Rate],
    rows: dict[tuple[int, str], float],
    started_s: float,
) -> Times:
    """Return the CPU time of the stages of a run with the measured LPPMs."""
    once_s = sum(own.once_s for own in people_of.values())
    total_s, chunks, combinations = once_s, 0.0, 0.0
    replications: dict[str, int] = {}
    for task in work:
        own, scenario = people_of[task.point.setting], task.point.scenario
        size, repeated = _size(task, own), times[task.key]
        joined = 1 if isinstance(scenario.replications, RepeatUntil) else len(scenario.lppms)
        chunks += max(repeated * size.blocks / size.replications, 1.0) / joined
        combinations += own.users * max(len(scenario.attacks), 1)
        replications[task.point.setting] = max(replications.get(task.point.setting, 0), repeated)
        if (rate := rates.get(task.lppm)) is None or not rate.queries:
            continue
        more_s = rate.candidate_s * max(own.users - PROBED_USERS, 0) / rate.queries
        users_s = own.scaled(sum(rate.seconds(queries) + more_s * queries for queries in own.lengths))
        total_s += repeated * (rate.fixed_s * size.blocks + users_s)
    total_s += sum(people_of[key].users * people_of[key].each_s * count for key, count in replications.items())
    start_s, end_s = start_and_end(
        started_s=started_s,
        rows=sum(times[task.key] * rows[task.key] for task in work),
        combinations=combinations,
        attacks=max(len(task.point.scenario.attacks) for task in work),
        shifts=any(task.point.scenario.shifts for task in work),
    )
    parts = max(math.ceil(chunks), 1)
    return Times(start_s, total_s + parts * PART_S, end_s, chunks=parts, once_s=once_s)


def _some(work: Sequence[Task]) -> list[Task]:
    """Return a sample of tasks: memory depends on the world, the users and the kinds of components only."""
    return (
        [work[len(work) * k // MOST_SETTINGS] for k in range(MOST_SETTINGS)] if len(work) > MOST_SETTINGS else [*work]
    )


def _size(task: Task, own: _People) -> ChunkSize:
    """Return the size of the chunks of a task."""
    scenario = task.point.scenario
    alone = isinstance(scenario.replications, RepeatUntil)
    names = [task.lppm] if alone else [lppm.name for lppm in scenario.lppms]
    return chunk_size(scenario, names, users=max(own.users, 1), queries=round(own.total))


def _locations(scenarios: Iterable[Scenario]) -> tuple[str, ...]:
    """Return number and size of the locations of some scenarios in words, each once."""
    worlds = {scenario.canonical(only=frozenset({"seed", "world"})): scenario for scenario in scenarios}
    return tuple(dict.fromkeys(scenario.build_locations().summary() for scenario in worlds.values()))


def _undivided(settings: dict[str, Point], people_of: dict[str, _People]) -> tuple[str, ...]:
    """Return notes on large populations that are not divided into blocks of users."""
    notes = [
        undivided_note(point.scenario, users=people_of[key].users, queries=round(people_of[key].total))
        for key, point in settings.items()
    ]
    return tuple(filter(None, dict.fromkeys(notes)))


def _peak(task: Task, own: _People, rows: dict[tuple[int, str], float]) -> float:
    """Return the memory in bytes of the chunk of a task, in addition to that of the code."""
    scenario = task.point.scenario
    alone = isinstance(scenario.replications, RepeatUntil)
    names = [task.lppm] if alone else [lppm.name for lppm in scenario.lppms]
    in_one = sum(rows.get((task.point.index, name), 0.0) for name in names)
    size = _size(task, own)
    share = min(task.at_most, size.replications) / size.blocks
    file_rows = 0
    if isinstance(scenario.users.mobility, ReplayParameters):
        file_rows = rows_of_file(scenario.locate(scenario.users.mobility.file))
    return peak_bytes(
        scenario,
        users=math.ceil(max(own.users, 1) / size.blocks),
        queries=own.mean,
        past=own.past,
        rows=math.ceil(in_one * share),
        file_rows=file_rows,
    )


def _bytes_here() -> int:
    """Return the memory in bytes of this process, with everything that a run without figures imports."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 300_000_000
    loaded = "numba" in sys.modules or os.environ.get(kernels.VARIABLE) == "plain"
    return pages * os.sysconf("SC_PAGE_SIZE") + (0 if loaded else KERNEL_BYTES)


def _unmeasured(
    collected: Collected[Report],
    settings: dict[str, Point],
    rates: dict[str, Rate],
    probes: dict[str, Point],
    unknown: Collection[str],
    limit_s: float,
) -> list[str]:
    """Return descriptions of missing measurements, with reasons."""
    why = {
        "time": f"not within {round(limit_s, 1):g} s",
        "memory": "needs more memory than is free",
        "died": "its process was killed",
    }.get(collected.ending, f"not within {round(limit_s, 1):g} s")
    prepared = [report for report in collected.reports if isinstance(report, Prepared)]
    unchecked = [report.unchecked for report in prepared if report.unchecked is not None]
    missing = [f"{what}: not checked on all users" for what in dict.fromkeys(unchecked)]
    missing += [f"whether the outputs of {lppm} depend on a secret ({why})" for lppm in sorted(unknown)]
    if not prepared:
        return [*missing, f"world, users and training data ({why})"]
    if (skipped := len(settings) - len(prepared)) > 0:
        missing.append(f"{skipped:,} of {len(settings):,} settings of the sweep, assumed to equal the nearest ones")
    slow = [lppm for lppm in probes if lppm not in rates]
    return [*missing, *([f"{', '.join(slow)} ({why})"] if slow else [])]
