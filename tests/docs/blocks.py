"""Code blocks of a page of the documentation, with the markers above them.

A marker is a MyST comment, which the site does not show, on the lines directly above a block:

``% not run: REASON``
    The block cannot run here. The reason is required.
``% run with: ARGUMENTS``
    Arguments appended to each `lppm-sim run` of the block, to keep the test short.
``% within: PATH``
    The YAML block is the value of this key of a scenario. Without the marker, a block that is not a whole scenario
    replaces keys of a small one.
``% exit code: N``
    Exit code of the last command of the block; the others, and all by default, exit with 0.
``% needs: MODULE``
    Module of an extra, or several separated by commas: the block is not run where one is not installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

MARKERS = ("not run", "run with", "within", "exit code", "needs")
_MARKER = re.compile(r"% (?P<name>[a-z ]+): (?P<value>.+)")
_DIRECTIVE = re.compile(r"\{(?P<name>[\w-]+)\}\s*(?P<argument>.*)")
_OPTION = re.compile(r":(?P<name>[\w-]+):\s*(?P<value>.*)")


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str
    text: str
    line: int
    """Line of the fence in the page, from 1."""
    caption: str = ""
    """Name of the file that the block shows."""
    markers: dict[str, str] = field(default_factory=dict)


def blocks(path: Path) -> list[Block]:
    """Return the code blocks of a page in order; raises a ValueError for an unknown marker or an indented block."""
    source = path.read_text(encoding="utf-8")
    lines = source.split("\n")
    return list(_blocks(source, lines))


def is_notebook(path: Path) -> bool:
    """Return whether a page is a notebook: the build of the site runs its cells."""
    return bool(re.match(r"---\n(?:.*\n)*?(?:kernelspec|jupytext):", path.read_text(encoding="utf-8")))


def _blocks(source: str, lines: list[str]) -> Iterator[Block]:
    for token in MarkdownIt("commonmark").parse(source):
        if token.type == "code_block":
            raise ValueError(f"line {(token.map or [0])[0] + 1}: indented code, use a fence with a language")
        if token.type == "fence" and token.map is not None:
            start = token.map[0]
            markers = dict(_markers(lines, start))
            directive = _DIRECTIVE.fullmatch(token.info.strip())
            if directive is None:
                yield Block(token.info.strip(), token.content, start + 1, markers=markers)
            elif directive["name"] == "code-block":
                options, text = _options(token.content)
                yield Block(directive["argument"], text, start + 1, options.get("caption", ""), markers)


def _markers(lines: list[str], start: int) -> Iterator[tuple[str, str]]:
    while start and (match := _MARKER.fullmatch(lines[start - 1].strip())):
        if match["name"] not in MARKERS:
            raise ValueError(f"line {start}: unknown marker {match['name']!r}, one of {', '.join(MARKERS)}")
        yield match["name"], match["value"]
        start -= 1


def _options(content: str) -> tuple[dict[str, str], str]:
    lines, options = content.split("\n"), {}
    while lines and (match := _OPTION.fullmatch(lines[0].strip())):
        options[match["name"]] = match["value"]
        del lines[0]
    return options, "\n".join(lines).lstrip("\n")
