"""The event log's schema: the columns of a row with their Arrow types, units and meaning.

A log has one row per query and attack, or per window of queries and attack, and one row per shift. Rows of every
simulation have the same columns; a column that does not apply is null. The order of the columns is part of the schema.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

SCHEMA_VERSION = 5
"""Version of the event log and the manifest; increased when a column is added."""
READABLE_VERSIONS = (3, 4, SCHEMA_VERSION)
"""Versions that can be read. Columns that a version lacks are null."""

EVENT = "event"
SHIFT = "shift"
POINT = "point"
REPLICATION = "replication"
USER = "user"
INDEX = "index"
TIME_S = "time_s"
CELL = "cell"
OUTPUT = "output"
LPPM = "lppm"
ATTACK = "attack"
ESTIMATED_INDEX = "estimated_index"
ESTIMATE = "estimate"
QUALITY_LOSS_KM = "quality_loss_km"
ADVERSARY_ERROR_KM = "adversary_error_km"
EXPECTED_QUALITY_LOSS_KM = "expected_quality_loss_km"
EXPECTED_ADVERSARY_ERROR_KM = "expected_adversary_error_km"
POSTERIOR_ENTROPY_BITS = "posterior_entropy_bits"
POSTERIOR_AT_TRUTH = "posterior_at_truth"
EPSILON_PER_KM = "epsilon_per_km"
IDENTITY = "identity"
PRIOR_ERROR_KM = "prior_error_km"
POSTERIOR_WITHIN_KM = {
    0.1: "posterior_within_100m",
    0.5: "posterior_within_500m",
    0.564: "posterior_within_564m",
    2.0: "posterior_within_2km",
}
"""Columns of the posterior probability that the true cell is within a radius in km."""

QUERY_EVENT = "query"
"""Value of `event`: one query and the answer of one attack."""
SUMMARY_EVENT = "summary"
"""Value of `event`: the means over a window of consecutive queries of a user."""
SHIFT_START_EVENT = "shift"
"""Value of `event`: a change of behaviour takes effect with this query."""
SHIFT_END_EVENT = "shift_end"
"""Value of `event`: a change of behaviour ends with this query."""


class Column(NamedTuple):
    """One column of the event log."""

    name: str
    type: pa.DataType
    description: str
    unit: str = ""
    required: bool = False
    """Whether every row has a value."""
    since: int = 1
    """Schema version that introduced the column."""


COLUMNS = (
    Column(EVENT, pa.string(), "Kind of row: query, summary, shift or shift_end.", required=True),
    Column(SHIFT, pa.string(), "Name of the shift; null in rows of queries.", since=2),
    Column(POINT, pa.int32(), "Index of the sweep point, from 0.", required=True),
    Column(REPLICATION, pa.int32(), "Index of the replication, from 0.", required=True),
    Column(USER, pa.string(), "Id of the user.", required=True),
    Column(INDEX, pa.int32(), "Index r of the query, from 1; of a window its last query.", required=True),
    Column(TIME_S, pa.int64(), "Time of the query.", "s", required=True),
    Column(CELL, pa.int32(), "True cell x of the user; -1 in rows of windows.", required=True),
    Column(OUTPUT, pa.int64(), "Reported output z; null in rows of windows and if nothing was reported."),
    Column(LPPM, pa.string(), "Name of the mechanism.", required=True),
    Column(ATTACK, pa.string(), "Name of the attack; null if the scenario has none."),
    Column(ESTIMATED_INDEX, pa.int32(), "Index of the estimated query; below `index` in a revised estimate."),
    Column(ESTIMATE, pa.int32(), "Cell estimated by the attack."),
    Column(QUALITY_LOSS_KM, pa.float64(), "Quality distance d_Q between cell and output.", "km"),
    Column(ADVERSARY_ERROR_KM, pa.float64(), "Privacy distance d_P between cell and estimate.", "km"),
    Column(EXPECTED_QUALITY_LOSS_KM, pa.float64(), "Quality loss expected over the mechanism's noise.", "km"),
    Column(EXPECTED_ADVERSARY_ERROR_KM, pa.float64(), "Adversary error expected over the mechanism's noise.", "km"),
    Column(POSTERIOR_ENTROPY_BITS, pa.float64(), "Entropy of the attack's posterior.", "bit", since=3),
    Column(POSTERIOR_AT_TRUTH, pa.float64(), "Posterior probability of the true cell.", since=3),
    Column(EPSILON_PER_KM, pa.float64(), "Exact epsilon of the channel.", "1/km", since=3),
    Column(IDENTITY, pa.string(), "User that the attack identified; null if names are known.", since=3),
    Column(
        PRIOR_ERROR_KM,
        pa.float64(),
        "P0: mean error over the user's test of the attack's best guess without any report. Null in revised estimates.",
        "km",
        since=4,
    ),
    *(
        Column(name, pa.float64(), f"Posterior probability of the cells within {km:g} km of the true cell.", since=5)
        for km, name in POSTERIOR_WITHIN_KM.items()
    ),
)

_FIELDS: list[pa.Field[Any]] = [pa.field(column.name, column.type, nullable=not column.required) for column in COLUMNS]
EVENTS: pa.Schema = pa.schema(_FIELDS)


def columns_of(version: int) -> list[str]:
    """Return the names of the columns of a schema version, in order."""
    return [column.name for column in COLUMNS if column.since <= version]


MEASURES = (QUALITY_LOSS_KM, ADVERSARY_ERROR_KM, EXPECTED_QUALITY_LOSS_KM, EXPECTED_ADVERSARY_ERROR_KM)
"""The metrics that summaries average: realised and expected loss and error."""

TEXT_COLUMNS = tuple(column.name for column in COLUMNS if column.type == pa.string())
