"""Text from files on a terminal: control characters are escaped, so that none of them is acted upon."""

from __future__ import annotations


def visible(text: str, keep: str = "\n") -> str:
    r"""Escape every character that is not printable, but for those to keep: controls, C1 codes, bidi overrides.

    >>> print(visible("a\x1b[31m\u202e ü"))
    a\x1b[31m\u202e ü
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def escape(text: str) -> str:
    r"""Return text that rich prints letter by letter: neither markup nor control characters in it have an effect.

    >>> print(escape("[red]\x07"))
    \[red]\x07
    """
    from rich.markup import escape as escape_markup

    return escape_markup(visible(text))
