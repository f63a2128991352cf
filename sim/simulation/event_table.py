"""Event log of one simulation as an Arrow table.

One row per query and attack, or per window of queries and attack, sorted by user, query and attack. The row of a shift
precedes the rows of its first query, or of the window that contains this query. Revised estimates follow all other
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sim.events import Shift
from sim.interfaces import FloatArray, IntArray
from sim.mobility.traces import Trace
from sim.simulation.attack_log import AttackLog
from sim.simulation.user_log import UserLog
from sim.storage import event_schema as schema
from sim.storage.summary_rows import QueryColumns, averaged
from sim.world import World

_Constants = Mapping[str, str | int]
"""Columns with the same value in all rows of a table."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """Records of one simulation; traces, users and the arrays of each attack have the same order of users."""

    world: World
    traces: Sequence[Trace]
    users: Mapping[str, UserLog]
    attacks: Mapping[str, AttackLog]
    shifts: Sequence[Shift]
    prior_errors_km: FloatArray | None = None
    """P0 of each user and attack (`sim.simulation.prior_error`), shape (n_users, n_attacks); None: not known."""


def event_table(
    simulation: Simulation, *, point: int, lppm: str, replication: int, window: int | None = None
) -> pa.Table:
    """Return the rows of one simulation: one per query, or one per `window` queries of a user."""
    if not sum(map(len, simulation.traces)):
        return schema.EVENTS.empty_table()
    _require_answers(simulation, lppm)
    labels: _Constants = {schema.POINT: point, schema.REPLICATION: replication, schema.LPPM: lppm}
    columns = _query_columns(simulation)
    if window is not None:
        columns = averaged(columns, window)
    tables = [_rows(columns, simulation, labels)]
    if simulation.shifts:
        tables = [_with_shifts(tables[0], _shift_rows(simulation, labels), columns, simulation, window or 1)]
    if window is None and (revised := _revised_rows(simulation, labels)) is not None:
        tables.append(revised)
    return pa.concat_tables(tables)


def _require_answers(simulation: Simulation, lppm: str) -> None:
    outputs: IntArray = _joined(user.output for user in simulation.users.values())
    for values in (outputs, *(attack.estimate for attack in simulation.attacks.values())):
        if values.min() < 0:
            users = np.repeat(list(simulation.users), [len(trace) for trace in simulation.traces])
            raise RuntimeError(f"an attack on {lppm} did not answer every query of {users[values.argmin()]}")


def _query_columns(simulation: Simulation) -> QueryColumns:
    """Return the columns of all queries, and of all queries and attacks, user by user."""
    users, traces = simulation.users.values(), simulation.traces
    lengths = np.array([len(trace) for trace in traces], dtype=np.int64)
    cells: IntArray = _joined(trace.cells for trace in traces)
    outputs: IntArray = _joined(user.output for user in users)
    index: IntArray = _joined(np.arange(1, length + 1) for length in lengths)
    by_query: dict[str, Any] = {
        schema.INDEX: index,
        schema.TIME_S: _joined(trace.times_s for trace in traces),
        schema.CELL: cells,
        schema.OUTPUT: np.ma.masked_array(outputs, _joined(_withheld(user) for user in users)),
        schema.QUALITY_LOSS_KM: _losses_km(simulation, cells, outputs),
        schema.EXPECTED_QUALITY_LOSS_KM: _joined(user.expected_loss_km for user in users),
    }
    if any(len(user.epsilon_per_km) for user in users):
        by_query[schema.EPSILON_PER_KM] = _joined(user.epsilon_per_km for user in users)
    return QueryColumns(schema.QUERY_EVENT, lengths, by_query, _attack_columns(simulation, cells, index))


def _withheld(user: UserLog) -> NDArray[np.bool_]:
    """Return a mask of the queries of a user without a report."""
    if user.no_report is None:
        return np.zeros(len(user.output), dtype=bool)
    return np.equal(user.output, user.no_report)


def _losses_km(simulation: Simulation, cells: IntArray, outputs: IntArray) -> FloatArray:
    """Return d_Q between cells and outputs in km: looked up, or as recorded if outputs are not cells."""
    recorded = [user.loss_km for user in simulation.users.values() if user.loss_km is not None]
    if recorded:
        return _joined(recorded)
    return simulation.world.quality_distance.between_km(cells, outputs)


def _attack_columns(simulation: Simulation, cells: IntArray, index: IntArray) -> dict[str, NDArray[Any]]:
    """Return the columns of estimates, errors and posterior metrics, each of shape (n_queries, n_attacks)."""
    attacks = list(simulation.attacks.values())
    if not attacks:
        return {}
    estimate = np.column_stack([attack.estimate for attack in attacks])
    columns: dict[str, NDArray[Any]] = {
        schema.ESTIMATED_INDEX: np.broadcast_to(index[:, None], estimate.shape),
        schema.ESTIMATE: estimate,
        schema.ADVERSARY_ERROR_KM: simulation.world.privacy_distance.between_km(cells[:, None], estimate),
        schema.EXPECTED_ADVERSARY_ERROR_KM: np.column_stack([attack.expected_error_km for attack in attacks]),
        schema.POSTERIOR_ENTROPY_BITS: np.column_stack([attack.posterior_entropy_bits for attack in attacks]),
        schema.POSTERIOR_AT_TRUTH: np.column_stack([attack.posterior_at_truth for attack in attacks]),
    }
    columns |= _mass_columns(attacks, estimate.shape)
    identities = [attack.identity for attack in attacks]
    if any(identity is not None for of_attack in identities for identity in of_attack):
        columns[schema.IDENTITY] = np.array(identities, dtype=object).T
    return columns


def _mass_columns(attacks: Sequence[AttackLog], shape: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    """Return the columns of posterior masses within radii, each of shape (n_queries, n_attacks); empty without any."""
    masses = [attack.posterior_within for attack in attacks]
    if all(own is None for own in masses):
        return {}
    names = schema.POSTERIOR_WITHIN_KM.values()
    missing = np.full((shape[0], len(names)), np.nan)
    stacked = np.stack([missing if own is None else own for own in masses], axis=1)
    return {name: stacked[..., place] for place, name in enumerate(names)}


def _rows(columns: QueryColumns, simulation: Simulation, labels: _Constants) -> pa.Table:
    """Return a row for each entry and attack, or for each entry if the simulation has no attack."""
    attacks = max(len(simulation.attacks), 1)
    entries = int(columns.lengths.sum())
    user_of_row = np.repeat(np.arange(len(simulation.users)), columns.lengths * attacks)
    arrays: dict[str, Any] = {schema.USER: pa.array(list(simulation.users)).take(user_of_row)}
    if simulation.attacks:
        attack_of_row = np.tile(np.arange(attacks), entries)
        arrays[schema.ATTACK] = pa.array(list(simulation.attacks)).take(attack_of_row)
        if simulation.prior_errors_km is not None:
            arrays[schema.PRIOR_ERROR_KM] = pa.array(simulation.prior_errors_km[user_of_row, attack_of_row])
    for name, values in columns.by_query.items():
        arrays[name] = _nullable(name, values.repeat(attacks))
    for name, values in columns.by_attack.items():
        arrays[name] = _nullable(name, values.ravel())
    return _events(arrays, {schema.EVENT: columns.event, **labels}, entries * attacks)


def _nullable(name: str, values: NDArray[Any]) -> pa.Array[Any]:
    """Return a column in which a missing optional metric (NaN) or output (masked) is null."""
    missing = np.isnan(values) if name in _NULL_IF_NAN else None
    if isinstance(values, np.ma.MaskedArray):
        values, missing = values.data, np.ma.getmaskarray(values)
    column: pa.Array[Any] = pa.array(values, mask=missing)
    return column


_NULL_IF_NAN = (
    schema.EXPECTED_QUALITY_LOSS_KM,
    schema.EXPECTED_ADVERSARY_ERROR_KM,
    schema.POSTERIOR_ENTROPY_BITS,
    schema.POSTERIOR_AT_TRUTH,
    *schema.POSTERIOR_WITHIN_KM.values(),
)


def _revised_rows(simulation: Simulation, labels: _Constants) -> pa.Table | None:
    """Return a row for each revised estimate, with the true cell of the revised query."""
    traces = {trace.user: trace for trace in simulation.traces}
    revisions = [(revision, name) for name, attack in simulation.attacks.items() for revision in attack.revisions]
    if not revisions:
        return None
    cells = np.array([traces[revision.user].cells[revision.past - 1] for revision, _ in revisions])
    estimates = [revision.estimate for revision, _ in revisions]
    columns: dict[str, Any] = {
        schema.USER: [revision.user for revision, _ in revisions],
        schema.INDEX: [revision.index for revision, _ in revisions],
        schema.TIME_S: [int(traces[revision.user].times_s[revision.index - 1]) for revision, _ in revisions],
        schema.CELL: cells,
        schema.ATTACK: [attack for _, attack in revisions],
        schema.ESTIMATED_INDEX: [revision.past for revision, _ in revisions],
        schema.ESTIMATE: estimates,
        schema.ADVERSARY_ERROR_KM: simulation.world.privacy_distance.between_km(cells, estimates),
    }
    return _events(columns, {schema.EVENT: schema.QUERY_EVENT, **labels}, len(revisions))


def _shift_rows(simulation: Simulation, labels: _Constants) -> pa.Table:
    """Return a row for the start and for the end of each shift."""
    traces = {trace.user: trace for trace in simulation.traces}
    shifts = simulation.shifts
    columns: dict[str, Any] = {
        schema.EVENT: [schema.SHIFT_END_EVENT if shift.ends else schema.SHIFT_START_EVENT for shift in shifts],
        schema.SHIFT: [shift.name for shift in shifts],
        schema.USER: [shift.user for shift in shifts],
        schema.INDEX: [shift.index for shift in shifts],
        schema.TIME_S: [int(traces[shift.user].times_s[shift.index - 1]) for shift in shifts],
        schema.CELL: [int(traces[shift.user].cells[shift.index - 1]) for shift in shifts],
    }
    return _events(columns, labels, len(shifts))


def _with_shifts(
    rows: pa.Table, shift_rows: pa.Table, columns: QueryColumns, simulation: Simulation, step: int
) -> pa.Table:
    """Insert each row of a shift before the rows of its query; an entry of the columns covers `step` queries."""
    attacks = max(len(simulation.attacks), 1)
    starts = (np.cumsum(columns.lengths) - columns.lengths) * attacks
    first_row = dict(zip(simulation.users, starts.tolist(), strict=True))
    before = [first_row[shift.user] + (shift.index - 1) // step * attacks for shift in simulation.shifts]
    order = np.insert(np.arange(rows.num_rows), before, rows.num_rows + np.arange(len(before)))
    return pa.concat_tables([rows, shift_rows]).take(order)


def _events(columns: Mapping[str, Any], constants: _Constants, rows: int) -> pa.Table:
    """Return rows of the event log from columns and constants; all other columns are null."""
    arrays: dict[str, Any] = {name: pa.repeat(pa.scalar(value), rows) for name, value in constants.items()} | {
        **columns
    }
    missing: pa.Array[Any] = pa.nulls(rows)
    return pa.table(
        [pa.array(arrays.get(field.name, missing)).cast(field.type) for field in schema.EVENTS], schema=schema.EVENTS
    )


def _joined(parts: Iterable[Any]) -> NDArray[Any]:
    """Return the values of all users, concatenated."""
    return np.concatenate([np.asarray(part) for part in parts])
