"""Escape plain text in docstrings that reStructuredText reads as markup: |X|, M(x'|x), *, name_."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_LITERAL = re.compile(r"(``.+?``|`[^`]+`_{0,2}|:\w[\w:]*:`[^`]+`)")
_MARKUP = re.compile(r"(?<!\\)\||(?<!\\)\*|(?<=\w)_(?!\w)")


def escaped(line: str) -> str:
    r"""Return a line whose plain text is taken literally.

    >>> escaped("Size of |X|, `a|b` and x_ of ``*args``.")
    'Size of \\|X\\|, `a|b` and x\\_ of ``*args``.'
    """
    parts = _LITERAL.split(line)
    return "".join(part if index % 2 else _MARKUP.sub(r"\\\g<0>", part) for index, part in enumerate(parts))


def _process(_app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    is_code = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith(">>>"):
            is_code = True
        elif not line.strip():
            is_code = False
        if not is_code and not line.lstrip().startswith((".. ", "* ")):
            lines[number] = escaped(line)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
