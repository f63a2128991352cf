"""Rules between the parts of a scenario, checked on the plain data so that all faults are reported together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sim.attack.bayesian import SHORT_NAMES as SHORT_ATTACKS
from sim.components.suggestions import suggestion
from sim.components.wording import listing
from sim.scenario.lppms import short_names
from sim.scenario.reading.faults import Finding

_ON_ROADS = ("commuters", "taxis")
_OF_ROADS = ("close_roads", "reverse_roads")
_OF_THE_PAST = ("own_past", "other_user", "other_users")
_COMBINED = "own_and_others"
_OF_THE_USER = ("own_past", "own_test")
_OF_EACH_USER = (*_OF_THE_USER, "other_user", "other_users", _COMBINED)
MOST_CHUNKS = 1_000_000
"""Largest number of replications times combinations of the sweep."""


def findings(data: dict[str, Any]) -> Iterator[Finding]:
    """Yield the violations of rules that span several parts. Skip parts of a wrong type: pydantic reports these."""
    yield from _duplicate_names(data)
    yield from _unknown_training_sets(data)
    yield from _parts_of_wrong_kind(data)
    yield from _missing_past(data)
    yield from _shifts_after_the_end(data)
    yield from _missing_roads(data)
    yield from _others_of_a_replay(data)
    yield from _too_many_simulations(data)
    yield from _lppms_without_attack(data)
    yield from _hindsight_in_a_summary(data)
    yield from _attacks_that_need_names(data)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _kind(value: Any) -> str | None:
    """Return the kind of a component; None if it has none, and "" if it is not text, which pydantic reports."""
    kind = value if isinstance(value, str) else _mapping(value).get("kind")
    return kind if kind is None or isinstance(kind, str) else ""


def _number(value: Any) -> float:
    """Return a number; NaN, for which every comparison is false, if the value is not a number."""
    return value if isinstance(value, int | float) else math.nan


def _duplicate_names(data: dict[str, Any]) -> Iterator[Finding]:
    for key in ("lppms", "attacks", "shifts"):
        first: dict[str, int] = {}
        for i, item in enumerate(_items(data.get(key))):
            name = item if isinstance(item, str) else _mapping(item).get("name", _kind(item))
            if key == "lppms" and isinstance(name, str):
                name = name.rpartition(":")[2]  # a complete custom mechanism is named after its class
            if not isinstance(name, str) or not name:
                continue
            if name in first:
                message = (
                    f"two of the {key} have the name {name!r} (also {key}.{first[name]}); change the `name` of one"
                )
                yield Finding((key, i), message, "duplicate-name")
            first.setdefault(name, i)


def _unknown_training_sets(data: dict[str, Any]) -> Iterator[Finding]:
    sets = _mapping(data.get("training"))
    known = list(sets)
    named: list[tuple[tuple[str | int, ...], Any]] = []
    for key in ("lppms", "attacks"):
        named += [((key, i, "training"), item) for i, item in enumerate(_items(data.get(key)))]
    for part in ("own", "others"):
        named += [(("training", name, part), spec) for name, spec in _combined(sets)]
    for place, item in named:
        name = _mapping(item).get(str(place[-1]))
        if isinstance(name, str) and name not in known:
            allowed = f"allowed: {', '.join(known)}" if known else "the scenario defines none"
            message = f"unknown training set, found {name!r}{suggestion(name, known)}; {allowed}"
            yield Finding(place, message, "unknown-training-set")


def _combined(sets: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the training sets that combine others, with their names."""
    return [(name, _mapping(spec)) for name, spec in sets.items() if _kind(spec) == _COMBINED]


def _parts_of_wrong_kind(data: dict[str, Any]) -> Iterator[Finding]:
    """Find combinations of training sets with a part that is a combination, or with the user among the others."""
    sets = _mapping(data.get("training"))
    for name, spec in _combined(sets):
        for key, refused in (("own", (_COMBINED,)), ("others", (_COMBINED, *_OF_THE_USER))):
            part = spec.get(key)
            if isinstance(part, str) and (kind := _kind(sets.get(part))) in refused:
                content = "data of other people" if key == "others" else "a training set that combines no others"
                message = (
                    f"must name {content}, found {part!r} of kind {kind}: name a set of another kind than "
                    f"{listing(refused)}"
                )
                yield Finding(("training", name, key), message, "wrong-training-set")


