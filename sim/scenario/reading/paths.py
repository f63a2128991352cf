"""Dotted paths into a scenario, as ``sweep:`` and ``--set`` use them.

A step is a field of a mapping, the index of a list element or its name, or ``*`` for every element; one with a
dot in it stands in double quotes: ``lppms."PEB 0.5".belief.fading``. After ``sweep.`` the rest is a path itself.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from sim.components.suggestions import suggestion
from sim.components.wording import LONGEST, described, listing, shown
from sim.scenario.reading.faults import Fault, Loc, ScenarioError, dotted

_STEPS = re.compile(r'(?:"[^"]*"|[^."]+)(?:\.(?:"[^"]*"|[^."]+))*')
_MOST_NAMES, _MOST_KEYS = 5, 20
_STEP = re.compile(r'"([^"]*)"|([^."]+)')


def expand(model: BaseModel, data: Any, path: str, *, where: str = "--set") -> list[Loc]:
    """Return every place in the data that a path means.

    The steps are taken on the validated `model`, so a default that the file does not mention can be named.
    Below a ``*``, elements that have no such field are passed over, as long as one has it.
    """
    if not _STEPS.fullmatch(path):
        message = f"{shown(path)} is no path; write steps with dots between, such as lppms.*.design.remap"
        raise ScenarioError([Fault(where, path, message)])
    steps = [quoted or plain for quoted, plain in _STEP.findall(path)]
    try:
        locs = list(_walk(model, steps, ()))
    except _NoStep as stop:
        raise ScenarioError([Fault(where, path, stop.message)]) from None
    for loc in locs:
        _refuse_unwritten_lists(data, loc, Fault(where, path, ""))
    return locs


def sweep_key(path: str) -> str | None:
    """Return the key of the sweep that a path means, None where it leads elsewhere.

    All after ``sweep.`` is one key, since it is a path itself; quotes around all of it do no harm.

    >>> sweep_key("sweep.lppms.*.design.remap"), sweep_key('sweep."users.count"'), sweep_key("seed")
    ('lppms.*.design.remap', 'users.count', None)
    """
    start, _, key = path.partition(".")
    if start != "sweep" or not key:
        return None
    whole = _STEP.fullmatch(key)
    return whole[1] or key if whole else key


def value_at(data: Any, loc: Loc) -> Any:
    """Return what lies at a place, or None."""
    for step in loc:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def assign(data: Any, loc: Loc, value: Any, *, model: BaseModel | None = None) -> Any:
    """Return a copy of the data with one value set, whatever mappings have to be made for it.

    A component in short form, its kind alone, becomes a mapping. One that the data do not mention gets the kind
    that it has by default in the validated `model`: its keys would mean nothing without.

    >>> assign({"lppms": ["SP-Exp"]}, ("lppms", 0, "design", "epsilon_per_km"), 2)
    {'lppms': [{'kind': 'SP-Exp', 'design': {'epsilon_per_km': 2}}]}
    """
    if not loc:
        return copy.deepcopy(value)
    root = copy.deepcopy(data)
    node, built = root, model
    for depth, step in enumerate(loc[:-1]):
        _check_step(node, loc[: depth + 1])
        built = (_children(built) or {}).get(step)
        child = value_at(node, (step,))
        key = getattr(built, "short_key", "kind")
        kind = child if isinstance(child, str) else getattr(built, key, None)
        if child is None or isinstance(child, str):
            child = {key: kind} if isinstance(kind, str) else {}
        node[step] = child
        node = child
    _check_step(node, loc)
    node[loc[-1]] = copy.deepcopy(value)
    return root


def combinations(sweep: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the values of a sweep; the last path varies fastest.

    >>> combinations({"a": [1, 2], "b": [3]})
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    >>> combinations({})
    [{}]
    """
    for path, values in sweep.items():
        if not values:
            raise ValueError(f"a sweep needs one value or more for {path!r}, got {values!r}")
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]


