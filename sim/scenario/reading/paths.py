"""Dotted paths into a scenario, as ``sweep:`` and ``--set`` use them.

A step is a key of a mapping, the index or the name of a list element, ``*`` for all elements, or a name with ``*`` for
any characters, as in ``lppms.*-Mix.design``. A step that contains a dot is written in double quotes: ``lppms."PEB
0.5".belief.fading``. After ``sweep.`` the rest is a path itself.
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
    """Return all locations in the data that match a path.

    The path is resolved in the validated `model`, so it may lead to a default that the file does not contain. Below a
    ``*``, elements without the key are skipped, provided that at least one element has it.
    """
    if not _STEPS.fullmatch(path):
        message = f"{shown(path)} is not a valid path; write steps separated by dots, such as lppms.*.design.remap"
        raise ScenarioError([Fault(where, path, message, "invalid-path")])
    steps = [quoted or plain for quoted, plain in _STEP.findall(path)]
    try:
        locs = list(_walk(model, steps, ()))
    except _NoStep as stop:
        raise ScenarioError([Fault(where, path, stop.message, "unknown-path")]) from None
    for loc in locs:
        _reject_default_lists(data, loc, path, where)
    return locs


def sweep_key(path: str) -> str | None:
    """Return the key of the sweep that a path refers to, or None if it leads elsewhere.

    The part after ``sweep.`` is one key, since it is a path itself; it may be quoted as a whole.

    >>> sweep_key("sweep.lppms.*.design.remap"), sweep_key('sweep."users.count"'), sweep_key("seed")
    ('lppms.*.design.remap', 'users.count', None)
    """
    start, _, key = path.partition(".")
    if start != "sweep" or not key:
        return None
    whole = _STEP.fullmatch(key)
    return whole[1] or key if whole else key


def value_at(data: Any, loc: Loc) -> Any:
    """Return the value at a location, or None."""
    for step in loc:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def assign(data: Any, loc: Loc, value: Any, *, model: BaseModel | None = None) -> Any:
    """Return a copy of the data with one value set; missing mappings are created.

    A component in short form, its kind alone, becomes a mapping. A component missing in the data gets the kind that it
    has by default in the validated `model`.

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
            raise ValueError(f"sweep must have at least one value for {path!r}, got {values!r}")
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]


class _NoStep(Exception):
    """A step that does not exist; `done` is the valid start of the path, `keys` are the possible next steps."""

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
    keys = [key for key in children or {} if _matches(node, key, step)]
    if not children or not keys:
        is_list = isinstance(node, list | tuple)
        keys_here = () if is_list or step == "*" else map(str, children or {})
        raise _NoStep(done, _unknown_step(node, children, step, done), keys_here)
    for key in keys:
        yield from _walk(children[key], rest, (*done, key))


def _walk_all(children: Mapping[str | int, Any], rest: Sequence[str], done: Loc) -> Iterator[Loc]:
    """Resolve the rest of the path in all elements that have it."""
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
    raise _in_no_element(children, rest, done, stops)


def _in_no_element(
    children: Mapping[str | int, Any], rest: Sequence[str], done: Loc, stops: Sequence[_NoStep]
) -> _NoStep:
    """Return the error that no element has the rest of the path; it lists the keys they have where it ends."""
    depth = max(len(stop.done) for stop in stops)
    deepest = [stop for stop in stops if len(stop.done) == depth]
    keys = list(dict.fromkeys(key for stop in deepest for key in stop.keys))
    if len(children) == 1 or not keys:
        return deepest[0]
    place = (*done, "*", *deepest[0].done[len(done) + 1 :])
    step = rest[depth - len(done) - 1]
    names = _few([_name_of(child) or key for key, child in children.items()], _MOST_NAMES)
    message = f"{_name(place)} has no {shown(step)}{suggestion(step, keys)} in any of {names}"
    return _NoStep(place, f"{message}; allowed: {_few(keys, _MOST_KEYS)}", keys)


def _few(words: Sequence[object], most: int) -> str:
    """Join at most `most` words, each shortened if it is too long."""
    texts = [word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…" for word in map(str, words)]
    return listing(texts, "and") if len(texts) <= most else f"{', '.join(texts[:most])} and {len(texts) - most} more"


def _children(node: Any) -> dict[str | int, Any] | None:
    """Return the values one step below a node; None if it is a scalar."""
    if isinstance(node, BaseModel):
        names = [*type(node).model_fields, *(node.model_extra or {})]
        return {name: getattr(node, name) for name in names}
    if isinstance(node, Mapping):
        return dict(node)
    if isinstance(node, list | tuple):
        return dict(enumerate(node))
    return None


def _matches(node: Any, key: str | int, step: str) -> bool:
    if isinstance(key, str):
        return key == step
    return str(key) == step or (not step.isdecimal() and _is_named(_name_of(node[key]), step))


def _is_named(name: Any, step: str) -> bool:
    """Return whether a step is the name of an element or matches it; ``*`` stands for any characters."""
    pattern = ".*".join(map(re.escape, step.split("*")))
    return isinstance(name, str) and re.fullmatch(pattern, name) is not None


def _name_of(element: Any) -> Any:
    return element.get("name") if isinstance(element, Mapping) else getattr(element, "name", None)


def _name(loc: Loc) -> str:
    return f"`{dotted(loc)}`" if loc else "the scenario"


def _unknown_step(node: Any, children: Mapping[str | int, Any] | None, step: str, done: Loc) -> str:
    if children is None:
        hint = "; set it as a whole, as in {key: value}" if node is None else ""
        return f"{_name(done)} is {described(node)}, which has no keys{hint}"
    if step == "*":
        problem = f"`*` matches the elements of a list or of named entries, but {_name(done)} has fixed keys"
        return f"{problem}; allowed: {listing(children)}"
    if not children:
        return f"{_name(done)} has no {step!r}: it is empty"
    if isinstance(node, list | tuple):
        names = [name for name in map(_name_of, node) if isinstance(name, str)]
        indices = f"0 to {len(node) - 1}" if len(node) > 1 else "0"
        allowed = f"allowed: {', '.join([indices, *names, '*'])}"
        return f"{_name(done)} has no element {step!r}{suggestion(step, names)}; {allowed}"
    near = suggestion(step, [key for key in children if isinstance(key, str)])
    return f"{_name(done)} has no {step!r}{near}; allowed: {listing(children)}"


def _reject_default_lists(data: Any, loc: Loc, path: str, where: str) -> None:
    """Reject an element of a default list: the file has no list to change it in."""
    for depth, step in enumerate(loc):
        if isinstance(step, int) and not (isinstance(data, list) and step < len(data)):
            message = f"the file does not contain {_name(loc[:depth])}: add the list to the file, or set it as a whole"
            raise ScenarioError([Fault(where, path, message, "list-not-in-file")])
        data = value_at(data, (step,))


def _check_step(node: Any, loc: Loc) -> None:
    step = loc[-1]
    fits = isinstance(node, dict) if isinstance(step, str) else isinstance(node, list) and step < len(node)
    if not fits:
        raise ValueError(f"{dotted(loc)} cannot be set: {_name(loc[:-1])} is {described(node)}")
