"""Visits of the users of a trace file: from rows to sessions, days, stay points and positions at a fixed period."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.components.wording import counted
from sim.errors import InvalidValue
from sim.interfaces import IntArray
from sim.mobility.recorded.irregular import irregular
from sim.mobility.recorded.sessions import long_enough, resample, session_numbers
from sim.mobility.recorded.stay_points import StayPoints, means, stays
from sim.mobility.recorded.tables import Table, numeric_order, read_table
from sim.mobility.recorded.visit_index import UserVisits, VisitIndex

if TYPE_CHECKING:
    from sim.mobility.recorded.replay import RecordedDays, ReplayParameters
    from sim.world.locations import Locations

ByUser = dict[str, UserVisits]


def build_index(parameters: ReplayParameters, locations: Locations, file: Path) -> VisitIndex:
    """Read a trace file, form visits, select users and visits, and return the index of the visits."""
    days, visits = parameters.days, parameters.visits
    table = read_table(
        file, locations=locations, columns=parameters.columns.names(), degrees=parameters.stay_points is not None
    )
    if not (table.cell >= 0).any():
        swapped = table.extent.endswith("?")
        hint = "; `lppm-sim data describe` suggests a region" if table.extent and not swapped else ""
        raise InvalidValue(
            f"{file}: none of its {counted(table.cell.size, 'row')} is in the region{table.extent}{hint}",
            code="outside-region",
        )
    _require_times(file, parameters, timed=table.timed)
    counts: dict[str, Counter[str]] = {}
    by_user, points = _visits_by_user(table, locations, parameters, counts), {}
    _require_visits(file, parameters, by_user, counts)
    if days is not None:
        points, by_user = by_user, _whole_days(file, by_user, days)
    chosen = parameters.select.choose({user: own.cells.size for user, own in by_user.items()})
    if not chosen:
        raise InvalidValue(
            f"{file}: the selection ({parameters.select}) leaves none of its {counted(len(by_user), 'user')}",
            code="no-users",
        )
    used = {user: by_user[user].first(visits) for user in chosen}
    report: dict[str, Any] = {
        "rows": int(table.cell.size),
        "rows_outside": int((table.cell < 0).sum()),
        "users_in_region": int(np.unique(table.user[table.cell >= 0]).size),
        "users": len(chosen),
        "visits": sum(own.cells.size for own in used.values()),
    }
    if table.timed:
        report |= irregular(table, set(chosen))
    if days is not None:
        report["visits_carried"] = sum(days.carried(points[user].times_s, own.times_s) for user, own in used.items())
    report |= _total(counts[user] for user in chosen)
    if parameters.resample_s is not None:
        report["visits_carried"] = sum(int(own.carried.sum()) for own in used.values() if own.carried is not None)
    return VisitIndex.of(used, {"timed": table.timed, "report": report})


def _total(counts: Iterable[Counter[str]]) -> Counter[str]:
    """Return the sum of counts, including zeros."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


def _require_times(file: Path, parameters: ReplayParameters, *, timed: bool) -> None:
    names = [name for name in ("days", *parameters.of_sessions) if vars(parameters)[name] is not None]
    if names and not timed:
        raise InvalidValue(
            f"{file}: `{names[0]}` requires times, but the file has only the order of visits: leave out `{names[0]}`",
            code="times-missing",
        )


def _require_visits(
    file: Path, parameters: ReplayParameters, by_user: ByUser, counts: Mapping[str, Counter[str]]
) -> None:
    """Raise InvalidValue if no visit is left, with the option that removed them."""
    if by_user:
        return
    total = _total(counts.values())
    if parameters.min_session is not None and total["sessions"] == 0:
        raise InvalidValue(
            f"{file}: none of its {total['sessions_dropped']:,} sessions has `min_session` "
            f"({parameters.min_session}) rows: reduce `min_session`, or increase `max_gap_s` "
            f"({parameters.max_gap_s} s)",
            code="no-sessions",
        )
    stay = parameters.stay_points
    outside = f", and {total['stays_outside']:,} outside it" if total["stays_outside"] else ""
    raise InvalidValue(
        f"{file}: no stay points in the region{outside}: nobody is within `distance_m` "
        f"({stay.distance_m if stay else 0:g}) for `duration_s` ({stay.duration_s if stay else 0}). Increase the "
        "distance or reduce the duration; gaps over `max_gap_s` end a stay",
        code="no-stay-points",
    )


