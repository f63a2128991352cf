"""Values and lists as they are written in messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sim.escaping import visible

LONGEST = 60


def one_line(text: str) -> str:
    r"""Escape what would break a line or disturb a terminal.

    >>> print(one_line("a\nb\x1b[31m ü"))
    a\nb\x1b[31m ü
    """
    return visible(text, keep="")


def shown(value: Any) -> str:
    """Write a value as it would stand in the file, shortened.

    >>> shown(True), shown(None), shown("a'b"), shown("x" * 99)[-3:]
    ('true', 'null', '"a\\'b"', 'xx…')
    """
    if value is None:
        return "null"
    text = one_line(str(value).lower() if isinstance(value, bool) else repr(value))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def found(value: Any) -> str:
    """Say what was found in a file, with its type in plain words.

    >>> found("3"), found(3), found([1, 2]), found(None)
    ("text '3'", '3', 'the list [1, 2]', 'nothing (null)')
    """
    match value:
        case None:
            return "nothing (null)"
        case str():
            return f"text {shown(value)}"
        case list() | tuple():
            return f"the list {shown(value)}"
        case dict():
            return f"the mapping {shown(value)}"
        case _:
            return shown(value)


def listing(words: Iterable[object], last: str = "or") -> str:
    """Join words for a sentence.

    >>> listing(["a", "b", "c"])
    'a, b or c'
    """
    texts = [str(word) for word in words]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"
