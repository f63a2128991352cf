"""The plan of a run: tasks, and chunks of simulations with ids that tell what is in them."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import RepeatUntil, Scenario
from sim.scenario.sweep import SETTING, CanonicalTexts, Point
from sim.storage.errors import RequestError
from sim.storage.event_schema import SCHEMA_VERSION
from sim.storage.part_ids import part_id, point_in, replications_in

CHUNK_QUERIES = 10_000
"""A chunk holds so many queries or more, where there are replications enough: a second or a few of work."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Simulations that are run and written together: some LPPMs at one point in some replications."""

    id: str
    point: Point
    replications: range
    lppms: tuple[str, ...]

    @property
    def people(self) -> tuple[str, range]:
        """Whom it is about: chunks with the same can share what is in memory."""
        return self.point.setting, self.replications


@dataclass(frozen=True, slots=True)
class Task:
    """An LPPM at a point, which no earlier point has run, to be repeated: so often, or until its figures are sharp."""

    point: Point
    lppm: str
    identity: str
    at_least: int
    at_most: int
    half_width_km: float | None
    """Between the two numbers, stop when no interval is wider than ± this."""
    is_exact: bool
    """Every replication would have the same expected figures."""

    @property
    def key(self) -> tuple[int, str]:
        """The point and the LPPM, as rows of the log name them."""
        return self.point.index, self.lppm


Times = Mapping[tuple[int, str], int]
"""How many replications each task is to have, by its key."""


def tasks(found: Iterable[Point]) -> list[Task]:
    """Return, of each point, the LPPMs that no earlier point has run.

    A sweep over one design's parameter leaves other mechanisms as they were: they are simulated once.
    """
    fresh: list[Task] = []
    seen: set[tuple[str, int | RepeatUntil]] = set()
    texts = CanonicalTexts()
    for point in found:
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
    said = point.scenario.replications
    is_exact = point.scenario.is_exact(lppm)
    half_width_km = said.until_half_width_km if isinstance(said, RepeatUntil) and not is_exact else None
    at_least, at_most = (said.at_least, said.at_most) if isinstance(said, RepeatUntil) else (said, said)
    if is_exact:
        at_least = at_most = 1
    return Task(point, lppm.name, identity, at_least, at_most, half_width_km, is_exact)


