"""Searches as chunks of a pool: a worker finds the strengths of one LPPM and stores each evaluation of the metric.

A search is a function of the metrics that it measures. It is repeated from the evaluations stored in the run directory:
by the driver, which simulates nothing, and by a resumed run, which simulates only what is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from functools import partial

import numpy as np

from sim.errors import InputError, InvalidValue
from sim.execution.calibration.goals import Goal, LossGoal
from sim.execution.calibration.measuring import Measured, Sample, measure, sample
from sim.execution.calibration.search import Found, StrengthSearch
from sim.execution.plan import Chunk
from sim.execution.population_cache import PopulationCache
from sim.scenario.lppms import LPPMSpec
from sim.simulation.progress import Tick
from sim.storage.archives import DamagedArchive, packed, unpacked
from sim.storage.run_directory import RunDirectory
from sim.storage.run_file import RunFile

_FIELDS = ("replications", "strength", "value", "low", "high")
_SCOUT_NARROW = 3e-3
"""Relative width of a bracket at which a scout accepts a jump of the metric."""

Evaluations = dict[tuple[int, float], Measured]
"""Evaluations of the metric by number of replications and strength."""


@dataclass(frozen=True, slots=True)
class CalibrationChunk(Chunk):
    """Search for the strengths with which an LPPM reaches some targets; the chunk has no part."""

    goal: Goal = field(default_factory=LossGoal)
    targets: tuple[float, ...] = ()

    @property
    def lppm(self) -> LPPMSpec:
        """The LPPM, whose strength is not yet known."""
        return next(lppm for lppm in self.point.scenario.lppms if lppm.name == self.lppms[0])


class NotStored(Exception):
    """An evaluation that is not stored yet."""


def calibrate(
    chunk: CalibrationChunk, directory: RunDirectory, populations: PopulationCache, tick: Tick | None = None
) -> None:
    """Find the strengths of a chunk; store each evaluation when it ends."""
    stored = read_evaluations(chunk, directory)
    taken = sample(chunk.point, chunk.lppm, chunk.goal, populations)

    def metric(replications: int, strength: float) -> float:
        if (replications, strength) not in stored:
            part = taken.with_replications(replications)
            try:
                measured = measure(chunk.point, chunk.lppm, chunk.goal, strength, part, populations, tick)
            except InvalidValue as error:
                raise InputError(f"lppms.{chunk.lppm.name}: {error}", code=error.code) from error
            stored[replications, strength] = measured
            _file(chunk, directory).write_bytes(_packed(stored))
        return stored[replications, strength].value

    _search(chunk, taken, metric)


def found(chunk: CalibrationChunk, taken: Sample, stored: Evaluations) -> list[Found]:
    """Return the results of a search for each target from its evaluations; raise `NotStored` if some are missing."""

    def metric(replications: int, strength: float) -> float:
        if (replications, strength) not in stored:
            raise NotStored
        return stored[replications, strength].value

    return _search(chunk, taken, metric)


def _search(chunk: CalibrationChunk, taken: Sample, metric: Callable[[int, float], float]) -> list[Found]:
    """Search with all replications of a sample; a search with the first one proposes the strengths."""
    span, goal = chunk.lppm.design.strength_range, chunk.goal
    assert span is not None
    scout = None
    if taken.replications > 1:
        scout = StrengthSearch(partial(metric, 1), span, goal.side, narrow=max(goal.narrow, _SCOUT_NARROW))
    search = StrengthSearch(partial(metric, taken.replications), span, goal.side, narrow=goal.narrow, scout=scout)
    return [search.find(target) for target in chunk.targets]


def sample_of(chunk: CalibrationChunk, populations: PopulationCache) -> Sample:
    """Return what a chunk simulates for each strength."""
    return sample(chunk.point, chunk.lppm, chunk.goal, populations)


def read_evaluations(chunk: CalibrationChunk, directory: RunDirectory) -> Evaluations:
    """Return the stored evaluations of a chunk; corrupt ones are ignored and computed again."""
    file = _file(chunk, directory)
    if not file.exists():
        return {}
    try:
        arrays = unpacked(file.read_bytes(), _FIELDS)
        rows = zip(*(arrays[name].tolist() for name in _FIELDS), strict=True)
        return {(int(row[0]), row[1]): Measured(*row[1:]) for row in rows}
    except (DamagedArchive, KeyError):
        return {}


def _packed(stored: Evaluations) -> bytes:
    rows = [(replications, *astuple(one)) for (replications, _), one in stored.items()]
    return packed(dict(zip(_FIELDS, np.array(rows, float).T, strict=True)))


def _file(chunk: CalibrationChunk, directory: RunDirectory) -> RunFile:
    # The digest of the run covers the version, the content of input files and all parts of the scenario.
    text = json.dumps([directory.digest, chunk.point.setting, family(chunk.lppm), repr(chunk.goal), chunk.targets])
    return directory.file(f"calibration/{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz")


def family(lppm: LPPMSpec) -> str:
    """Return a text that LPPMs share if they differ in their strength or budget only."""
    span = lppm.design.strength_range
    assert span is not None
    same = lppm.model_copy(update={"design": lppm.design.with_strength(span.noisy_end)})
    return same.model_dump_json(exclude={"kind"})
