"""Incremental reading of XML and JSON from chunks of bytes, with line numbers and in constant memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import Any
from xml.parsers import expat

from sim.errors import InvalidValue

Chunks = Iterable[bytes]

_BLANK = " \t\r\n"
LONGEST_ITEM = 64 << 20
"""Limit of the size of one item of a JSON array in characters."""


class Elements:
    """XML elements as events: override `start`, `end` and `comment`, then iterate over `run`."""

    line = 0
    """Line of the current element, from 1."""

    def __init__(self) -> None:
        self._ready: list[Any] = []

    def emit(self, item: Any) -> None:
        """Add an item to the output of `run`."""
        self._ready.append(item)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Process a start tag; names have no namespace."""

    def end(self, name: str, text: str) -> None:
        """Process an end tag and the text directly before it."""

    def run(self, chunks: Chunks) -> Iterator[Any]:
        """Yield the emitted items; raise `InvalidValue` for invalid XML and for entity declarations."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        text: list[str] = []

        def start(name: str, attributes: dict[str, str]) -> None:
            text.clear()
            self.line = parser.CurrentLineNumber
            self.start(name.rpartition(":")[2], attributes)

        def end(name: str) -> None:
            self.line = parser.CurrentLineNumber
            self.end(name.rpartition(":")[2], "".join(text))
            text.clear()

        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.CharacterDataHandler = text.append
        parser.EntityDeclHandler = _refuse_entity
        try:
            for chunk in chunks:
                parser.Parse(chunk, False)
                yield from self._ready
                self._ready.clear()
            parser.Parse(b"", True)
        except (expat.ExpatError, LookupError) as error:  # LookupError: an unknown encoding
            raise InvalidValue(f"not valid XML: {error}", code="unreadable-file") from error
        yield from self._ready


def _refuse_entity(name: str, *_: object) -> None:
    raise InvalidValue(f"not valid: XML entity {name} is declared, which is not supported", code="unreadable-file")


def json_items(chunks: Chunks) -> Iterator[tuple[int, str, Any]]:
    """Yield line, key and value: the items of a top-level array (key ""), or of the arrays of a top-level object.

    Other values of the object are yielded whole. Memory depends on the largest item, not on the file.

    >>> list(json_items([b'{"n": 2, "rows": [{"a": 1},', b' 5]}']))
    [(1, 'n', 2), (1, 'rows', {'a': 1}), (1, 'rows', 5)]
    """
    text = _Text(chunks)
    opening = text.peek()
    if opening == "[":
        yield from _array(text, "")
    elif opening == "{":
        text.skip("{")
        while text.peek() != "}":
            key = text.value()
            if not isinstance(key, str):
                raise text.error("expected a key in quotes")
            text.skip(":")
            if text.peek() == "[":
                yield from _array(text, key)
            else:
                yield text.line, key, text.value()
            if text.peek() != "}":
                text.skip(",")
        text.skip("}")
    else:
        raise text.error("expected { or [")
    if text.peek():
        raise text.error("unexpected text after the end")


def json_values(chunks: Chunks) -> Iterator[tuple[int, Any]]:
    """Yield line and value of JSON values that follow each other, such as JSON lines."""
    text = _Text(chunks)
    while text.peek():
        yield text.line, text.value()


def _array(text: _Text, key: str) -> Iterator[tuple[int, str, Any]]:
    text.skip("[")
    while text.peek() != "]":
        line = text.line
        yield line, key, text.value()
        if text.peek() != "]":
            text.skip(",")
    text.skip("]")


_CUT = ("", ".", "e", "E", "e+", "e-", "E+", "E-")
"""Rest of the text after a number, if the number may continue in the next chunk."""


class _Text:
    """Position in a text of which only the part that is being parsed is in memory."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = iter(chunks)
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False
        self.line = 1

    def peek(self) -> str:
        """Return the next character that is not blank, "" at the end of the text."""
        while True:
            end = self._at
            while end < len(self._text) and self._text[end] in _BLANK:
                end += 1
            self._advance(end)
            if end < len(self._text):
                return self._text[end]
            if not self._more():
                return ""

    def skip(self, character: str) -> None:
        """Skip a required character."""
        if self.peek() != character:
            raise self.error(f"expected {character}")
        self._advance(self._at + 1)

    def value(self) -> Any:
        """Parse the next value."""
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except (json.JSONDecodeError, RecursionError) as error:
                if isinstance(error, RecursionError) or not self._more():
                    raise self.error(getattr(error, "msg", "nested too deeply")) from error
                continue
            if self._text[end : end + 3] in _CUT and self._more():
                continue  # a number may continue in the next chunk
            self._advance(end)
            return value

    def error(self, problem: str) -> InvalidValue:
        """Return an error with the current line."""
        return InvalidValue(f"line {self.line}: not valid JSON: {problem}", code="unreadable-file")

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end

    def _more(self) -> bool:
        """Append text, at least as much as the unparsed part, so that long values take linear time."""
        if self._ended:
            return False
        rest = self._text[self._at :]
        if len(rest) > LONGEST_ITEM:
            raise self.error(f"an item is longer than {LONGEST_ITEM:,} characters")
        parts, size = [rest], 0
        try:
            while size <= len(rest) and not self._ended:
                chunk = next(self._chunks, None)
                self._ended = chunk is None
                parts.append(self._decode.decode(chunk or b"", final=self._ended))
                size += len(parts[-1])
        except UnicodeDecodeError as error:
            raise self.error("not UTF-8 text") from error
        self._text, self._at = "".join(parts), 0
        return size > 0
