"""Text files with one row per line and the same fields in each line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sim.datasets.files import Block, RawFile
from sim.datasets.formats.base import Batch
from sim.datasets.lines import Layout, parse


def read_layout(
    raw: RawFile, layout: Layout, *, header: int = 0, prepare: Callable[[bytes], bytes] = lambda text: text
) -> Iterator[Batch]:
    """Yield the rows of a file after a number of header lines; `prepare` may change lines, not their number."""
    for block in body(raw, header):
        rows = parse(prepare(block.text), layout)
        yield Batch(
            rows.table,
            [(block.first_line + line, reason) for line, reason in rows.faults],
            newest_first=layout.newest_first,
        )


def body(raw: RawFile, header: int) -> Iterator[Block]:
    """Yield the blocks of a file without its header lines."""
    left = header
    for block in raw.blocks():
        text, line = block.text, block.first_line
        while left and text:
            text = text.partition(b"\n")[2]
            left, line = left - 1, line + 1
        if text:
            yield Block(line, text)


def numbered_lines(raw: RawFile, header: int = 0, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank; undecodable bytes are replaced."""
    for block in body(raw, header):
        for number, line in enumerate(block.text.split(b"\n"), block.first_line):
            if text := line.decode(encoding, "replace").rstrip("\r"):
                yield number, text
