"""Plan of a run: its tasks, and chunks of simulations whose ids are derived from their content."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sim.execution.blocks import Area, ChunkSize, overlapping, uncovered
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import RepeatUntil, Scenario
from sim.scenario.sweep import SETTING, CanonicalTexts, Point
from sim.storage.errors import RequestError
from sim.storage.event_schema import SCHEMA_VERSION
from sim.storage.part_ids import part_id, point_in, replications_in, users_in

People = tuple[str, range, range | None]
"""Setting, replications and users of a chunk."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Simulations that are run and written together.

    A chunk covers some LPPMs at one point, in consecutive replications with all users, or in one replication with a
    block of consecutive users.
    """

    id: str
    point: Point
    replications: range
    lppms: tuple[str, ...]
    users: range | None = None
    """Positions of the users in the order of the scenario; None: all users."""

    @property
    def people(self) -> People:
        """Setting, replications and users; chunks with the same value share populations in memory."""
        return self.point.setting, self.replications, self.users


@dataclass(frozen=True, slots=True)
class Task:
    """An LPPM to simulate at a point, with a fixed number of replications or until its metrics are precise.

    No earlier point simulates the same.
    """

    point: Point
    lppm: str
    identity: str
    at_least: int
    at_most: int
    half_width_km: float | None
    """Stop between the two numbers when no confidence interval is wider than ± this; None for a fixed number."""
    is_exact: bool
    """Whether every replication would have the same expected metrics, so that one suffices."""

    @property
    def key(self) -> tuple[int, str]:
        """Index of the point and name of the LPPM, as in the event log."""
        return self.point.index, self.lppm

    @property
    def spec(self) -> LPPMSpec:
        """The LPPM."""
        return next(spec for spec in self.point.scenario.lppms if spec.name == self.lppm)


Times = Mapping[tuple[int, str], int]
"""Number of replications of each task, by its key."""


def tasks(swept: Iterable[Point]) -> list[Task]:
    """Return the tasks of all points: at each point the LPPMs that no earlier point simulates.

    A sweep over a parameter of one design does not change other mechanisms, so they are simulated once.
    """
    fresh: list[Task] = []
    seen: set[tuple[str, int | RepeatUntil]] = set()
    texts = CanonicalTexts()
    for point in swept:
        scenario = point.scenario
        identities = _identities(scenario, texts)
        fresh += [
            _task(point, lppm, identities[lppm.name])
            for lppm in scenario.lppms
            if (identities[lppm.name], scenario.replications) not in seen
        ]
        seen.update((identity, scenario.replications) for identity in identities.values())
    return fresh


def _task(point: Point, lppm: LPPMSpec, identity: str) -> Task:
    rule = point.scenario.replications
    is_exact = point.scenario.is_exact(lppm)
    half_width_km = rule.until_half_width_km if isinstance(rule, RepeatUntil) and not is_exact else None
    at_least, at_most = (rule.at_least, rule.at_most) if isinstance(rule, RepeatUntil) else (rule, rule)
    if is_exact:
        at_least = at_most = 1
    return Task(point, lppm.name, identity, at_least, at_most, half_width_km, is_exact)


def next_look(replications: int, at_most: int) -> int:
    """Return the number of replications at which the stopping rule is evaluated next: a quarter more.

    A round then has work for many workers, and few evaluations limit the chance that an interval is narrow by accident.
    The number never depends on the number of workers, which must not change results.

    >>> next_look(5, 200), next_look(100, 200), next_look(190, 200)
    (6, 125, 200)
    """
    return min(at_most, replications + max(1, replications // 4))


SizeOf = Callable[[Point, Sequence[str]], ChunkSize]
"""Function of a point and the LPPMs of a chunk that returns the size of the chunk."""


class Plan:
    """Chunks of a list of tasks.

    A chunk holds the LPPMs of a point in consecutive replications or, if a simulation is long, in one replication with
    a block of users. With a stopping rule each LPPM has separate chunks: a chunk's id must not depend on how long other
    LPPMs are repeated, or a run with narrower intervals could not reuse it.
    """

    def __init__(self, tasks: Iterable[Task], size_of: SizeOf = lambda _point, _lppms: ChunkSize()) -> None:
        self.tasks = list(tasks)
        self._size_of = size_of
        self._rank: dict[str, int] = {}
        for task in self.tasks:
            self._rank.setdefault(task.point.setting, len(self._rank))
        self._groups: dict[tuple[int, str], list[Task]] = {}
        for task in self.tasks:
            alone = isinstance(task.point.scenario.replications, RepeatUntil)
            self._groups.setdefault((task.point.index, task.lppm if alone else ""), []).append(task)
        self._of_point: dict[int, list[list[Task]]] = {}
        for (point, _), group in self._groups.items():
            self._of_point.setdefault(point, []).append(group)
        self._contents: dict[tuple[tuple[int, str], ...], str] = {}

    def chunks(self, times: Times | None = None, existing: Iterable[str] = ()) -> list[Chunk]:
        """Return the chunks for a number of replications of each task (default: `Task.at_least`).

        Chunks of existing parts stay as they are, and further chunks fill the gaps between them. So the ids of a
        started plan do not change, and a plan with more replications repeats none of them. Chunks are ordered by
        replication, setting, users and point, because points may share a population in memory.
        """
        counts = times or {task.key: task.at_least for task in self.tasks}
        existing_chunks = self._existing_chunks(existing)
        chunks = []
        for group in self._groups.values():
            bounds = [0, *sorted({counts[task.key] for task in group})]
            for first, stop in itertools.pairwise(bounds):
                own = [task for task in group if counts[task.key] > first]
                among = existing_chunks.get(tuple(task.key for task in own), [])
                chunks += [chunk for chunk in among if first <= chunk.replications.start < stop]
                chunks += self._fill(range(first, stop), own, among)
        return sorted(chunks, key=self._place)

    def _place(self, chunk: Chunk) -> tuple[int, int, int, int]:
        """Return the sort key of a chunk."""
        first_user = 0 if chunk.users is None else chunk.users.start
        return chunk.replications.start, self._rank[chunk.point.setting], first_user, chunk.point.index

    def named(self, part: str) -> Chunk | None:
        """Return the chunk with this id; None if it cannot belong to this plan."""
        if (point := point_in(part)) is None:
            return None
        replications, users = replications_in(part), users_in(part)
        for group in self._of_point.get(point, []):
            own = [task for task in group if task.at_most >= replications.stop]
            if not own or not replications or (users is not None and users.stop > self._size(own).users):
                continue
            if (chunk := self._chunk(own, replications, users)).id == part:
                return chunk
        return None

    def alone(self, chunk: Chunk, replication: int) -> Chunk:
        """Return a chunk with only one replication of another chunk."""
        tasks = [task for task in self.tasks if task.point is chunk.point and task.lppm in chunk.lppms]
        return self._chunk(tasks, range(replication, replication + 1), chunk.users)

    def _existing_chunks(self, existing: Iterable[str]) -> dict[tuple[tuple[int, str], ...], list[Chunk]]:
        """Return the chunks of existing parts by the keys of their tasks, ordered by replication and user."""
        by_tasks: dict[tuple[tuple[int, str], ...], list[Chunk]] = {}
        named = [chunk for part in existing if (chunk := self.named(part)) is not None]
        for chunk in sorted(named, key=self._place):
            by_tasks.setdefault(tuple((chunk.point.index, lppm) for lppm in chunk.lppms), []).append(chunk)
        for chunks in by_tasks.values():
            if (both := overlapping([Area(chunk.replications, chunk.users) for chunk in chunks])) is not None:
                one, other = (chunks[place] for place in both)
                raise RequestError(
                    f"events/{one.id}.parquet and events/{other.id}.parquet contain the same replications, "
                    "written by two runs with different chunk sizes. Remove one of the two files and run again.",
                    code="overlapping-parts",
                )
        return by_tasks

    def _fill(self, replications: range, own: Sequence[Task], among: Sequence[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks that fill the gaps between existing chunks of the same tasks."""
        size = self._size(own)
        for gap in uncovered(replications, [Area(chunk.replications, chunk.users) for chunk in among], size.users):
            yield from (self._chunk(own, area.replications, area.users) for area in size.cut(gap))

    def _size(self, own: Sequence[Task]) -> ChunkSize:
        return self._size_of(own[0].point, [task.lppm for task in own])

    def _chunk(self, own: Sequence[Task], replications: range, users: range | None) -> Chunk:
        keys = tuple(task.key for task in own)
        if keys not in self._contents:
            self._contents[keys] = json.dumps([task.identity for task in own])
        point, bounds = own[0].point, (replications.start, replications.stop - 1)
        block = "" if users is None else f"[{users.start}, {users.stop - 1}], "
        text = f"[{SCHEMA_VERSION}, {bounds[0]}, {bounds[1]}, {block}{self._contents[keys][1:]}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        lppms = tuple(task.lppm for task in own)
        return Chunk(part_id(point.index, replications, digest, users), point, replications, lppms, users)