def next_look(replications: int, at_most: int) -> int:
    """Return after how many replications the intervals are looked at next: after a quarter more.

    So a round holds some work for many workers, and chance has few occasions to make an interval look narrow. It is
    counted from what there is, never from the number of workers: that must not change results.

    >>> next_look(5, 200), next_look(100, 200), next_look(190, 200)
    (6, 125, 200)
    """
    return min(at_most, replications + max(1, replications // 4))


Joined = Callable[[Point, int], int]
"""How many replications of so many LPPMs at a point make a chunk."""


class Plan:
    """The chunks of some tasks.

    A chunk holds what a point runs in some replications that follow each other. Where LPPMs stop on their own each
    has chunks of its own: which of the others went on must not be told by its name, or asking for narrower intervals
    would begin anew.
    """

    def __init__(self, tasks: Iterable[Task], joined: Joined = lambda _point, _lppms: 1) -> None:
        self.tasks = list(tasks)
        self._joined = joined
        self._groups: dict[tuple[int, str], list[Task]] = {}
        for task in self.tasks:
            alone = isinstance(task.point.scenario.replications, RepeatUntil)
            self._groups.setdefault((task.point.index, task.lppm if alone else ""), []).append(task)
        self._of_point: dict[int, list[list[Task]]] = {}
        for (point, _), group in self._groups.items():
            self._of_point.setdefault(point, []).append(group)
        self._contents: dict[tuple[tuple[int, str], ...], str] = {}

    def chunks(self, times: Times | None = None, there: Iterable[str] = ()) -> list[Chunk]:
        """Return what is to be run for so many replications of each task, the fewest that it may have unless said.

        Chunks whose parts are there already are kept as they were cut, and the gaps between them are filled: so the
        names of a plan that was begun stay the same, and one with more replications repeats none of them. The first
        replications of all points come first, so that they meet the same people while those are in memory.
        """
        counts = times or {task.key: task.at_least for task in self.tasks}
        kept = self._kept(there)
        found = []
        for group in self._groups.values():
            bounds = [0, *sorted({counts[task.key] for task in group})]
            for first, stop in itertools.pairwise(bounds):
                own = [task for task in group if counts[task.key] > first]
                among = kept.get(tuple(task.key for task in own), [])
                found += [chunk for chunk in among if first <= chunk.replications.start < stop]
                found += [
                    self._chunk(own, replications)
                    for gap in _gaps(range(first, stop), [chunk.replications for chunk in among])
                    for replications in self._cut(gap, own)
                ]
        return sorted(found, key=lambda chunk: (chunk.replications.start, chunk.point.index))

    def named(self, part: str) -> Chunk | None:
        """Return the chunk with this id, if it can be one of this plan."""
        if (point := point_in(part)) is None:
            return None
        replications = replications_in(part)
        for group in self._of_point.get(point, []):
            own = [task for task in group if task.at_most >= replications.stop]
            if own and replications and (chunk := self._chunk(own, replications)).id == part:
                return chunk
        return None

    def alone(self, chunk: Chunk, replication: int) -> Chunk:
        """Return the chunk that holds one replication of another chunk."""
        tasks = [task for task in self.tasks if task.point is chunk.point and task.lppm in chunk.lppms]
        return self._chunk(tasks, range(replication, replication + 1))

    def _kept(self, there: Iterable[str]) -> dict[tuple[tuple[int, str], ...], list[Chunk]]:
        """Return the chunks that are there, in order, by what they hold."""
        found: dict[tuple[tuple[int, str], ...], list[Chunk]] = {}
        named = [chunk for part in there if (chunk := self.named(part)) is not None]
        for chunk in sorted(named, key=lambda chunk: chunk.replications.start):
            found.setdefault(tuple((chunk.point.index, lppm) for lppm in chunk.lppms), []).append(chunk)
        for chunks in found.values():
            for one, next_one in itertools.pairwise(chunks):
                if next_one.replications.start < one.replications.stop:
                    raise RequestError(
                        f"events/{one.id}.parquet and events/{next_one.id}.parquet hold the same replications: two "
                        "runs with chunks of different sizes have met. Remove one of the two and run again."
                    )
        return found

    def _cut(self, gap: range, own: Sequence[Task]) -> Iterator[range]:
        """Cut replications into chunks."""
        step = max(self._joined(own[0].point, len(own)), 1) if len(gap) > 1 else 1
        for first in range(gap.start, gap.stop, step):
            yield range(first, min(first + step, gap.stop))

    def _chunk(self, own: Sequence[Task], replications: range) -> Chunk:
        keys = tuple(task.key for task in own)
        if keys not in self._contents:
            self._contents[keys] = json.dumps([task.identity for task in own])
        point, bounds = own[0].point, (replications.start, replications.stop - 1)
        text = f"[{SCHEMA_VERSION}, {bounds[0]}, {bounds[1]}, {self._contents[keys][1:]}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return Chunk(part_id(point.index, replications, digest), point, replications, tuple(task.lppm for task in own))


def _gaps(whole: range, taken: Iterable[range]) -> Iterator[range]:
    """Yield what ranges in order leave of a whole.

    >>> list(_gaps(range(10), [range(2, 4), range(4, 5), range(9, 12)]))
    [range(0, 2), range(5, 9)]
    """
    free = whole.start
    for own in taken:
        if free < min(own.start, whole.stop):
            yield range(free, min(own.start, whole.stop))
        free = max(free, own.stop)
    if free < whole.stop:
        yield range(free, whole.stop)


def _identities(scenario: Scenario, texts: CanonicalTexts) -> dict[str, str]:
    """Return, by the name of each LPPM, everything that decides what one replication of it comes to."""
    setting = texts.of(scenario, SETTING | {"attacks", "record"})
    lppms = json.loads(texts.of(scenario, frozenset({"lppms"})))["lppms"]
    return {lppm["name"]: json.dumps([setting, lppm]) for lppm in lppms}


def share_of(chunks: list[Chunk], number: int, count: int) -> list[Chunk]:
    """Return the `number`-th of `count` shares, counted from 1. Neighbours stay together: they have people in common.

    >>> share_of(["a", "b", "c", "d", "e"], 2, 2)
    ['c', 'd', 'e']
    """
    return chunks[len(chunks) * (number - 1) // count : len(chunks) * number // count]


def refuse_shard(shard: tuple[int, int], plan: Plan) -> None:
    """Raise RequestError unless the shard (i, N) exists and the number of replications is fixed."""
    number, count = shard
    if not 1 <= number <= count:
        raise RequestError(f"a shard is i/N with i from 1 to N, got {number}/{count}")
    if any(task.half_width_km is not None for task in plan.tasks):
        raise RequestError(
            "a number of replications that depends on the figures (until_half_width_km) cannot be cut into shards, "
            "none of which sees them all: give a fixed number, or use --workers or --dask"
        )
