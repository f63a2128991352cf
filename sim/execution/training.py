"""Count large training sets before the simulations of a run, in parallel over blocks of people."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable
from functools import reduce

from sim.errors import input_errors
from sim.execution.plan import Chunk
from sim.execution.pool import Failure, Pool, to_stderr
from sim.execution.population_cache import PopulationCache
from sim.execution.training_counts import CountingChunk, read_counts, remove_counts, write_counts
from sim.mobility.training.others import OthersParameters
from sim.scenario.sweep import Point
from sim.simulation.setting import PEOPLE
from sim.storage.errors import RunError
from sim.storage.run_directory import RunDirectory

SHOW_EVERY_S = 10.0
"""Time between two messages about the number of counted blocks."""


def count_training(chunks: Iterable[Chunk], populations: PopulationCache, pool: Pool, directory: RunDirectory) -> None:
    """Count the training sets of more than `PEOPLE` people that chunks use, and write the counts into the run.

    Workers count blocks of people. An interrupted run keeps the blocks that it has counted. Smaller sets are counted
    by each worker when they are first needed.
    """
    for point in {chunk.point.setting: chunk.point for chunk in chunks}.values():
        used = point.scenario.training_sets_used()
        for training, spec in point.scenario.training.items():
            if isinstance(spec, OthersParameters) and training in used:
                with input_errors(f"training.{training}"):
                    people = populations.setting(point).people_in(training)
                if people > PEOPLE and read_counts(directory, point.setting, training) is None:
                    _count(point, training, people, pool, directory)


def _count(point: Point, training: str, people: int, pool: Pool, directory: RunDirectory) -> None:
    blocks = [range(first, min(first + PEOPLE, people)) for first in range(0, people, PEOPLE)]
    todo = [
        CountingChunk(f"training-{training}-{block.start}", point, range(0), (), block, training)
        for block in blocks
        if read_counts(directory, point.setting, training, block) is None
    ]
    shown_s = time.monotonic()
    for number, ended in enumerate(pool.run(todo, directory, lambda _queries: None), start=1):
        if isinstance(ended, Failure):
            raise RunError(
                f"training.{training}: counting the people failed: {ended.error}\n{ended.details}".rstrip(),
                code="training-failed",
            )
        if time.monotonic() - shown_s > SHOW_EVERY_S:
            shown_s = time.monotonic()
            to_stderr(f"counting the training data {training!r}: {number:,}/{len(todo):,} blocks of people")
    counts = (read_counts(directory, point.setting, training, block) for block in blocks)
    whole = reduce(operator.add, (part for part in counts if part is not None))
    write_counts(directory, point.setting, training, whole)
    for block in blocks:
        remove_counts(directory, point.setting, training, block)
