"""Counts of a large training set in the run directory, and the chunks that compute them for blocks of people.

Counts are integers, so their sums do not depend on the blocks. Corrupt entries are ignored and computed again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from sim.execution.plan import Chunk
from sim.mobility.statistics import Counts
from sim.storage.archives import DamagedArchive, packed, unpacked
from sim.storage.run_directory import RunDirectory
from sim.storage.run_file import RunFile


@dataclass(frozen=True, slots=True)
class CountingChunk(Chunk):
    """Block of people of a training set, given by `users`, whose visits and transitions are counted."""

    training: str = ""
    """Name of the training set."""


def read_counts(directory: RunDirectory, setting: str, training: str, people: range | None = None) -> Counts | None:
    """Return the counts of a training set, or of a block of its people; None if they are missing or corrupt."""
    file = _file(directory, setting, training, people)
    if not file.exists():
        return None
    try:
        arrays = unpacked(file.read_bytes())
        return Counts(arrays["visits"], arrays["pairs"], arrays["counts"])
    except (DamagedArchive, KeyError):
        return None


def write_counts(
    directory: RunDirectory, setting: str, training: str, counts: Counts, people: range | None = None
) -> None:
    """Write the counts of a training set, or of a block of its people, with a checksum."""
    arrays = {"visits": counts.visits, "pairs": counts.pairs, "counts": counts.counts}
    _file(directory, setting, training, people).write_bytes(packed(arrays))


def remove_counts(directory: RunDirectory, setting: str, training: str, people: range) -> None:
    """Remove the counts of a block of people."""
    _file(directory, setting, training, people).unlink()


def _file(directory: RunDirectory, setting: str, training: str, people: range | None) -> RunFile:
    block = [] if people is None else [people.start, people.stop]
    # The digest of the run covers the version and the content of input files, which the setting only names.
    text = json.dumps([directory.digest, setting, training, *block])
    return directory.file(f"training/{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz")