class _NoStep(Exception):
    """A step leads nowhere; `done` says how far the path was right, `keys` which steps there would have been."""

    def __init__(self, done: Loc, message: str, keys: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.done, self.message, self.keys = done, message, tuple(keys)


def _walk(node: Any, steps: Sequence[str], done: Loc) -> Iterator[Loc]:
    if not steps:
        yield done
        return
    step, rest = steps[0], steps[1:]
    children = _children(node)
    if step == "*" and not isinstance(node, BaseModel) and children is not None:
        yield from _walk_all(children, rest, done)
        return
    keys = [key for key in children or {} if _is_meant(node, key, step)]
    if not children or not keys:
        is_list = isinstance(node, list | tuple)
        keys_here = () if is_list or step == "*" else map(str, children or {})
        raise _NoStep(done, _nothing_here(node, children, step, done), keys_here)
    for key in keys:
        yield from _walk(children[key], rest, (*done, key))


def _walk_all(children: Mapping[str | int, Any], rest: Sequence[str], done: Loc) -> Iterator[Loc]:
    """Take the rest of the path in every element that has it."""
    locs: list[Loc] = []
    stops: list[_NoStep] = []
    for key, child in children.items():
        try:
            locs += _walk(child, rest, (*done, key))
        except _NoStep as stop:
            stops.append(stop)
    if locs:
        yield from locs
        return
    if not stops:
        raise _NoStep(done, f"`*` matches nothing: {_name(done)} is empty")
    raise _none_has_it(children, rest, done, stops)


def _none_has_it(
    children: Mapping[str | int, Any], rest: Sequence[str], done: Loc, stops: Sequence[_NoStep]
) -> _NoStep:
    """Say that no element has the rest of the path, and all that they have at the place where it ends."""
    depth = max(len(stop.done) for stop in stops)
    deepest = [stop for stop in stops if len(stop.done) == depth]
    keys = list(dict.fromkeys(key for stop in deepest for key in stop.keys))
    if len(children) == 1 or not keys:
        return deepest[0]
    place = (*done, "*", *deepest[0].done[len(done) + 1 :])
    step = rest[depth - len(done) - 1]
    names = _few([_name_of(child) or key for key, child in children.items()], _MOST_NAMES)
    message = f"{_name(place)} has no {shown(step)}{suggestion(step, keys)}: none of {names} has it"
    return _NoStep(place, f"{message}; they have: {_few(keys, _MOST_KEYS)}", keys)


def _few(words: Sequence[object], most: int) -> str:
    """Join words, not too many of them and none too long."""
    texts = [word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…" for word in map(str, words)]
    return listing(texts, "and") if len(texts) <= most else f"{', '.join(texts[:most])} and {len(texts) - most} more"


def _children(node: Any) -> dict[str | int, Any] | None:
    """Return what a step can lead to from here, or None where there is nothing inside."""
    if isinstance(node, BaseModel):
        names = [*type(node).model_fields, *(node.model_extra or {})]
        return {name: getattr(node, name) for name in names}
    if isinstance(node, Mapping):
        return dict(node)
    if isinstance(node, list | tuple):
        return dict(enumerate(node))
    return None


def _is_meant(node: Any, key: str | int, step: str) -> bool:
    if isinstance(key, str):
        return key == step
    return str(key) == step or (not step.isdecimal() and _name_of(node[key]) == step)


def _name_of(element: Any) -> Any:
    return element.get("name") if isinstance(element, Mapping) else getattr(element, "name", None)


def _name(loc: Loc) -> str:
    return f"`{dotted(loc)}`" if loc else "the scenario"


def _nothing_here(node: Any, children: Mapping[str | int, Any] | None, step: str, done: Loc) -> str:
    if children is None:
        hint = "; set all of it, as in {key: value}" if node is None else ""
        return f"{_name(done)} is {described(node)}: it has nothing inside{hint}"
    if step == "*":
        start = f"`*` stands for the elements of a list or mapping, but {_name(done)} has fields"
        return f"{start}; allowed: {listing(children)}"
    if not children:
        return f"{_name(done)} has no {step!r}: it is empty"
    if isinstance(node, list | tuple):
        names = [name for name in map(_name_of, node) if isinstance(name, str)]
        indices = f"0 to {len(node) - 1}" if len(node) > 1 else "0"
        allowed = f"allowed: {', '.join([indices, *names, '*'])}"
        return f"{_name(done)} has no element {step!r}{suggestion(step, names)}; {allowed}"
    near = suggestion(step, [key for key in children if isinstance(key, str)])
    return f"{_name(done)} has no {step!r}{near}; allowed: {listing(children)}"


def _refuse_unwritten_lists(data: Any, loc: Loc, fault: Fault) -> None:
    """Refuse an element of a list that is a default: there is nothing in the file to put it into."""
    for depth, step in enumerate(loc):
        if isinstance(step, int) and not (isinstance(data, list) and step < len(data)):
            message = f"{_name(loc[:depth])} is not written out in the file: write the list there, or set all of it"
            raise ScenarioError([Fault(fault.where, fault.path, message)])
        data = value_at(data, (step,))


def _check_step(node: Any, loc: Loc) -> None:
    step = loc[-1]
    fits = isinstance(node, dict) if isinstance(step, str) else isinstance(node, list) and step < len(node)
    if not fits:
        raise ValueError(f"{dotted(loc)} cannot be set: {_name(loc[:-1])} is {described(node)}")
