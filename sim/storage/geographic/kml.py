"""KML 2.2: longitude before latitude, WGS 84."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, BinaryIO
from xml.sax.saxutils import escape, quoteattr

from sim.interfaces import FloatArray
from sim.storage.geographic.features import ESTIMATE, REPORT, TRUTH, Features
from sim.storage.geographic.geojson import DIGITS

_COLOURS = {TRUTH: "ff739e00", REPORT: "ff005ed5", ESTIMATE: "ffb27200"}
"""Colours of Okabe and Ito as alpha, blue, green, red."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_kml(file: BinaryIO, batches: Iterable[Features], *, name: str) -> int:
    """Write a document with one placemark per feature, coloured by role, and return the number of features."""
    file.write(_head(name).encode())
    count = 0
    for batch in batches:
        for properties, places in zip(batch.properties.to_pylist(), batch.places, strict=True):
            file.write(_placemark(properties, places).encode())
            count += 1
    file.write(b"</Document></kml>\n")
    return count


def text(value: object) -> str:
    """Return a value as XML text; characters that XML cannot contain become a replacement character.

    >>> text("<a & b>")
    '&lt;a &amp; b&gt;'
    """
    return escape(_NOT_XML.sub("\ufffd", str(value)))


def _head(name: str) -> str:
    styles = "".join(
        f'<Style id="{role}"><IconStyle><color>{colour}</color><scale>0.6</scale></IconStyle>'
        "<LabelStyle><scale>0</scale></LabelStyle></Style>\n"
        for role, colour in _COLOURS.items()
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>\n'
        f"<name>{text(name)}</name>\n{styles}"
    )


def _placemark(properties: dict[str, Any], places: FloatArray) -> str:
    """Return a placemark; the elements have the order of the KML schema."""
    data = "".join(
        f"<Data name={quoteattr(key)}><value>{text(value)}</value></Data>"
        for key, value in properties.items()
        if value is not None
    )
    name = text(f"{properties['role']} {properties['index']} of {properties['user']}")
    return (
        f"<Placemark><name>{name}</name><styleUrl>#{properties['role']}</styleUrl>"
        f"<ExtendedData>{data}</ExtendedData>{_geometry(places)}</Placemark>\n"
    )


def _geometry(places: FloatArray) -> str:
    points = [
        f"<Point><coordinates>{round(x, DIGITS)},{round(y, DIGITS)}</coordinates></Point>" for x, y in places.tolist()
    ]
    return f"<MultiGeometry>{''.join(points)}</MultiGeometry>" if len(points) > 1 else "".join(points)
