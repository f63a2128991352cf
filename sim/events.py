"""The immutable nouns that flow through a simulation.

Truth lives only in `Visit` and `Query`. An adversary is handed a `Report` and answers with a `Guess`.

They are named tuples because several are made for every query: a frozen dataclass takes three times as long to make.
Their `index` hides that of tuples, which nobody needs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sim.interfaces import Channel, FloatArray, IntArray


class Visit(NamedTuple):
    """A user is in a cell from this moment on, until her next visit."""

    time_s: int
    cell: int


class Query(NamedTuple):
    """The truth behind one use of the service: x^r of the paper. Never shown to an adversary."""

    user: str
    index: int  # type: ignore[assignment]
    """r of the paper: counts the user's queries from 1."""
    time_s: int
    cell: int


class Shift(NamedTuple):
    """A change in a user's life begins, or is over, with one of her queries."""

    user: str
    name: str
    index: int  # type: ignore[assignment]
    """The first query after it."""
    ends: bool = False
    """Whether this is where the change is over and the life before it goes on."""


class Report(NamedTuple):
    """What everybody may see of a query: z^r of the paper and the channel that produced it."""

    user: str
    """Her name, or a pseudonym where the stream hides names."""
    index: int  # type: ignore[assignment]
    time_s: int
    output: int
    channel: Channel | None
    """None from a mechanism of the full type: its channel follows from where the user really was."""


class Guess(NamedTuple):
    """An adversary's answer to a report: the estimate x-hat^r of the paper."""

    user: str
    index: int  # type: ignore[assignment]
    estimate: int
    estimate_by_output: IntArray | None = None
    """What she would have answered to every possible output, shape (n_outputs,); for expected figures.

    A read-only array is taken never to change: what follows from it is worked out once.
    """
    posterior: FloatArray | None = None
    """What she believes now about where the user is, shape (n_cells,); for entropy and the mass at the truth."""
    identity: str | None = None
    """Which user she takes this one for, where names are hidden."""
    revised: Sequence[tuple[int, int]] = ()
    """What she now thinks of earlier queries: (index, estimate) of each."""
