"""HTML construction: all values except `Markup` objects are escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from sim.plots.labels import printable


class Markup(str):
    """String that is HTML markup."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element. In attribute names, trailing underscores are removed and inner ones become dashes.

    >>> print(tag("p", "a < b ", tag("b", "c"), class_="lead"))
    <p class="lead">a &lt; b <b>c</b></p>
    """
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{text}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Markup:
    """Concatenate values as markup."""
    return Markup("".join(escaped(child) for child in children))


def escaped(value: object) -> Markup:
    """Escape a value; characters that are not printable become a replacement character.

    >>> print(escaped("<b>" + chr(0x202E)))
    &lt;b&gt;�
    """
    return value if isinstance(value, Markup) else Markup(html.escape(printable(str(value), keep="\n\u00a0")))


def numbered_names(names: Sequence[str]) -> list[str]:
    """Return printable names, numbered where several are equal.

    >>> numbered_names(["a", "b" + chr(0x202E), "b" + chr(0x200E)])
    ['a', 'b�', 'b� (2)']
    """
    seen: dict[str, int] = {}
    numbered = []
    for name in map(printable, names):
        seen[name] = seen.get(name, 0) + 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return numbered


def typeset(line: str) -> Markup:
    """Typeset the symbols of loss and error, and prevent line breaks between a number and its unit."""
    unbroken = re.sub(r"(?<=\d) (?=km\b|±)|(?<=±) (?=\d)", "\u00a0", line.replace("Q-bar", "Q\u0304"))
    return Markup(escaped(unbroken).replace("P_AE", tag("i", "P", tag("sub", "AE"))))


def with_code(line: str) -> Markup:
    """Escape a line and typeset text between backticks as code.

    >>> print(with_code("with `every_visit`, a < b"))
    with <code>every_visit</code>, a &lt; b
    """
    return line if isinstance(line, Markup) else Markup(re.sub("`([^`]+)`", r"<code>\1</code>", escaped(line)))


def bulleted(lines: Iterable[str], kind: str) -> Markup:
    """Return lines as a bulleted list of this class; nothing if there are none."""
    items = [tag("li", with_code(line)) for line in lines]
    return tag("ul", *items, class_=kind) if items else Markup("")
