"""A scenario file as plain data, with line and column of every value."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from sim.components.suggestions import closest
from sim.components.wording import shown
from sim.scenario.reading.faults import Fault, Loc, ScenarioError, dotted
from sim.scenario.reading.paths import assign, value_at
from sim.scenario.reading.yaml12 import Place, Places, load, space_missing

MAX_BYTES = 1_000_000

_SIMILAR_NAME = 0.75  # stricter than for keys: short file names are often similar by chance

T = TypeVar("T")

_EMPTY = "the file is empty, but a scenario needs at least users and lppms; `lppm-sim new` writes a template"


@dataclass(frozen=True, slots=True)
class Source:
    """The data of a scenario and the position of each value."""

    name: str
    """File name, as given by the user."""
    data: Any
    """Mappings, lists, texts, numbers, true, false and null."""
    faults: tuple[Fault, ...] = ()
    """Faults of the file that did not prevent reading it; `validate` raises them."""
    places: Places = field(default_factory=Places, repr=False)
    origins: Mapping[Loc, str] = field(default_factory=dict, repr=False)
    """Origins of values that are not in the file, such as ``--set``."""

    def position(self, loc: Loc, of: Literal["value", "key"] = "value") -> Place:
        """Return line and column, from 1, of a value or its key; those of the nearest parent if it does not exist."""
        keys = self.places.keys if of == "key" else {}
        for length in range(len(loc), -1, -1):
            place = keys.get(loc[:length]) or self.places.values.get(loc[:length])
            if place is not None:
                return place
        return 1, 1

    def where(self, loc: Loc, of: Literal["value", "key"] = "value") -> str:
        """Return ``file:line:column`` of a location, or the origin of its value."""
        for length in range(len(loc), -1, -1):
            if loc[:length] in self.origins:
                return self.origins[loc[:length]]
        line, column = self.position(loc, of)
        return f"{self.name}:{line}:{column}"

    def fault(self, loc: Loc, message: str, code: str, of: Literal["value", "key"] = "value") -> Fault:
        """Return a fault of the value or key at a location."""
        return Fault(self.where(loc, of), dotted(loc), message, code)

    def overlay(self, loc: Loc, value: Any, origin: str = "--set", *, model: BaseModel | None = None) -> Source:
        """Return the source with one value set, as by `assign`; its faults name `origin` as their place."""
        data = assign(self.data, loc, value, model=model)
        return replace(self, data=data, origins={**self.origins, loc: origin})

    def below(self, loc: Loc) -> Source:
        """Return a part of the data as a source, with positions in the same file."""
        places = Places(_cut(self.places.values, loc), _cut(self.places.keys, loc))
        return replace(self, data=value_at(self.data, loc), places=places, origins=_cut(self.origins, loc))


def _cut(table: Mapping[Loc, T], loc: Loc) -> dict[Loc, T]:
    return {place[len(loc) :]: entry for place, entry in table.items() if place[: len(loc)] == loc}


def read(path: str | Path) -> Source:
    """Read a scenario file; raise ScenarioError if it does not contain a mapping."""
    name = str(path)
    raw = _bytes_of(name)
    return parse_text(_decode(raw, name), name)


def parse_text(text: str, name: str) -> Source:
    """Parse the text of a scenario; `name` is the file name in its faults.

    >>> parse_text("a: 1e-3\\nb: [no]", "x.yaml").data
    {'a': 0.001, 'b': ['no']}
    """
    data, faults, places = load(text.removeprefix("\ufeff"), name)
    source = Source(name=name, data=data, faults=tuple(faults), places=places)
    if data is None and not faults:
        raise ScenarioError([Fault(f"{name}:1:1", "", _EMPTY, "empty-file")])
    if not isinstance(data, dict):
        message = f"a scenario must be a mapping (key: value), found {shown(data)}{space_missing(data)}"
        raise ScenarioError([*faults, source.fault((), message, "wrong-type")])
    return source


def parse_value(text: str, name: str = "--set") -> Any:
    """Parse the value of ``--set path=value``, which is YAML as in a file.

    >>> parse_value("1e-3"), parse_value("[1, no]"), parse_value("{kind: markov}")
    (0.001, [1, 'no'], {'kind': 'markov'})
    """
    try:
        data, faults, _ = load(text, name)
    except ScenarioError as error:
        faults = error.faults
    if faults:
        problem = f"the value {shown(text)} cannot be read"
        raise ScenarioError(Fault(name, fault.path, f"{problem}: {fault.message}", fault.code) for fault in faults)
    return data


def _bytes_of(name: str) -> bytes:
    """Read the bytes of a file, at most one more than allowed, since a file may be endless."""
    try:
        with Path(name).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _refusal(name, f"file not found{_sibling(name)}", "file-not-found") from None
    except IsADirectoryError:
        raise _refusal(name, "this is a folder, but a scenario must be a YAML file", "is-a-folder") from None
    except OSError as error:
        raise _refusal(name, f"the file cannot be read: {error.strerror}", "file-error") from None
    except ValueError as error:
        raise _refusal(name, f"invalid file name: {error}", "file-error") from None
    if len(raw) > MAX_BYTES:
        message = f"the file is too large: a scenario must have at most {MAX_BYTES:,} bytes"
        raise _refusal(name, message, "too-large")
    return raw


def _refusal(where: str, message: str, code: str) -> ScenarioError:
    return ScenarioError([Fault(where, "", message, code)])


def _sibling(name: str) -> str:
    """Return a hint: a scenario file with a similar name, or the scenario files in the same folder."""
    path = Path(name)
    try:
        files = sorted(other for other in path.parent.iterdir() if other.suffix in (".yaml", ".yml"))
    except OSError:
        return f"; the folder {str(path.parent)!r} does not exist"
    by_stem = {other.stem: other.name for other in files}
    similar = closest(path.stem, by_stem, cutoff=_SIMILAR_NAME)
    if similar is not None:
        return f" (did you mean {by_stem[similar]!r}?)"
    return f"; files in this folder: {', '.join(other.name for other in files[:5])}" if files else ""


def _decode(raw: bytes, name: str) -> str:
    """Decode the bytes of a file: UTF-8, with or without a byte order mark."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        raise _refusal(f"{name}:1:1", "the encoding is UTF-16 or UTF-32: save the file as UTF-8", "not-utf8")
    nul = raw.find(b"\0")
    if nul >= 0:
        raise _refusal(_at(raw, nul, name), f"not a text file: found a NUL byte at byte {nul}", "not-utf8")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = f"found byte 0x{raw[error.start]:02x} at byte {error.start}"
        message = f"not UTF-8 text: {bad}; save it as UTF-8"
        raise _refusal(_at(raw, error.start, name), message, "not-utf8") from None


def _at(raw: bytes, offset: int, name: str) -> str:
    line_start = raw.rfind(b"\n", 0, offset) + 1
    line = raw.count(b"\n", 0, offset) + 1
    column = len(raw[line_start:offset].decode("utf-8", "replace")) + 1
    return f"{name}:{line}:{column}"
