"""Schedule of the shifts of a scenario: affected users, time windows and queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sim.errors import InputError, InvalidValue, input_errors
from sim.interfaces import Mobility, MobilityCapabilities
from sim.mobility.shifts.context import ShiftContext
from sim.mobility.shifts.life import ShiftedLife, Window
from sim.mobility.shifts.parameters import AnyShift, Concerned
from sim.mobility.traces import DAY_S, Life
from sim.scenario.people import UsersSpec


class ShiftSchedule:
    """Users, time windows and queries of each shift."""

    def __init__(
        self, shifts: Sequence[AnyShift], population: UsersSpec, mobility: Mobility, context: ShiftContext
    ) -> None:
        self._population, self._context = population, context
        self._timed = MobilityCapabilities.timed.of(mobility)
        self._concerned_by = {spec.name: self._concerned(spec) for spec in shifts}

    def concerns(self, spec: AnyShift, user: str) -> bool:
        """Return whether a shift affects a user, provided that their test is long enough."""
        return self._concerned_by[spec.name](user)

    def _concerned(self, spec: AnyShift) -> Concerned:
        with input_errors(f"shifts.{spec.name}"):
            if not self._timed:
                _require_no_days(spec)
            context = self._context
            return spec.concerned(context.users, lambda user: context.stream(spec.name, user, "share").random())

    def _test_begins_s(self, life: Life) -> int:
        """Return the start of the test in s; for a past counted in queries, the midnight before the first query."""
        population = self._population
        if population.past_queries is not None or population.past_share is not None:
            return int(life.test.times_s[0]) // DAY_S * DAY_S
        return life.origin_s + int((population.past_days or 0) * DAY_S)

    def window(self, spec: AnyShift, life: ShiftedLife) -> Window | None:
        """Return the time window of a shift; None if the user's test ends before it."""
        if spec.at_query is not None and spec.at_query > len(life.cells):
            return None
        if spec.at_query is not None:
            from_s = int(life.times_s[spec.at_query - 1])
        else:
            from_s = self._test_begins_s(life.base) + int((spec.at_day or 0) * DAY_S)
        until_s = np.inf if spec.for_days is None else from_s + int(spec.for_days * DAY_S)
        from_s = max(from_s, int(life.base.test.times_s[0]))  # the past does not change
        return Window(from_s, until_s, np.inf if spec.for_queries is None else spec.for_queries)

    def queries(self, spec: AnyShift, life: ShiftedLife) -> tuple[int, int] | None:
        """Return the first query of a shift and the first query after it, counted from 0; None if it has no query."""
        window = life.windows.get(spec.name) or self.window(spec, life)
        if window is None:
            return None
        n_queries = len(life.cells)
        if spec.at_query is not None and spec.changes_places:
            start = spec.at_query - 1
        else:
            start = int(life.times_s.searchsorted(window.from_s))
        if start >= n_queries:
            return None
        stop = n_queries if np.isinf(window.until_s) else int(life.times_s.searchsorted(window.until_s))
        stop = int(min(stop, start + window.for_queries))
        return (start, stop) if stop > start else None

    def require_effect(self, spec: AnyShift, lives: Iterable[ShiftedLife]) -> None:
        """Raise InputError if a shift changes none of these lives, which are read until one is changed."""
        queries, days, reached = 0, 0.0, False
        for life in lives:
            if any(shift.name == spec.name for shift in life.shifts):
                return
            queries = max(queries, len(life.cells))
            days = max(days, (int(life.times_s[-1]) - self._test_begins_s(life.base)) / DAY_S)
            window = self.window(spec, life)
            reached = reached or (window is not None and window.from_s <= life.times_s[-1])
        if spec.at_query is not None:
            starts, longest = f"starts at query {spec.at_query}", f"has {queries} queries"
        else:
            starts, longest = f"starts after {spec.at_day:g} days", f"ends after {days:.1f} days"
        reason = f"{starts}, the longest test of its users {longest}"
        if reached and spec.for_days is not None:
            reason = f"{starts} and lasts {spec.for_days:g} days without a query of its users; increase `for_days`"
        raise InputError(f"shifts.{spec.name}: the shift never takes effect: {reason}", code="shift-without-effect")


def _require_no_days(spec: AnyShift) -> None:
    """Raise InvalidValue for durations in days with a trace file that has an order of visits but no times."""
    for key, value in (("at_day", spec.at_day), ("for_days", spec.for_days)):
        if value is not None:
            raise InvalidValue(
                "the trace file has an order of visits but no times: allowed are `at_query` and `for_queries`, "
                f"got `{key}`",
                code="times-missing",
            )