def _missing_past(data: dict[str, Any]) -> Iterator[Finding]:
    """Find training sets made of the users' past where the users have none, or a shorter one."""
    users = _mapping(data.get("users"))
    past = {key: users.get(f"past_{key}") for key in ("queries", "days", "share")}
    for name, spec in _mapping(data.get("training")).items():
        if _kind(spec) not in _OF_THE_PAST:
            continue
        if not any(past.values()):
            keys = listing(f"`past_{key}`" for key in past)
            message = f"{_kind(spec)} needs users with a past, found none: add {keys} to users"
            yield Finding(("training", name), message, "no-past")
        for key, available in past.items():
            requested = _mapping(spec).get(key)
            if _number(requested) > _number(available):
                message = f"must be at most the users' `past_{key}`, which is {available}, found {requested}"
                yield Finding(("training", name, key), message, "out-of-range")


def _missing_roads(data: dict[str, Any]) -> Iterator[Finding]:
    world = _mapping(data.get("world"))
    if world.get("roads") is not None:
        return
    remedy = "found no roads: add for example `roads: lattice` to the world"
    for key in ("privacy_distance", "quality_distance"):
        if _kind(world.get(key)) == "road":
            yield Finding(("world", key), f"road distance needs roads, {remedy}", "no-roads")
    if (kind := _kind(_mapping(data.get("users")).get("mobility"))) in _ON_ROADS:
        yield Finding(("users", "mobility"), f"{kind} need roads, {remedy}", "no-roads")
    for name, spec in _mapping(data.get("training")).items():
        if (kind := _kind(_mapping(spec).get("mobility"))) in _ON_ROADS:
            yield Finding(("training", name, "mobility"), f"{kind} need roads, {remedy}", "no-roads")
    for i, spec in enumerate(_items(data.get("shifts"))):
        if (kind := _kind(spec)) in _OF_ROADS:
            yield Finding(("shifts", i), f"{kind} needs roads, {remedy}", "no-roads")


def _shifts_after_the_end(data: dict[str, Any]) -> Iterator[Finding]:
    users = _mapping(data.get("users"))
    for i, spec in enumerate(_items(data.get("shifts"))):
        for key, length_key in (("at_query", "queries"), ("at_day", "days")):
            start, length = _mapping(spec).get(key), users.get(length_key)
            late = _number(start) > _number(length) if key == "at_query" else _number(start) >= _number(length)
            if late:
                rule = "at most" if key == "at_query" else "below"
                message = f"must be {rule} the users' `{length_key}`, which is {length}, found {start}"
                yield Finding(("shifts", i, key), message, "shift-after-end")


def _others_of_a_replay(data: dict[str, Any]) -> Iterator[Finding]:
    """Find training sets of other people that lack the settings they would otherwise take from synthetic users."""
    users = _mapping(data.get("users"))
    replayed = _kind(users.get("mobility")) == "replay"
    unlimited = users.get("queries") is None and users.get("days") is None
    for name, spec in _mapping(data.get("training")).items():
        if _kind(spec) != "others" or not replayed:
            continue
        mobility = _mapping(spec).get("mobility")
        if mobility is None:
            message = (
                "the users are replayed from a file, so the others need a `mobility`, found none: for example "
                "{kind: replay, file: ..., select: ...} with other people of the file"
            )
            yield Finding(("training", name), message, "missing-mobility")
        elif unlimited and _kind(mobility) != "replay" and not {"queries", "days"} & _mapping(spec).keys():
            message = "synthetic people need a number of `queries` or `days`, found neither here nor in users"
            yield Finding(("training", name), message, "missing-duration")