def _visits_by_user(
    table: Table, locations: Locations, parameters: ReplayParameters, counts: dict[str, Counter[str]]
) -> ByUser:
    """Return the visits of each user who has any, in order; without times, their times are positions in the trace.

    `counts` receives the numbers of sessions and stays of each user.
    """
    ordered = numeric_order(table.users)
    user = np.argsort(ordered)[table.user]
    order = table.order(user)
    if parameters.stay_points is None:  # otherwise rows outside the region end a stay
        order = order[table.cell[order] >= 0]
    starts = np.searchsorted(user[order], np.arange(len(table.users) + 1))
    result: ByUser = {}
    for number, code in enumerate(ordered):
        rows, name = order[starts[number] : starts[number + 1]], table.users[code]
        if rows.size:
            counts[name] = Counter()
            visits = _visits(table, rows, locations, parameters, counts[name])
            if visits.cells.size:
                result[name] = visits
    return result


def _visits(
    table: Table, rows: IntArray, locations: Locations, parameters: ReplayParameters, counts: Counter[str]
) -> UserVisits:
    """Return the visits of one user, given the rows in order of time; count sessions and stays."""
    if not table.timed:
        return UserVisits(np.arange(rows.size), table.cell[rows])
    times_s = table.when[rows].astype(np.int64) + round(parameters.utc_offset_h * 3600)
    if not any(vars(parameters)[name] is not None for name in parameters.of_sessions):
        return UserVisits(times_s, table.cell[rows])
    session = session_numbers(np.zeros_like(times_s), times_s, max_gap_s=parameters.max_gap_s)
    if parameters.min_session is not None:
        keep = long_enough(session, min_session=parameters.min_session)
        kept = np.unique(session[keep]).size
        counts.update(sessions=kept, sessions_dropped=int(session[-1]) + 1 - kept, rows_dropped=int((~keep).sum()))
        rows, times_s, session = rows[keep], times_s[keep], session[keep]
    cells = table.cell[rows]
    if parameters.stay_points is not None:
        times_s, cells, session = _stays(table, rows, times_s, session, locations, parameters.stay_points, counts)
        if parameters.resample_s is None:
            first = np.flatnonzero(np.diff(session, prepend=-1))
            return UserVisits(times_s[first], cells[first])
    if parameters.resample_s is None or not rows.size or not times_s.size:
        return UserVisits(times_s, cells)
    positions = resample(times_s, cells, session, period_s=parameters.resample_s)
    counts["visits_cut"] += positions.cut
    return UserVisits(positions.times_s, positions.values, positions.carried)


def _stays(
    table: Table,
    rows: IntArray,
    times_s: IntArray,
    session: IntArray,
    locations: Locations,
    parameters: StayPoints,
    counts: Counter[str],
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the times, the cells and the stay of the rows in stays, each with the cell of the stay point."""
    if table.lat is None or table.lon is None:
        raise InvalidValue(
            "`stay_points` requires latitudes and longitudes, but the file has cells: leave out `stay_points`",
            code="no-coordinates",
        )
    lat, lon = table.lat[rows], table.lon[rows]
    stay = stays(times_s, lat, lon, session, distance_m=parameters.distance_m, duration_s=parameters.duration_s)
    cells = locations.cell_of(means(stay, lat), means(stay, lon))
    staying = stay >= 0
    staying[staying] = cells[stay[staying]] >= 0
    counts.update(stays=int((cells >= 0).sum()), stays_outside=int((cells < 0).sum()), rows_staying=int(staying.sum()))
    return times_s[staying], cells[stay[staying]], stay[staying]


def _whole_days(file: str | Path, by_user: ByUser, days: RecordedDays) -> ByUser:
    """Return the slots of the selected days of each user who has any."""
    cut = {user: UserVisits(*days.cut(own.times_s, own.cells)) for user, own in by_user.items()}
    complete = {user: own for user, own in cut.items() if own.cells.size}
    if not complete:
        needed = "a day" if days.first is None else f"{days.first} days"
        remedy = "" if days.first is None else ", reduce the number of days `first`"
        raise InvalidValue(
            f"{file}: `days` ({days}) leaves none of its {counted(len(by_user), 'user')}: no user has {needed} from "
            f"midnight to midnight without a gap of more than {days.longest_silence_h:g} h in the region. Allow longer "
            f"gaps with `longest_silence_h` (at most 24){remedy}, check `utc_offset_h`, or leave out `days`",
            code="no-whole-days",
        )
    return complete
