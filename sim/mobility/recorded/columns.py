"""Find out which column of a file is what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

ACCEPTED: dict[str, tuple[str, ...]] = {
    "user": ("user", "user_id", "userid", "uid", "id"),
    "time": ("time_s", "time", "unixtime", "timestamp", "datetime"),
    "order": ("order", "index", "chron_seq"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "long", "longitude"),
    "cell": ("cell", "cell_id"),
}
"""The names, in any case, under which a column is found without being told."""

_HINTS: dict[str, tuple[str, ...]] = {
    "user": ("user", "name", "who", "person", "driver", "cab", "taxi", "vehicle", "device"),
    "time": ("time", "when", "date", "stamp", "seconds"),
    "lat": ("lat", "y"),
    "lon": ("lon", "lng", "x"),
    "cell": ("cell", "where", "place", "location", "zone"),
}
"""Words in other names of a column: good enough to suggest it, not to use it unasked."""

_Choices = Sequence[tuple[str, ...]]
"""Columns that do for one thing: all those of any one choice."""


def find_columns(found: Sequence[str], given: Mapping[str, str], *, degrees: bool) -> dict[str, str]:
    """Return which column of the file is the user, the time or else the order, and the place.

    What is `given` wins. Otherwise a time is better than an order, and degrees are better than cells, which
    mean nothing on another grid, if the grid has `degrees`.

    >>> find_columns(["UID", "Timestamp", "lat", "lng", "cell"], {"lat": "lat"}, degrees=True)
    {'user': 'UID', 'time': 'Timestamp', 'lat': 'lat', 'lon': 'lng'}
    """
    for name in given:
        if name not in ACCEPTED:
            raise ValueError(f"columns may name {', '.join(ACCEPTED)}, got {name}")
    places = [("lat", "lon"), ("cell",)] if degrees else [("cell",)]
    result: dict[str, str] = {}
    missing: list[_Choices] = []
    for choices in ([("user",)], [("time",), ("order",)], places):
        # A choice that `given` mentions comes before those that would be guesses alone.
        ranked = sorted(choices, key=lambda names: not any(name in given for name in names))
        match = next((match for names in ranked if (match := _match(found, given, names))), None)
        if match is None:
            missing.append(choices)
        else:
            result |= match
    if missing or not set(given.values()) <= set(found):
        raise ValueError(_not_found(found, given, missing, degrees=degrees))
    return result


def _not_found(found: Sequence[str], given: Mapping[str, str], missing: Sequence[_Choices], *, degrees: bool) -> str:
    """Say all that is missing at once, and how to name it."""
    said = [f"no column {column} for {name}" for name, column in given.items() if column not in found]
    nameable = list(missing)
    for choices in missing:
        said.append(f"no column for {' or '.join(' and '.join(map(_accepted, names)) for names in choices)}")
        if not degrees and ("cell",) in choices:
            said.append("lat and lon need a grid that has a region")
            if _match(found, given, ("lat", "lon")):
                # Where degrees are of no use, to name another column for a cell is seldom what is wanted.
                nameable.remove(choices)
    return f"{'; '.join(said)}; found {', '.join(found) or 'none'}{_remedy(found, given, nameable)}"


def _match(found: Sequence[str], given: Mapping[str, str], names: Sequence[str]) -> dict[str, str] | None:
    """Return the columns for all these names, or None."""
    lower = {column.lower().strip(): column for column in reversed(found)}
    match = dict(given)
    for name in names:
        known = [lower[option] for option in ACCEPTED[name] if option in lower]
        if name not in given and not known:
            return None
        match.setdefault(name, *known[:1])
    return {name: match[name] for name in names}


def _remedy(found: Sequence[str], given: Mapping[str, str], missing: Sequence[_Choices]) -> str:
    """Say how to name what is missing, with the best guesses among the columns that are not used for anything."""
    known = {option for options in ACCEPTED.values() for option in options}
    unused = [column for column in found if column.lower().strip() not in known and column not in given.values()]
    named: dict[str, str | None] = {}
    for choices in missing:
        if not unused:
            break
        guesses = []
        for names in choices:
            wanted = [name for name in names if not _match(found, given, (name,))]
            alone = unused[0] if len(unused) == len(wanted) == len(missing) == 1 else None
            guesses.append({name: _guess(name, unused) or alone for name in wanted})
        best = next((guess for guess in guesses if None not in guess.values()), guesses[0])
        named |= best
        unused = [column for column in unused if column not in best.values()]
    if not named:
        return ""
    written = {name: column if column.isidentifier() else repr(column) for name, column in named.items() if column}
    pairs = ", ".join(f"{name}: {written.get(name, 'NAME')}" for name in named)
    return f"; name {'it' if len(named) == 1 else 'them'} with `columns: {{{pairs}}}`"


def _guess(name: str, unused: Sequence[str]) -> str | None:
    """Return the one column whose name hints at what is wanted, or None.

    >>> _guess("time", ["shop", "When", "price"]), _guess("time", ["start_time", "end_time"])
    ('When', None)
    """
    hints = _HINTS.get(name, ())
    likely = [column for column in unused if set(re.split(r"[\W_]+", column.lower())) & set(hints)]
    return likely[0] if len(likely) == 1 else None


def _accepted(name: str) -> str:
    return f"{name} ({', '.join(ACCEPTED[name])})"