def _too_many_simulations(data: dict[str, Any]) -> Iterator[Finding]:
    sweep = _mapping(data.get("sweep"))
    points = math.prod(len(values) for values in sweep.values() if isinstance(values, list))
    setting = data.get("replications")
    replications = setting.get("at_most") if isinstance(setting, dict) else setting
    # Each factor has its own limit, with its own message.
    if isinstance(replications, int) and max(points, replications) <= MOST_CHUNKS < points * replications:
        message = (
            f"replications x combinations of the sweep must be at most {MOST_CHUNKS:,}, "
            f"found {replications:,} x {points:,}"
        )
        yield Finding(("replications",), message, "too-many-simulations")


def needs_channel(attack: Any) -> bool:
    """Return whether an attack, given as plain data, needs the channel of each report."""
    kind = _kind(attack)
    if kind is not None and (":" in kind or kind == "face-value"):
        return False
    return _mapping(attack).get("assumes") is None


def _lppms_without_attack(data: dict[str, Any]) -> Iterator[Finding]:
    """Find mechanisms whose reports carry no channel where every attack needs one."""
    attacks = _items(data.get("attacks", ["sporadic", "markov"]))
    if not attacks or not all(map(needs_channel, attacks)):
        return
    for i, lppm in enumerate(_items(data.get("lppms"))):
        short = short_names().get(_kind(lppm) or "", {})
        if _mapping(lppm).get("learns_from", short.get("learns_from")) == "cells":
            yield Finding(
                ("lppms", i, "learns_from") if "learns_from" in _mapping(lppm) else ("lppms", i),
                "this mechanism learns from real cells, so its reports carry no channel, but every attack needs one: "
                "add `face-value` or an attack with `assumes`, such as {kind: markov, name: assuming, assumes: "
                "{kind: exponential, epsilon_per_km: 1}}",
                "no-applicable-attack",
            )


def _hindsight_in_a_summary(data: dict[str, Any]) -> Iterator[Finding]:
    """Find attacks that revise past estimates where the log holds no single queries."""
    record = data.get("record")
    if (record if isinstance(record, str) else _mapping(record).get("log")) != "summary":
        return
    for i, attack in enumerate(_items(data.get("attacks"))):
        short = SHORT_ATTACKS.get(_kind(attack) or "", {})
        if _mapping(attack).get("hindsight", short.get("hindsight")) is not None:
            message = (
                "this attack revises its estimates of past queries (hindsight), but `record: summary` stores no single "
                "queries: set `record: queries`, or the attack's `hindsight` to null"
            )
            yield Finding(("attacks", i), message, "needs-query-log")


def _attacks_that_need_names(data: dict[str, Any]) -> Iterator[Finding]:
    """Find attacks that look up users by name where the adversaries see pseudonyms."""
    if data.get("names") != "hidden":
        return
    allowed = "allowed: identification attacks, and `knows: training` with a training set of kind others"
    if "attacks" not in data:
        message = f"names are hidden, but the default attacks sporadic and markov know each user by name; {allowed}"
        yield Finding(("names",), message, "attack-needs-names")
    for i, item in enumerate(_items(data.get("attacks"))):
        if (knowledge := _knowledge_by_name(item, _mapping(data.get("training")))) is not None:
            message = f"names are hidden, but this attack knows each user by name, found {knowledge}; {allowed}"
            yield Finding(("attacks", i), message, "attack-needs-names")


def _knowledge_by_name(attack: Any, training: dict[str, Any]) -> str | None:
    """Describe the statistics that an attack looks up by a user's name; None if there are none, or it is custom."""
    kind, settings = _kind(attack), _mapping(attack)
    if kind is not None and kind not in (*SHORT_ATTACKS, "face-value"):
        return None
    default = "training" if kind == "face-value" else SHORT_ATTACKS.get(kind or "", {}).get("knows", "test")
    knows = settings.get("knows", default)
    if knows != "training":
        return f"`knows: {knows}`"
    name = settings.get("training") or next(iter(training), None)
    training_kind = _kind(training.get(name)) if isinstance(name, str) else None
    return f"the training set {name}, of kind {training_kind}" if training_kind in _OF_EACH_USER else None
