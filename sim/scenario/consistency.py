"""What the parts of a scenario ask of each other, checked on the plain data so that all faults come at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sim.scenario.did_you_mean import closest

Loc = tuple[str | int, ...]
Finding = tuple[Loc, str]

_ON_ROADS = ("commuters", "taxis")
_OF_THE_PAST = ("own_past", "other_user")


def findings(data: dict[str, Any]) -> Iterator[Finding]:
    """Yield what does not fit together, each with its place in the data. Parts of a wrong type are passed over."""
    yield from _names(data)
    yield from _training_sets(data)
    yield from _past(data)
    yield from _roads(data)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _kind(value: Any) -> Any:
    return value if isinstance(value, str) else _mapping(value).get("kind")


def _names(data: dict[str, Any]) -> Iterator[Finding]:
    for key in ("lppms", "attacks"):
        seen: dict[str, int] = {}
        for i, item in enumerate(_items(data.get(key))):
            name = item if isinstance(item, str) else _mapping(item).get("name", _kind(item))
            if not isinstance(name, str):
                continue
            if name in seen:
                yield (
                    (key, i),
                    f"two of the {key} are called {name!r} (also {key}.{seen[name]}); give one another `name`",
                )
            seen.setdefault(name, i)


def _training_sets(data: dict[str, Any]) -> Iterator[Finding]:
    known = list(_mapping(data.get("training")))
    for key in ("lppms", "attacks"):
        for i, item in enumerate(_items(data.get(key))):
            name = _mapping(item).get("training")
            if isinstance(name, str) and name not in known:
                hint = closest(name, known)
                meant = f"; did you mean {hint!r}?" if hint else ""
                yield (
                    (key, i, "training"),
                    f"no such training set, found {name!r}{meant} Allowed: {', '.join(known) or 'none is defined'}",
                )


def _past(data: dict[str, Any]) -> Iterator[Finding]:
    users = _mapping(data.get("users"))
    if "past_queries" in users or "past_days" in users:
        return
    for name, spec in _mapping(data.get("training")).items():
        if _kind(spec) in _OF_THE_PAST:
            yield (
                ("training", name),
                f"{_kind(spec)} needs users with a past, found none: add `past_queries` or `past_days` to users",
            )


def _roads(data: dict[str, Any]) -> Iterator[Finding]:
    world = _mapping(data.get("world"))
    if world.get("roads") is not None:
        return
    hint = "found no roads: add for example `roads: lattice` to the world"
    for key in ("privacy_distance", "quality_distance"):
        if _kind(world.get(key)) == "road":
            yield ("world", key), f"road distance needs roads, {hint}"
    if _kind(_mapping(data.get("users")).get("mobility")) in _ON_ROADS:
        yield ("users", "mobility"), f"{_kind(data['users']['mobility'])} live on roads, {hint}"
    for name, spec in _mapping(data.get("training")).items():
        if _kind(_mapping(spec).get("mobility")) in _ON_ROADS:
            yield ("training", name, "mobility"), f"{_kind(spec['mobility'])} live on roads, {hint}"
