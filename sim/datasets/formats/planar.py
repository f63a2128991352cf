"""Positions of traffic simulations: numbers on the plane of a road network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from sim.datasets import projections
from sim.datasets.formats.base import Batch, Ignored, Invalid, Options, Point, batches, numbers
from sim.datasets.projections import Plane
from sim.errors import InputError

_CHUNK = 1 << 14

Item = Point | Invalid | Ignored


def plane_of(options: Options, stated: Plane | None, *, missing: str) -> Plane:
    """Return the plane of the positions: by `--crs`, `--origin`, or as the data state."""
    if options.crs is not None and options.origin is not None:
        raise InputError("--crs and --origin exclude each other: give one of them", code="options-exclude")
    if options.crs is not None:
        return projections.of_crs(options.crs)
    if options.origin is not None:
        return projections.at_origin(*options.origin)
    if stated is not None:
        return stated
    raise InputError(
        f"{missing}. Give --crs EPSG:CODE ({projections.ACCEPTED}), or --origin LAT,LON, the position of x = 0, y = 0",
        code="crs-missing",
    )


def projected(items: Iterable[Item], plane: Plane) -> Iterator[Batch]:
    """Yield positions, whose `lat` and `lon` are y and x, as batches in degrees."""
    return batches(_in_degrees(items, plane))


def _in_degrees(items: Iterable[Item], plane: Plane) -> Iterator[Item]:
    waiting: list[Point] = []
    for item in items:
        if isinstance(item, Point):
            waiting.append(item)
            if len(waiting) >= _CHUNK:
                yield from _converted(waiting, plane)
                waiting = []
        else:
            yield item
    yield from _converted(waiting, plane)


def _converted(points: list[Point], plane: Plane) -> Iterator[Item]:
    x_m, y_m = numbers([point.lon for point in points]), numbers([point.lat for point in points])
    with np.errstate(all="ignore"):  # far positions are invalid
        lat, lon = plane.to_degrees(x_m, y_m)
    for point, north, east in zip(points, lat.tolist(), lon.tolist(), strict=True):
        if abs(north) <= 90 and abs(east) <= 180:
            yield replace(point, lat=north, lon=east)
        else:
            yield Invalid(
                point.line, f"x, y must be a position in {plane.name}, found {point.lon!s:.40}, {point.lat!s:.40}"
            )