def _identities(scenario: Scenario, texts: CanonicalTexts) -> dict[str, str]:
    """Return, by LPPM name, a text of everything that determines the result of one replication."""
    setting = texts.of(scenario, SETTING | {"attacks", "record"})
    lppms = json.loads(texts.of(scenario, frozenset({"lppms"})))["lppms"]
    return {lppm["name"]: json.dumps([setting, lppm]) for lppm in lppms}


def share_of(chunks: list[Chunk], number: int, count: int) -> list[Chunk]:
    """Return the `number`-th of `count` contiguous shares, counted from 1; adjacent chunks may share a population.

    >>> share_of(["a", "b", "c", "d", "e"], 2, 2)
    ['c', 'd', 'e']
    """
    return chunks[len(chunks) * (number - 1) // count : len(chunks) * number // count]


def refuse_shard(shard: tuple[int, int], plan: Plan) -> None:
    """Raise RequestError unless the shard (i, N) exists and the number of replications is fixed."""
    number, count = shard
    if not 1 <= number <= count:
        raise RequestError(f"shard must be i/N with i from 1 to N, got {number}/{count}", code="invalid-shard")
    if any(task.half_width_km is not None for task in plan.tasks):
        raise RequestError(
            "shards need a fixed number of replications, because `until_half_width_km` depends on the metrics of all "
            "shards: set `replications` to a number, or use --workers or --dask",
            code="open-replications",
        )
