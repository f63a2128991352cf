"""Identification of the columns of a trace file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sim.errors import InvalidValue

ACCEPTED: dict[str, tuple[str, ...]] = {
    "user": ("user", "user_id", "userid", "uid", "id"),
    "time": ("time_s", "time", "unixtime", "timestamp", "datetime"),
    "order": ("order", "index", "chron_seq"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "long", "longitude"),
    "cell": ("cell", "cell_id"),
}
"""Names, in any case, by which columns are recognised automatically."""

_HINTS: dict[str, tuple[str, ...]] = {
    "user": ("user", "name", "who", "person", "driver", "cab", "taxi", "vehicle", "device"),
    "time": ("time", "when", "date", "stamp", "seconds"),
    "lat": ("lat", "y"),
    "lon": ("lon", "lng", "x"),
    "cell": ("cell", "where", "place", "location", "zone"),
}
"""Words in other column names that are sufficient to suggest a column, but not to use it automatically."""


class MissingColumns(InvalidValue):
    """Columns that were not found. The message ends with the setting of a scenario that names them."""

    def __init__(self, problem: str, remedy: str, guesses: Mapping[str, str]) -> None:
        super().__init__(problem + remedy, code="no-such-column")
        self.problem = problem
        """The message without the remedy."""
        self.guesses = guesses
        """Likely columns by our names, NAME if there is none; empty if no name of a column helps."""


_Choices = Sequence[tuple[str, ...]]
"""Alternatives, of which one is required with all its columns, such as lat and lon, or cell."""


def find_columns(header: Sequence[str], given: Mapping[str, str], *, degrees: bool) -> dict[str, str]:
    """Return the columns of a file that contain the user, the time or else the order, and the position.

    `given` (our name to the name in the file) takes precedence. Otherwise a time is preferred to an order and, if the
    grid has `degrees`, coordinates are preferred to cells, which are meaningless on another grid.

    >>> find_columns(["UID", "Timestamp", "lat", "lng", "cell"], {"lat": "lat"}, degrees=True)
    {'user': 'UID', 'time': 'Timestamp', 'lat': 'lat', 'lon': 'lng'}
    """
    for name in given:
        if name not in ACCEPTED:
            raise InvalidValue(f"columns must be among {', '.join(ACCEPTED)}, got {name}", code="unknown-key")
    places = [("lat", "lon"), ("cell",)] if degrees else [("cell",)]
    result: dict[str, str] = {}
    missing: list[_Choices] = []
    for choices in ([("user",)], [("time",), ("order",)], places):
        # An alternative with a given column takes precedence over those recognised only by name.
        ranked = sorted(choices, key=lambda names: not any(name in given for name in names))
        match = next((match for names in ranked if (match := _match(header, given, names))), None)
        if match is None:
            missing.append(choices)
        else:
            result |= match
    if missing or not set(given.values()) <= set(header):
        raise _not_found(header, given, missing, degrees=degrees)
    return result


def _not_found(
    header: Sequence[str], given: Mapping[str, str], missing: Sequence[_Choices], *, degrees: bool
) -> MissingColumns:
    """Return an error with all missing columns and the way to name them."""
    problems = [f"no column {column} for {name}" for name, column in given.items() if column not in header]
    nameable = list(missing)
    for choices in missing:
        problems.append(f"no column for {' or '.join(' and '.join(map(_accepted, names)) for names in choices)}")
        if not degrees and ("cell",) in choices:
            problems.append("lat and lon need a grid of kind region or san_francisco, or locations in degrees")
            if _match(header, given, ("lat", "lon")):
                # The grid is wrong, not the name of a column: do not suggest a column for the cell.
                nameable.remove(choices)
    guesses = _guesses(header, given, nameable)
    problem = f"{'; '.join(problems)}; found {', '.join(header) or 'none'}"
    return MissingColumns(problem, _remedy(guesses), {name: column or "NAME" for name, column in guesses.items()})


def _match(header: Sequence[str], given: Mapping[str, str], names: Sequence[str]) -> dict[str, str] | None:
    """Return the columns for all these names, or None if one is missing."""
    lower = {column.lower().strip(): column for column in reversed(header)}
    match = dict(given)
    for name in names:
        known = [lower[option] for option in ACCEPTED[name] if option in lower]
        if name not in given and not known:
            return None
        match.setdefault(name, *known[:1])
    return {name: match[name] for name in names}


def _guesses(header: Sequence[str], given: Mapping[str, str], missing: Sequence[_Choices]) -> dict[str, str | None]:
    """Return the best guesses of the missing columns among the unused ones."""
    known = {option for options in ACCEPTED.values() for option in options}
    unused = [column for column in header if column.lower().strip() not in known and column not in given.values()]
    named: dict[str, str | None] = {}
    for choices in missing:
        if not unused:
            break
        guesses = []
        for names in choices:
            unmatched = [name for name in names if not _match(header, given, (name,))]
            only = unused[0] if len(unused) == len(unmatched) == len(missing) == 1 else None
            guesses.append({name: _guess(name, unused) or only for name in unmatched})
        best = next((guess for guess in guesses if None not in guess.values()), guesses[0])
        named |= best
        unused = [column for column in unused if column not in best.values()]
    return named


def _remedy(named: Mapping[str, str | None]) -> str:
    """Return the setting of a scenario that names the missing columns."""
    if not named:
        return ""
    written = {name: column if column.isidentifier() else repr(column) for name, column in named.items() if column}
    pairs = ", ".join(f"{name}: {written.get(name, 'NAME')}" for name in named)
    return f"; name {'it' if len(named) == 1 else 'them'} with `columns: {{{pairs}}}`"


def _guess(name: str, unused: Sequence[str]) -> str | None:
    """Return the column whose name suggests this content, or None if there is not exactly one.

    >>> _guess("time", ["shop", "When", "price"]), _guess("time", ["start_time", "end_time"])
    ('When', None)
    """
    hints = _HINTS.get(name, ())
    likely = [column for column in unused if set(re.split(r"[\W_]+", column.lower())) & set(hints)]
    return likely[0] if len(likely) == 1 else None


def _accepted(name: str) -> str:
    return f"{name} ({', '.join(ACCEPTED[name])})"
