"""OwnTracks: JSON messages, answers of the recorder's API, and its files *.rec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Ignored, Invalid, Options, Point, batches
from sim.datasets.formats.text import numbered_lines
from sim.datasets.lines import moment, shown
from sim.errors import InvalidValue
from sim.mobility.recorded.streams import json_items, json_values

_REC = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\t(?P<kind>[^\t]*)\t(?P<text>\{.*)", re.ASCII)


def recognises(head: Head) -> bool:
    """Return whether a file has messages of type location."""
    return re.search(r'"_type"\s*:\s*"', head.text) is not None


def read(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield all positions; the user is `--user`, the topic without owntracks/, or the tracker id."""
    return batches(_points(raw, options.user))


def _points(raw: RawFile, user: str | None) -> Iterator[Point | Invalid | Ignored]:
    folders = raw.path.resolve().parts
    folder_user = "/".join(folders[-3:-1]) if "rec" in folders[:-3] else None
    for line, message in _messages(raw):
        if isinstance(message, Invalid):
            yield message
        elif isinstance(message, dict):
            yield _point(line, message, user, folder_user)
        else:
            yield Invalid(line, f"must be a JSON object, found {shown(str(message))}")


def _messages(raw: RawFile) -> Iterator[tuple[int, Any]]:
    first = next(RawFile(raw.path).chunks(), b"").lstrip(b"\xef\xbb\xbf \r\n\t")
    if not first.startswith((b"{", b"[")):
        yield from _recorded(raw)
    elif first.startswith(b"[") or re.match(rb'\{\s*"(count|data|status)"', first):
        yield from ((line, item) for line, key, item in json_items(raw.chunks()) if key in ("", "data"))
    else:
        yield from json_values(raw.chunks())


def _recorded(raw: RawFile) -> Iterator[tuple[int, Any]]:
    """Yield the messages of a file of the recorder: time, kind and JSON, separated by tabs."""
    for line, text in numbered_lines(raw):
        match = _REC.match(text)
        try:
            if match is None:
                raise InvalidValue("", code="invalid-row")
            ((_, message),) = json_values([match["text"].encode()])
            yield line, message
        except ValueError:
            yield line, Invalid(line, f"must be time, kind and a JSON object, separated by tabs, found {shown(text)}")


def _point(line: int, message: dict[str, Any], user: str | None, folder_user: str | None) -> Point | Invalid | Ignored:
    if message.get("_type") != "location":
        return Ignored(f"messages of type {shown(str(message.get('_type')))}")
    try:
        time = moment(str(message["tst"]), "tst")
    except (KeyError, ValueError):
        return Invalid(line, f"tst must be seconds, found {shown(str(message.get('tst')))}")
    return Point(line, user or _user(message, folder_user), time, message.get("lat"), message.get("lon"))


def _user(message: dict[str, Any], folder_user: str | None) -> str:
    """Return user and device of a message."""
    if message.get("topic"):
        return str(message["topic"]).removeprefix("owntracks/")
    if message.get("username") and message.get("device"):
        return f"{message['username']}/{message['device']}"
    return folder_user or str(message.get("tid") or "1")


OWNTRACKS = Format(
    name="owntracks",
    description="OwnTracks: JSON messages or lines, answers of the recorder's API, and files USER/DEVICE/*.rec",
    source="https://owntracks.org/booklet/tech/json/",
    checks="messages with _type; of type location: lat, lon and tst in seconds",
    recognises=recognises,
    read=read,
    pattern="**/*.rec",
    options=frozenset({"--user"}),
    folder_hint="name the folder rec of the recorder",
)
