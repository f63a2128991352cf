"""SNAP check-ins of Brightkite and Gowalla (Cho, Myers and Leskovec, KDD 2011)."""

from __future__ import annotations

from collections.abc import Iterator

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Options
from sim.datasets.formats.columns import header_of, layout_of
from sim.datasets.formats.text import read_layout
from sim.datasets.lines import Layout
from sim.datasets.regions import SAN_FRANCISCO

SNAP = Layout(("user", "time_s", "lat", "lon", "location"), "\t", newest_first=True)
_LINE = r"\d+\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\t-?[\d.]+\t-?[\d.]+\t\S+$"


def read(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield the rows of a download, or of a CSV file with a header."""
    return read_with_header(raw, options) or read_layout(raw, SNAP)


def read_with_header(raw: RawFile, options: Options) -> Iterator[Batch] | None:
    """Yield the rows of a CSV file with a header; return None for a file without one."""
    first = next(RawFile(raw.path).blocks(), None)
    line = "" if first is None else first.text.partition(b"\n")[0].decode("utf-8", "replace")
    header = header_of(line) if "," in line else None
    return None if header is None else read_layout(raw, layout_of(raw, *header, options, quoted=False), header=1)


def _snap(name: str, other: str) -> Format:
    def recognises(head: Head) -> bool:
        return head.matches(_LINE) and other not in head.path.name.lower()

    return Format(
        name=name,
        description=f"check-ins of {name.title()}, the file loc-{name}_totalCheckins.txt of SNAP",
        source=f"Cho, Myers, Leskovec, KDD 2011; https://snap.stanford.edu/data/loc-{name}.html",
        checks=str(SNAP),
        recognises=recognises,
        read=read,
        accepts_header=True,
        region=SAN_FRANCISCO,
        folder_hint=f"name the file, such as loc-{name}_totalCheckins.txt.gz",
    )


BRIGHTKITE = _snap("brightkite", "gowalla")
GOWALLA = _snap("gowalla", "brightkite")
