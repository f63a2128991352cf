"""Options for the data that a run records."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from sim.components.spec import Count, Spec
from sim.errors import InvalidValue

EXPECTED_CELLS = 3_000
"""Largest number of cells for which expected metrics are recorded: they need the estimate for every output."""


class RecordSpec(Spec):
    """Data that a run records."""

    short_key: ClassVar[str] = "log"

    log: Literal["queries", "summary"] = "queries"
    """Rows of the event log: queries, one per query and attack; summary, one per `window` of queries and attack, with
    the means of the metrics."""
    window: Count = 50
    """Number of consecutive queries of a user in one row of `log: summary`, the time resolution; a user's last row may
    have fewer. No effect with `log: queries`."""
    expected: bool = True
    """Record the expected metrics as well: means over the mechanism's noise, given the past reports and the true cell;
    slower. Not recorded on grids with more than 3,000 cells, where they would need the estimates for all outputs."""
    snapshots: list[Count] = [1, 10, 30, 100, 300]
    """Query numbers, from 1, at which to store the profiles learned by the mechanisms and the metrics computed with
    them; for a sample of users if the population times the number of cells is large."""
    posterior: bool = False
    """Record for each query the entropy of the adversary's posterior and its probability of the true cell, and of the
    cells within 100 m, 500 m, 564 m and 2 km of it; fast."""
    epsilon: Literal["none", "euclidean", "quality", "privacy"] = "none"
    """Record for each query the exact epsilon of the channel, per km of this distance; slow if channels change."""

    @model_validator(mode="after")
    def _summary_has_means_alone(self) -> Self:
        given = [name for name in ("posterior", "epsilon") if vars(self)[name] not in (False, "none")]
        if self.log == "summary" and given:
            message = f"`{given[0]}` is recorded per query, but `log: summary` records means only: set `log: queries`"
            raise InvalidValue(message, code="needs-query-log")
        return self

    @property
    def summary_window(self) -> int | None:
        """Number of queries per row of the log; None with one row per query."""
        return self.window if self.log == "summary" else None

    def rows(self, queries: int) -> int:
        """Return the number of rows per attack for the queries of one user."""
        return -(-queries // (self.summary_window or 1))

    def unused(self) -> tuple[str, ...]:
        """Return the keys without effect: those of a summary if each query has a row."""
        return ("log", "window") if self.summary_window is None else ()
