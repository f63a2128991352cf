"""Arguments that do not agree with the state of a stream, and the message that names them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sim.errors import InputError

_ARGUMENTS = {"noise_seed": "seed"}
_MOST_SHOWN = 3
_LONGEST = 60
_UNSET = object()


class Difference(NamedTuple):
    """A value that differs between the state and the arguments."""

    part: str
    """Part of the configuration: a field of `Setup`, or training."""
    text: str
    """Description with both values."""


class StateMismatch(InputError):
    """Arguments do not agree with the state. The message names those to omit as arguments of `sim.protect`.

    `described` names them otherwise, such as by the options of a command.
    """

    code = "state-mismatch"

    def __init__(self, path: Path, differences: Iterable[Difference], given: Iterable[str]) -> None:
        self.path = path
        self.differences = tuple(differences)
        self.arguments = tuple(_arguments({one.part for one in self.differences}, set(given)))
        """Arguments of `sim.protect` to omit."""
        super().__init__(self.described(f"`{name}`" for name in self.arguments))

    def described(self, omit: Iterable[str]) -> str:
        """Return the message, which asks to omit these arguments."""
        texts = [one.text for one in self.differences]
        more = len(texts) - _MOST_SHOWN
        listed = "; ".join(texts[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        return (
            f"{self.path} was begun with other values: {listed}. Omit {' and '.join(omit)} to continue it, or begin a "
            "new state under another name"
        )


def differences(stored: Mapping[str, Any], requested: Mapping[str, Any]) -> list[Difference]:
    """Return the values that differ between two canonical configurations; paths of the mechanism are as for settings.

    >>> [one.text for one in differences({"lppm": {"design": {"k": 2}}}, {"lppm": {"design": {"k": 3}}})]
    ['`design.k` is 2 in the state, got 3']
    """
    listed = []
    for part in stored:
        start = () if part == "lppm" else (_ARGUMENTS.get(part, part),)
        for path, old, new in _leaves(start, stored[part], requested[part]):
            listed.append(Difference(part, f"`{'.'.join(path)}` is {_shown(old)} in the state, got {_shown(new)}"))
    return listed


def _leaves(path: tuple[str, ...], old: Any, new: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the path and both values of each difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old | new:
            yield from _leaves((*path, name), old.get(name, _UNSET), new.get(name, _UNSET))
    elif old != new:
        yield path, old, new


def _shown(value: Any) -> str:
    if value is None or value is _UNSET:
        return "not set"
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _arguments(parts: set[str], given: set[str]) -> Iterator[str]:
    """Yield the given arguments that determine these parts."""
    if "lppm" in parts:
        yield from (name for name in ("lppm", "settings") if name in given)
    yield from (_ARGUMENTS.get(part, part) for part in sorted(parts - {"lppm"}))
