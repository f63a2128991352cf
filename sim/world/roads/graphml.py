"""Roads from a GraphML file written by osmnx."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn
from xml.parsers import expat

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.errors import InvalidValue, code_of
from sim.interfaces import Generator
from sim.world.locations import Locations
from sim.world.parameters import RoadsParameters
from sim.world.roads.files import DEFAULT_SPEED_MPH, KM_PER_MILE, UNREADABLE, number_in, open_binary, project

if TYPE_CHECKING:
    import networkx as nx

    from sim.world.roads.graph import Edge, Roads


@component("roads")
class RoadGraphMLParameters(RoadsParameters):
    """Roads from a GraphML file written by osmnx."""

    needs_earth: ClassVar[bool] = True

    kind: Literal["graphml"] = "graphml"
    file: FileName
    """GraphML file written by `osmnx.save_graphml`; may be gzipped."""

    def build(self, locations: Locations, place: Place, rng: Generator) -> Roads:  # noqa: ARG002
        """Return the roads."""
        return read_graphml(place.locate(self.file), locations)


def read_graphml(path: str | Path, locations: Locations) -> Roads:
    """Read a street network written by `osmnx.save_graphml`, gzipped or not.

    The attribute `oneway` is ignored, since a two-way street has two edges. The speed of an edge is the mean of the
    speeds in `maxspeed`, or 25 mph without any.
    """
    from sim.world.roads.graph import build_roads  # networkx and scipy take half a second to import

    graph = _graphml(Path(path))
    lat_lon: dict[str, tuple[float, float]] = {}
    for node, row in graph.nodes(data=True):
        where = f"{path}: node {node}"
        lat_lon[node] = (number_in(row, "y", where, -90, 90), number_in(row, "x", where, -180, 180))
    edges: list[Edge] = []
    for u, v, row in graph.edges(data=True):
        length_km = number_in(row, "length", f"{path}: edge {u} -> {v}", 0, 1e6) / 1000.0
        edges.append((u, v, length_km, _speed_kmh(str(row.get("maxspeed", "")))))
    return build_roads(locations, project(locations, lat_lon), edges)


def _speed_kmh(maxspeed: str) -> float:
    """Return the mean of the speeds in OpenStreetMap's free text in km/h, such as "50" or "['25 mph', '35 mph']".

    >>> [round(_speed_kmh(text), 1) for text in ("50", "25 mph", "['25 mph', '35 mph']", "signals")]
    [50.0, 40.2, 48.3, 40.2]
    """
    matches = re.findall(r"(\d+(?:\.\d+)?)\s*(mph)?", maxspeed)
    speeds = [float(number) * (KM_PER_MILE if unit else 1.0) for number, unit in matches]
    speeds = [speed for speed in speeds if 0.0 < speed < 500.0]
    return sum(speeds) / len(speeds) if speeds else DEFAULT_SPEED_MPH * KM_PER_MILE


def _reject_doctype(*_: object) -> NoReturn:
    # Entities can only be declared in a DOCTYPE, and nested entities can exhaust memory. osmnx never writes one.
    raise InvalidValue("a DOCTYPE is not allowed", code="unsafe-file")


def _graphml(path: Path) -> nx.MultiDiGraph[str]:
    import networkx as nx

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _reject_doctype
    try:
        with open_binary(path) as file:
            parser.ParseFile(file)
        with open_binary(path) as file:
            graph = nx.read_graphml(file, force_multigraph=True)
    except (*UNREADABLE, expat.ExpatError, nx.NetworkXError, KeyError, ValueError) as error:
        code = code_of(error, "unreadable-file")
        raise InvalidValue(f"{path}: not a readable GraphML file: {error}", code=code) from error
    if not isinstance(graph, nx.MultiDiGraph):
        raise InvalidValue(f"{path}: the graph must be directed, found an undirected graph", code="undirected-graph")
    return graph
