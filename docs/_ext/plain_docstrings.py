"""Convert docstrings to reStructuredText: escape plain text such as |X|, M(x'|x), * and name_; read NumPy sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, NumpyDocstring

_LITERAL = re.compile(r"(``.+?``|`[^`]+`_{0,2}|:\w[\w:]*:`[^`]+`)")
_UNDERLINE = re.compile(r"-{3,}")
_NAPOLEON = Config(napoleon_use_rtype=False)
_MARKUP = re.compile(r"(?<!\\)\||(?<!\\)\*|(?<=\w)_(?!\w)")


def escaped(line: str) -> str:
    r"""Return a line whose plain text is taken literally.

    >>> escaped("Size of |X|, `a|b` and x_ of ``*args``.")
    'Size of \\|X\\|, `a|b` and x\\_ of ``*args``.'
    """
    parts = _LITERAL.split(line)
    return "".join(part if index % 2 else _MARKUP.sub(r"\\\g<0>", part) for index, part in enumerate(parts))


def _process(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    lines[:] = _escaped_lines(lines)
    # Napoleon as an extension would read "Unit: km." in the docstring of an attribute as its type.
    if any(_UNDERLINE.fullmatch(line) for line in lines) and what not in ("attribute", "property", "data"):
        lines[:] = NumpyDocstring(lines, _NAPOLEON, app, what, name, value, options).lines()


def _escaped_lines(lines: list[str]) -> Iterator[str]:
    is_code = False
    for line in lines:
        if line.lstrip().startswith(">>>"):
            is_code = True
        elif not line.strip():
            is_code = False
        is_markup = is_code or line.lstrip().startswith((".. ", "* ")) or _UNDERLINE.fullmatch(line)
        yield line if is_markup else escaped(line)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
