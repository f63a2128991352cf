"""Escaping of control characters in text from files, so that a terminal does not interpret them."""

from __future__ import annotations


def visible(text: str, keep: str = "\n") -> str:
    r"""Escape non-printable characters (controls, C1 codes, bidi overrides) except those in `keep`.

    >>> print(visible("a\x1b[31m\u202e ü"))
    a\x1b[31m\u202e ü
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def escape(text: str) -> str:
    r"""Escape markup and non-printable characters, so that rich prints the text literally.

    >>> print(escape("[red]\x07"))
    \[red]\x07
    """
    from rich.markup import escape as escape_markup

    return escape_markup(visible(text))
