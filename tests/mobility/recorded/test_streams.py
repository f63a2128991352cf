"""Incremental JSON and XML against the parsers of the standard library."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.mobility.recorded import streams
from sim.mobility.recorded.streams import Elements, json_items, json_values
from tests.support import raises_code

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def cut(text: str, size: int) -> list[bytes]:
    content = text.encode()
    return [content[start : start + size] for start in range(0, len(content), size)]


def items_of(document: Any) -> list[tuple[str, Any]]:
    """Return the items that the streaming parser must yield."""
    if isinstance(document, list):
        return [("", item) for item in document]
    return [(key, item) for key, value in document.items() for item in (value if isinstance(value, list) else [value])]


@settings(deadline=None)
@given(st.lists(VALUES) | st.dictionaries(st.text(), VALUES), st.integers(1, 40), st.sampled_from([None, 1]))
def test_items_equal_those_of_the_json_module(document: Any, size: int, indent: int | None) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return
    assert [(key, item) for _, key, item in json_items(cut(text, size))] == items_of(document)


@settings(deadline=None)
@given(st.lists(VALUES, max_size=5), st.integers(1, 40))
def test_values_equal_those_of_the_json_module(values: list[Any], size: int) -> None:
    text = "\n".join(json.dumps(value) for value in values)
    assert list(json_values(cut(text, size))) == list(enumerate(values, 1))


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": [1,\n2,\nx]}', 3),
        ('{"a": 1', 1),
        ('{"a": 1}\n5', 2),
        ("[1, 2", 1),
        ("[1 2]", 1),
        ('"a"', 1),
        ("", 1),
        ('{"a" 1}', 1),
        ("{5: 1}", 1),
        ("[" * 100_000, 1),
    ],
)
def test_invalid_json_is_rejected_with_its_line(text: str, line: int, size: int) -> None:
    with raises_code(InvalidValue, "unreadable-file") as error:
        list(json_items(cut(text, max(size, len(text) // 100))))
    assert str(error.value).startswith(f"line {line}: ")


def test_size_of_an_item_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_ITEM", 100)
    assert len(list(json_items(cut(json.dumps(["x" * 50] * 50), 10)))) == 50
    with raises_code(InvalidValue, "unreadable-file"):
        list(json_items(cut(json.dumps(["x" * 5000]), 10)))


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_elements_have_lines_and_text(size: int) -> None:
    class Words(Elements):
        def start(self, name: str, attributes: dict[str, str]) -> None:
            self.emit((self.line, name, attributes))

        def end(self, name: str, text: str) -> None:
            self.emit((self.line, text.strip()))

    text = '<?xml version="1.0"?>\n<n:a xmlns:n="urn:x">\n<b c="&lt;é"> x &amp; y </b>\n</n:a>'
    assert list(Words().run(cut(text, size))) == [
        (2, "a", {"xmlns:n": "urn:x"}),
        (3, "b", {"c": "<é"}),
        (3, "x & y"),
        (4, ""),
    ]
