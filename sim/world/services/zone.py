"""Zones, such as tariff zones or delivery areas: whether the reported location is in another zone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import model_validator

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.components.spec import NonNegative
from sim.errors import InvalidValue
from sim.interfaces import FloatArray, IntArray
from sim.world.areas import Inside, polygons_of, require_shapely
from sim.world.distances.semantic import read_labels
from sim.world.locations import Locations
from sim.world.parameters import ServiceParameters
from sim.world.service import Service

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

ZoneOf = Callable[[FloatArray, FloatArray], IntArray]
"""Assignment of positions in km to zones."""
OUTSIDE = "outside"
"""Label of the positions outside all polygons."""


@component("service")
class ZoneParameters(ServiceParameters):
    """The zone of the location; the loss is 1 in a wrong zone or, with `tariffs`, the difference between tariffs."""

    kind: Literal["zone"] = "zone"
    file: FileName | None = None
    """GeoJSON file with polygons in degrees; polygons with the same label are one zone, and of overlapping ones the
    first counts. Positions outside all polygons are in the zone `outside`."""
    label: str | None = None
    """Property with the label of a polygon. Default: each polygon is a zone, numbered from 1."""
    labels: FileName | None = None
    """CSV file with the header cell,label and one line per cell. Replaces `file`."""
    tariffs: dict[str, NonNegative] | None = None
    """Tariff of each zone, by label; `outside` has 0 by default. Default: none, wrong zones count 1."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.labels is None):
            given = "neither" if self.file is None else "both"
            message = f"zones are given by either `file` or `labels`, found {given}"
            raise InvalidValue(message, code="missing-key" if self.file is None else "exclusive-keys")
        if self.label is not None and self.file is None:
            raise InvalidValue("`label` names a property of the polygons of `file`, found `labels`", code="unused-key")
        return self

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Service:  # noqa: ARG002
        """Return the service."""
        name = self.labels if self.file is None else self.file
        assert name is not None
        path = place.locate(name)
        if self.file is None:
            names, of_cell = _numbered(read_labels(path, locations.n_cells))
            zone_of: ZoneOf = _OfCell(locations, of_cell)
        else:
            names, zone_of = _polygons(path, self.label, locations)
        tariffs = None if self.tariffs is None else _tariffs(names, self.tariffs, str(path))
        return Zones(locations, zone_of=zone_of, tariffs=tariffs)


class Zones(Service):
    """Zones, numbered from 0.

    The loss is 1 if the zone of the answer is not that of the location, or the difference between their tariffs.
    """

    kind = "zone"

    def __init__(self, locations: Locations, *, zone_of: ZoneOf, tariffs: FloatArray | None = None) -> None:
        super().__init__(locations)
        self._zone_of, self._tariffs = zone_of, tariffs
        self.unit = "0/1" if tariffs is None else "tariff"
        self.unanswered = 1.0 if tariffs is None else math.nan

    def answers(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the zone of each position, shape (n, 1)."""
        return self._zone_of(x_km, y_km)[:, np.newaxis]

    def losses(self, cell: int, answers: IntArray) -> FloatArray:
        """Return the loss of a user in a location who gets these zones."""
        own = self.true_answers[cell, 0]
        if self._tariffs is None:
            return np.asarray(answers[:, 0] != own, dtype=np.float64)
        return np.asarray(np.abs(self._tariffs[answers[:, 0]] - self._tariffs[own]))


class _OfCell:
    """Assignment of positions to the zone of the nearest location."""

    def __init__(self, locations: Locations, zone_of_cell: IntArray) -> None:
        self._locations, self._zone_of_cell = locations, zone_of_cell

    def __call__(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        return self._zone_of_cell[self._locations.nearest(x_km, y_km)]


class _OfPolygon:
    """Assignment of positions to the zone of the first polygon that contains them, or to the last zone."""

    def __init__(self, inside: Inside, zone_of_polygon: IntArray) -> None:
        self._inside, self._zone_of_polygon = inside, zone_of_polygon

    def __call__(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        return self._zone_of_polygon[self._inside(x_km, y_km)]  # -1, outside all, is the last entry


def _polygons(path: Path, label: str | None, locations: Locations) -> tuple[list[str], ZoneOf]:
    """Return the labels of the zones in a GeoJSON file and the assignment of positions to them."""
    shapely = require_shapely()
    areas, properties = zip(*polygons_of(path), strict=True)
    if label is not None and not all(label in one for one in properties):
        raise InvalidValue(f"{path}: a polygon has no property {label!r}", code="no-such-column")
    labels = [str(number if label is None else one[label]) for number, one in enumerate(properties, start=1)]

    def in_km(lon_lat: FloatArray) -> FloatArray:
        return np.column_stack(locations.to_km(lon_lat[:, 1], lon_lat[:, 0]))

    names, zone_of_polygon = _numbered([*labels, OUTSIDE])
    return names, _OfPolygon(Inside(list(shapely.transform(np.array(areas), in_km))), zone_of_polygon)


def _numbered(labels: Sequence[str]) -> tuple[list[str], IntArray]:
    """Return the distinct labels, in order of appearance, and the number of each label among them.

    >>> _numbered(["B", "A", "B"])
    (['B', 'A'], array([0, 1, 0]))
    """
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return list(numbers), np.array([numbers[label] for label in labels], dtype=np.int64)


def _tariffs(names: Sequence[str], tariffs: Mapping[str, float], where: str) -> FloatArray:
    """Return the tariff of each zone; raise `InvalidValue` for zones without tariff and tariffs without zone."""
    known = {OUTSIDE: 0.0} | dict(tariffs)
    for problem, labels in (
        ("no tariff for", [name for name in names if name not in known]),
        ("tariff for an unknown", [name for name in tariffs if name not in {*names, OUTSIDE}]),
    ):
        if labels:
            others = f", and {len(labels) - 1:,} more" if len(labels) > 1 else ""
            raise InvalidValue(
                f"`tariffs` must have one tariff per zone of {where}, found {problem} zone {labels[0]!r}{others}",
                code="wrong-tariffs",
            )
    return np.array([known[name] for name in names], dtype=np.float64)
