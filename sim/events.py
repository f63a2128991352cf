"""The immutable nouns that flow through a simulation.

Truth lives only in `Visit` and `Query`. An adversary is handed a `Report` and answers with a `Guess`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.interfaces import Channel, IntArray


@dataclass(frozen=True, slots=True)
class Visit:
    """A user is in a cell from this moment on, until her next visit."""

    time_s: int
    cell: int


@dataclass(frozen=True, slots=True)
class Query:
    """The truth behind one use of the service: x^r of the paper. Never shown to an adversary."""

    user: str
    index: int
    """r of the paper: counts the user's queries from 1."""
    time_s: int
    cell: int


@dataclass(frozen=True, slots=True)
class Report:
    """What everybody may see of a query: z^r of the paper and the channel that produced it."""

    user: str
    index: int
    time_s: int
    output: int
    channel: Channel


@dataclass(frozen=True, slots=True)
class Guess:
    """An adversary's answer to a report: the estimate x-hat^r of the paper."""

    user: str
    index: int
    estimate: int
    estimate_by_output: IntArray | None = None
    """What she would have answered to every possible output, shape (n_outputs,); for expected figures."""
