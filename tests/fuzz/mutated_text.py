"""Mutations of the text of a YAML file: bytes, lines, indentation, tags, anchors, numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

_SCRAPS = (
    *(
        b"!!python/object/apply:os.system ['touch PWNED']",
        b"!!python/name:os.system",
        b"!tag ",
        b"&a ",
        b"*a",
        b"<<: *a",
    ),
    *(b"---\n", b"...\n", b"%YAML 9.9\n", b"%TAG ! tag:x,2000:\n", b"? ", b"- ", b": ", b"|\n", b">-\n", b"\t", b"#"),
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\x1b[2J", b"\xe2\x80\xa8", b"\xc2\x85", b"\xef\xbb\xbf", b"\xff\xfe", b"\r"),
    *(
        b'"\\ud800"',
        b'"\\x1b[31m"',
        b'"\\U00110000"',
        b"'",
        b'"',
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b"1e999",
        b".nan",
        b"-.inf",
    ),
    *(b"1" * 5000, b"0x" + b"f" * 30, b"0o777", b"[" * 200, b"{a: " * 200, b"x" * 70_000, b"kind: os:system\n"),
)


def mutated_text(content: bytes, rng: Random) -> bytes:
    """Return the content after one to four mutations."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        content = rng.choice(_MUTATIONS)(content, rng)
    return content


def _flip(content: bytes, rng: Random) -> bytes:
    if not content:
        return b"\x00"
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def _truncate(content: bytes, rng: Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _remove(content: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.choice((1, 1, 5, 50)) :]


def _insert(content: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(_SCRAPS) + content[at:]


def _lines(content: bytes, rng: Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            lines.insert(j, lines[i])
        case 1:
            lines[i], lines[j] = lines[j], lines[i]
        case 2:
            lines[i] = b" " * rng.choice((1, 2, 3, 7)) + lines[i]
        case 3:
            lines[i] = lines[i].lstrip(b" ")
        case _:
            del lines[i]
    return b"".join(lines)


def _number(content: bytes, rng: Random) -> bytes:
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not numbers:
        return content + b"\nseed: 1e999\n"
    chosen = rng.choice(numbers)
    new = rng.choice(
        (
            b"0",
            b"-1",
            b"1e-320",
            b"1e308",
            b"1e999",
            b".nan",
            b".inf",
            b"99999999999999999999",
            b"0.5",
            b"1_000",
            b"'1'",
            b"",
        )
    )
    return content[: chosen.start()] + new + content[chosen.end() :]


def _value(content: bytes, rng: Random) -> bytes:
    """Insert a tag, an anchor or an alias before a value."""
    colons = [match.end() for match in re.finditer(rb": ", content)]
    if not colons:
        return content
    at = rng.choice(colons)
    return (
        content[:at]
        + rng.choice((b"!!str ", b"!!binary ", b"&x ", b"*x ", b"!!python/name:os.system ", b"[", b"{"))
        + content[at:]
    )


def _wide(content: bytes, rng: Random) -> bytes:
    """Add aliases that expand exponentially."""
    bomb = b"a: &a [1,1,1,1,1,1,1,1,1]\n"
    for last, name in ((b"a", b"b"), (b"b", b"c"), (b"c", b"d"), (b"d", b"e"), (b"e", b"f"), (b"f", b"g")):
        bomb += name + b": &" + name + b" [" + b",".join([b"*" + last] * 9) + b"]\n"
    return bomb + content if rng.random() < 0.5 else content + bomb


_MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(_flip, _flip, _truncate, _remove, _insert, _insert, _lines, _lines, _number, _number, _number, _value, _wide),
)
