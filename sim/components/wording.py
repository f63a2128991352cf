"""Formatting of values and lists in messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sim.escaping import visible

LONGEST = 60
"""Largest number of characters of a value in a message."""


def one_line(text: str) -> str:
    r"""Escape line breaks and control characters.

    >>> print(one_line("a\nb\x1b[31m ü"))
    a\nb\x1b[31m ü
    """
    return visible(text, keep="")


def shown(value: Any) -> str:
    """Format a value as in a scenario file, shortened to `LONGEST` characters.

    >>> shown(True), shown(None), shown("a'b"), shown("x" * 99)[-3:]
    ('true', 'null', '"a\\'b"', 'xx…')
    """
    if value is None:
        return "null"
    text = one_line(str(value).lower() if isinstance(value, bool) else repr(value))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def described(value: Any) -> str:
    """Describe a value of a scenario file with its type.

    >>> described("3"), described(3), described([1, 2]), described(None)
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
    """Join words by commas and a conjunction.

    >>> listing(["a", "b", "c"])
    'a, b or c'
    """
    texts = [str(word) for word in words]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with a noun in the singular or plural.

    >>> counted(1, "row"), counted(2_000, "query", "queries")
    ('1 row', '2,000 queries')
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
