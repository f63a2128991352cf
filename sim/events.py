"""Immutable records that a simulation passes between users, mechanisms and adversaries.

Only `Visit` and `Query` contain the true cell. An adversary receives a `Report` and returns a `Guess`.

The records are named tuples because several are created per query: creating a frozen dataclass takes three times as
long. Their field `index` replaces the method `tuple.index`, which is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sim.interfaces import Channel, FloatArray, IntArray


class Visit(NamedTuple):
    """Presence of a user in a cell, from this time until their next visit."""

    time_s: int
    """Start of the visit in seconds."""
    cell: int
    """Number of the cell."""


class Query(NamedTuple):
    """One use of the service with the true cell x^r of the paper. Adversaries never receive it."""

    user: str
    index: int  # type: ignore[assignment]
    """Number r of the query, counted from 1 for each user."""
    time_s: int
    """Time of the query in seconds."""
    cell: int
    """True cell of the user."""


class Shift(NamedTuple):
    """Start or end of a behaviour shift of one user."""

    user: str
    name: str
    index: int  # type: ignore[assignment]
    """Number of the first query after the start or end of the shift."""
    ends: bool = False
    """Whether the shift ends here and the user resumes their previous behaviour."""


class Report(NamedTuple):
    """Public part of a query: the output z^r of the paper and the channel that produced it."""

    user: str
    """Id of the user, or a pseudonym where the stream hides names."""
    index: int  # type: ignore[assignment]
    """Number r of the query, counted from 1 for each user."""
    time_s: int
    """Time of the query in seconds."""
    output: int
    """Output z^r, a column of the channel's matrix; for most designs the number of a cell."""
    channel: Channel | None
    """Channel in force; None for a mechanism of the full type, whose channel would reveal true cells."""


class Release(NamedTuple):
    """Time and output of a past report, as a mechanism remembers it."""

    time_s: int
    """Time of the query in seconds."""
    output: int
    """Output that was released."""


class Guess(NamedTuple):
    """Estimate x-hat^r of an adversary for one report."""

    user: str
    """Id of the user, as in the report."""
    index: int  # type: ignore[assignment]
    """Number r of the query, as in the report."""
    estimate: int
    """Estimated cell."""
    estimate_by_output: IntArray | None = None
    """Estimates for all possible outputs, shape (n_outputs,), used to compute expected metrics.

    A read-only array is assumed never to change: values derived from it are computed once.
    """
    posterior: FloatArray | None = None
    """Posterior over the user's cell, shape (n_cells,), used for the entropy and the probability of the true cell."""
    identity: str | None = None
    """Id of the user to whom the adversary attributes the report, where names are hidden."""
    revised: Sequence[tuple[int, int]] = ()
    """Revised estimates of earlier queries of the user, as pairs (index, estimate)."""
