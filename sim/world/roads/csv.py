"""Roads from two CSV files, one with nodes and one with edges."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.errors import InvalidValue
from sim.interfaces import Generator
from sim.world.locations import Locations
from sim.world.parameters import RoadsParameters
from sim.world.roads.files import DEFAULT_SPEED_MPH, KM_PER_MILE, UNREADABLE, number_in, open_binary, project

if TYPE_CHECKING:
    from sim.world.roads.graph import Edge, Roads


@component("roads")
class RoadCsvParameters(RoadsParameters):
    """Roads from two CSV files: nodes (osmid, lat, lon) and edges (u, v, length_m, speed_mph)."""

    needs_earth: ClassVar[bool] = True

    kind: Literal["csv"] = "csv"
    nodes: FileName
    """CSV file of nodes (crossings): osmid, and lat and lon in degrees; may be gzipped."""
    edges: FileName
    """CSV file of directed edges (streets): u, v, length_m and optionally speed_mph (default: 25); may be gzipped."""

    def build(self, locations: Locations, place: Place, rng: Generator) -> Roads:  # noqa: ARG002
        """Return the roads."""
        return read_csv(place.locate(self.nodes), place.locate(self.edges), locations)


def read_csv(nodes_path: str | Path, edges_path: str | Path, locations: Locations) -> Roads:
    """Read nodes `osmid,lat,lon` and directed edges `u,v,length_m,lanes,speed_mph`, gzipped or not.

    `lanes` is ignored. The default of `speed_mph` is 25.
    """
    from sim.world.roads.graph import build_roads  # networkx and scipy take half a second to import

    lat_lon: dict[str, tuple[float, float]] = {}
    for where, row in _csv_rows(Path(nodes_path), ("osmid", "lat", "lon")):
        if row["osmid"] in lat_lon:
            raise InvalidValue(f"{where}: osmid {row['osmid']} occurs more than once", code="duplicate-entry")
        lat_lon[row["osmid"]] = (number_in(row, "lat", where, -90, 90), number_in(row, "lon", where, -180, 180))
    edges: list[Edge] = []
    unknown: list[str] = []
    for where, row in _csv_rows(Path(edges_path), ("u", "v", "length_m")):
        unknown += [f"{row[name]} ({where})" for name in ("u", "v") if row[name] not in lat_lon][:1]
        row["speed_mph"] = row.get("speed_mph") or str(DEFAULT_SPEED_MPH)
        length_km = number_in(row, "length_m", where, 0, 1e6) / 1000.0
        edges.append((row["u"], row["v"], length_km, number_in(row, "speed_mph", where, 1, 300) * KM_PER_MILE))
    if unknown:
        raise InvalidValue(
            f"{edges_path}: {len(unknown)} edges have a node that is not in {nodes_path}, first {unknown[0]}",
            code="unknown-node",
        )
    return build_roads(locations, project(locations, lat_lon), edges)


def _csv_rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield ("file, line n", row) with the text of every column; "" for columns missing from a short row."""
    try:
        with open_binary(path) as file:
            reader = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), restval="")
            columns = reader.fieldnames or []
            missing = [name for name in needed if name not in columns]
            if missing:
                raise InvalidValue(
                    f"{path}: missing columns {', '.join(missing)}, found {', '.join(columns) or 'none'}",
                    code="no-such-column",
                )
            for row in reader:
                yield f"{path}, line {reader.line_num}", row
    except (*UNREADABLE, UnicodeDecodeError, csv.Error) as error:
        raise InvalidValue(f"{path}: not a readable CSV file: {error}", code="unreadable-file") from error
