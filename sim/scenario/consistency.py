"""What the parts of a scenario ask of each other, checked on the plain data so that all faults come at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sim.attack.bayesian import SHORT_NAMES as SHORT_ATTACKS
from sim.components.suggestions import suggestion
from sim.components.wording import listing
from sim.scenario.lppms import short_names
from sim.scenario.reading.faults import Loc

Finding = tuple[Loc, str]

_ON_ROADS = ("commuters", "taxis")
_OF_ROADS = ("close_roads", "reverse_roads")
_OF_THE_PAST = ("own_past", "other_user")
_OF_EACH_USER = ("own_past", "own_test", "other_user")
MOST_CHUNKS = 1_000_000


def findings(data: dict[str, Any]) -> Iterator[Finding]:
    """Yield what does not fit together, each with its place in the data. Parts of a wrong type are passed over."""
    yield from _names(data)
    yield from _training_sets(data)
    yield from _past(data)
    yield from _shifts_after_the_end(data)
    yield from _roads(data)
    yield from _others_of_a_replay(data)
    yield from _repetitions(data)
    yield from _nobody_attacks(data)
    yield from _past_in_a_summary(data)
    yield from _hidden_names(data)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _kind(value: Any) -> str | None:
    """Return the kind of a component, None where it has none; a kind that is not text, a fault of its own, is empty."""
    kind = value if isinstance(value, str) else _mapping(value).get("kind")
    return kind if kind is None or isinstance(kind, str) else ""


def _number(value: Any) -> float:
    """Return a number, or NaN, which no comparison holds for."""
    return value if isinstance(value, int | float) else math.nan


def _names(data: dict[str, Any]) -> Iterator[Finding]:
    for key in ("lppms", "attacks", "shifts"):
        seen: dict[str, int] = {}
        for i, item in enumerate(_items(data.get(key))):
            name = item if isinstance(item, str) else _mapping(item).get("name", _kind(item))
            if not isinstance(name, str) or not name:
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
                allowed = f"allowed: {', '.join(known)}" if known else "none is defined"
                yield (
                    (key, i, "training"),
                    f"no such training set, found {name!r}{suggestion(name, known)}; {allowed}",
                )


def _past(data: dict[str, Any]) -> Iterator[Finding]:
    users = _mapping(data.get("users"))
    past = {key: users.get(f"past_{key}") for key in ("queries", "days", "share")}
    for name, spec in _mapping(data.get("training")).items():
        if _kind(spec) not in _OF_THE_PAST:
            continue
        if not any(past.values()):
            ways = listing(f"`past_{key}`" for key in past)
            yield ("training", name), f"{_kind(spec)} needs users with a past, found none: add {ways} to users"
        for key, whole in past.items():
            asked = _mapping(spec).get(key)
            if _number(asked) > _number(whole):
                yield (
                    ("training", name, key),
                    f"must be at most the users' `past_{key}`, which is {whole}, found {asked}",
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
    for i, spec in enumerate(_items(data.get("shifts"))):
        if _kind(spec) in _OF_ROADS:
            yield ("shifts", i), f"{_kind(spec)} needs roads, {hint}"


def _shifts_after_the_end(data: dict[str, Any]) -> Iterator[Finding]:
    users = _mapping(data.get("users"))
    for i, spec in enumerate(_items(data.get("shifts"))):
        for key, whole in (("at_query", "queries"), ("at_day", "days")):
            said, end = _mapping(spec).get(key), users.get(whole)
            late = _number(said) > _number(end) if key == "at_query" else _number(said) >= _number(end)
            if late:
                rule = "at most" if key == "at_query" else "below"
                yield ("shifts", i, key), f"must be {rule} the users' `{whole}`, which is {end}, found {said}"


def _others_of_a_replay(data: dict[str, Any]) -> Iterator[Finding]:
    """Find training sets of other people that lack what synthetic users would lend them."""
    users = _mapping(data.get("users"))
    replayed = _kind(users.get("mobility")) == "replay"
    endless = users.get("queries") is None and users.get("days") is None
    for name, spec in _mapping(data.get("training")).items():
        if _kind(spec) != "others" or not replayed:
            continue
        mobility = _mapping(spec).get("mobility")
        if mobility is None:
            yield (
                ("training", name),
                "the users are replayed: say who the others are, found no `mobility`; such as "
                "{kind: replay, file: ..., select: ...} with other people of the file",
            )
        elif endless and _kind(mobility) != "replay" and not {"queries", "days"} & _mapping(spec).keys():
            yield (
                ("training", name),
                "synthetic people live for ever: say how many `queries` or `days`, found neither here nor in users",
            )


def _repetitions(data: dict[str, Any]) -> Iterator[Finding]:
    sweep = _mapping(data.get("sweep"))
    points = math.prod(len(values) for values in sweep.values() if isinstance(values, list))
    said = data.get("replications")
    replications = said.get("at_most") if isinstance(said, dict) else said
    # Each has a limit of its own, with a message of its own.
    if isinstance(replications, int) and max(points, replications) <= MOST_CHUNKS < points * replications:
        yield (
            ("replications",),
            f"replications x combinations of the sweep must be at most {MOST_CHUNKS:,}, "
            f"found {replications:,} x {points:,}",
        )


def needs_channel(attack: Any) -> bool:
    """Tell whether an attack, as plain data, must know the channel of each report."""
    kind = _kind(attack)
    if kind is not None and (":" in kind or kind == "face-value"):
        return False
    return _mapping(attack).get("assumes") is None


def _nobody_attacks(data: dict[str, Any]) -> Iterator[Finding]:
    """Find mechanisms that keep their channels to themselves where every attack needs them."""
    attacks = _items(data.get("attacks", ["sporadic", "markov"]))
    if not attacks or not all(map(needs_channel, attacks)):
        return
    for i, lppm in enumerate(_items(data.get("lppms"))):
        short = short_names().get(_kind(lppm) or "", {})
        if _mapping(lppm).get("learns_from", short.get("learns_from")) == "cells":
            yield (
                ("lppms", i, "learns_from") if "learns_from" in _mapping(lppm) else ("lppms", i),
                "it learns from real cells, so that its reports carry no channel, and every attack here needs one: add "
                "`face-value` or one with `assumes` to the attacks, such as {kind: markov, name: assuming, assumes: "
                "{kind: exponential, epsilon_per_km: 1}}",
            )


def _past_in_a_summary(data: dict[str, Any]) -> Iterator[Finding]:
    """Find attacks that come back to the past where the log has no place for it."""
    record = data.get("record")
    if (record if isinstance(record, str) else _mapping(record).get("log")) != "summary":
        return
    for i, attack in enumerate(_items(data.get("attacks"))):
        short = SHORT_ATTACKS.get(_kind(attack) or "", {})
        said = _mapping(attack).get("hindsight", short.get("hindsight"))
        if said is not None:
            yield (
                ("attacks", i),
                "it comes back to past queries (hindsight), of which `record: summary` keeps nothing: record queries, "
                "or set its `hindsight` to null",
            )


def _hidden_names(data: dict[str, Any]) -> Iterator[Finding]:
    """Find attacks that look up users by their names where adversaries see pseudonyms."""
    if data.get("names") != "hidden":
        return
    allowed = "allowed are identification, which finds out who is who, and `knows: training` with a set of kind others"
    if "attacks" not in data:
        yield ("names",), f"the attacks sporadic and markov, unless said, know each user by name: say others; {allowed}"
    for i, item in enumerate(_items(data.get("attacks"))):
        if (known := _known_by_name(item, _mapping(data.get("training")))) is not None:
            yield ("attacks", i), f"names are hidden, and this attack knows each user by name, found {known}; {allowed}"


def _known_by_name(attack: Any, training: dict[str, Any]) -> str | None:
    """Say what an attack looks up by a user's name, if it does. One's own gets what it can have."""
    kind, said = _kind(attack), _mapping(attack)
    if kind is not None and kind not in (*SHORT_ATTACKS, "face-value"):
        return None
    by_itself = "training" if kind == "face-value" else SHORT_ATTACKS.get(kind or "", {}).get("knows", "test")
    knows = said.get("knows", by_itself)
    if knows != "training":
        return f"`knows: {knows}`"
    name = said.get("training") or next(iter(training), None)
    of = _kind(training.get(name)) if isinstance(name, str) else None
    return f"the training set {name}, of kind {of}" if of in _OF_EACH_USER else None
