"""HTML from values: whatever is not markup made here is text, whatever it contains."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from sim.plots.labels import printable


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element. A trailing underscore of an attribute's name goes, inner ones are dashes.

    >>> print(tag("p", "a < b ", tag("b", "c"), class_="lead"))
    <p class="lead">a &lt; b <b>c</b></p>
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{said}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Markup:
    """Return several values one after another."""
    return Markup("".join(escaped(child) for child in children))


def escaped(value: object) -> Markup:
    """Return a value as markup that shows it letter by letter; what cannot be seen is shown as a box.

    >>> print(escaped("<b>" + chr(0x202E)))
    &lt;b&gt;�
    """
    return value if isinstance(value, Markup) else Markup(html.escape(printable(str(value), keep="\n\u00a0")))


def numbered_names(names: Sequence[str]) -> list[str]:
    """Return names as they are shown, with numbers where several look alike.

    >>> numbered_names(["a", "b" + chr(0x202E), "b" + chr(0x200E)])
    ['a', 'b�', 'b� (2)']
    """
    seen: dict[str, int] = {}
    found = []
    for name in map(printable, names):
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def typeset(line: str) -> Markup:
    """Return text as it is set in print: symbols of loss and error, and no line break between a number and its unit."""
    unbroken = re.sub(r"(?<=\d) (?=km\b|±)|(?<=±) (?=\d)", "\u00a0", line.replace("Q-bar", "Q\u0304"))
    return Markup(escaped(unbroken).replace("P_AE", tag("i", "P", tag("sub", "AE"))))


def bulleted(lines: Iterable[str], kind: str) -> Markup:
    """Return lines as a list; nothing without any."""
    items = [tag("li", line) for line in lines]
    return tag("ul", *items, class_=kind) if items else Markup("")
