"""What is recorded of a run."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from sim.components.spec import Count, Spec
from sim.errors import InvalidValue


class RecordSpec(Spec):
    """What is recorded of a run."""

    short_key: ClassVar[str] = "log"

    log: Literal["queries", "summary"] = "queries"
    """One row per query and attack, or per `window` of queries and attack with the means of their metrics."""
    window: Count = 50
    """Number of queries of a user in a row of `log: summary`, the last row maybe fewer: the resolution over time."""
    expected: bool = True
    """Also the metrics expected over the mechanism's noise, given the past and the true cell; slower."""
    snapshots: list[Count] = [1, 10, 30, 100, 300]
    """Queries at which the mechanisms' learned profiles and the metrics under these are stored."""
    posterior: bool = False
    """Also, for each query, the entropy of the adversary's posterior and its mass at the true cell; cheap."""
    epsilon: Literal["none", "euclidean", "quality", "privacy"] = "none"
    """Also, for each query, the exact epsilon of the channel, per km of this distance; slow where channels change."""

    @model_validator(mode="after")
    def _summary_has_means_alone(self) -> Self:
        given = [name for name in ("posterior", "epsilon") if vars(self)[name] not in (False, "none")]
        if self.log == "summary" and given:
            message = f"`{given[0]}` is recorded per query, but `log: summary` records means only: set `log: queries`"
            raise InvalidValue(message, code="needs-query-log")
        return self

    @property
    def summary_window(self) -> int | None:
        """Number of queries in a row of the log, None with one row per query."""
        return self.window if self.log == "summary" else None

    def rows(self, queries: int) -> int:
        """Return the number of rows of a number of queries of a user, for each attack."""
        return -(-queries // (self.summary_window or 1))

    def unused(self) -> tuple[str, ...]:
        """Return the keys without effect: those of a summary where each query has a row."""
        return ("log", "window") if self.summary_window is None else ()
