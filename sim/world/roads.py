"""Roads as a directed graph: made up as a lattice, or read from CSV or from osmnx's GraphML."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from sim.interfaces import BoolArray, FloatArray, Generator, IntArray
from sim.world.grid import Grid

KM_PER_MILE = 1.609344
DEFAULT_SPEED_MPH = 25.0
# The cache of fastest ways is bounded in memory, not in sources: some 50 MB, whatever the size of the graph.
CACHED_NODES = 4_000_000
MOST_CROSSINGS = 200_000
UNREADABLE = (gzip.BadGzipFile, zlib.error, EOFError)

Predecessors = NDArray[np.int32]
Edge = tuple[Any, Any, float, float]
"""From, to, length_km, speed_kmh."""


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The fastest way from one node to another."""

    nodes: IntArray
    arrival_s: FloatArray
    """Seconds since the start at which each node is reached, from 0.0."""


class Roads:
    """Streets on which everybody can get everywhere.

    `graph` needs `x_km`, `y_km` on nodes, `length_km` in [0, inf) and `speed_kmh` in (0, inf) on edges. Nodes
    outside the grid are dropped, then all but the largest strongly connected component, so that nobody is
    ever stuck. What is left is numbered 0..N-1 in the order of `graph`, and each edge gets `travel_s`.
    """

    graph: nx.DiGraph[int]
    x_km: FloatArray
    y_km: FloatArray
    cell: IntArray
    dropped: dict[str, int]
    """Counts: `nodes_outside`, `nodes_unconnected`, `edges` of those, and `edges_redundant` that never were
    part of a shortest way (loops and the longer of parallel edges)."""

    def __init__(self, *, graph: nx.DiGraph[Any], grid: Grid, redundant_edges: int = 0) -> None:
        x_km, y_km, start, end, length_km, speed_kmh = _arrays(graph)
        cell = grid.cell_of_km(x_km, y_km)
        keep = _largest_component(cell >= 0, start, end)
        if keep.sum() < 2:
            inside = f"{(cell >= 0).sum()} of {len(cell)} road nodes are inside the grid"
            raise ValueError(f"{inside}, but no two of them are connected both ways")
        on = keep[start] & keep[end] & (start != end)
        loops = int((start == end).sum())
        self.x_km, self.y_km, self.cell = x_km[keep], y_km[keep], cell[keep]
        self.dropped = {
            "nodes_outside": int((cell < 0).sum()),
            "nodes_unconnected": int((cell >= 0).sum() - keep.sum()),
            "edges": int((~on).sum()) - loops,
            "edges_redundant": redundant_edges + loops,
        }
        number = np.cumsum(keep) - 1
        start, end, length_km, speed_kmh = number[start[on]], number[end[on]], length_km[on], speed_kmh[on]
        travel_s = length_km / speed_kmh * 3600.0
        self.graph = _numbered(self.x_km, self.y_km, start, end, length_km, speed_kmh, travel_s)
        shape = (self.n_nodes, self.n_nodes)
        self._length_km = csr_array((length_km, (start, end)), shape=shape)
        self._travel_s = csr_array((travel_s, (start, end)), shape=shape)
        self._nearest = cKDTree(np.column_stack([self.x_km, self.y_km]))
        self._trees: dict[int, tuple[FloatArray, Predecessors]] = {}

    @property
    def n_nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.x_km)

    def route(self, start: int, end: int) -> Route:
        """Return the fastest way, along one-way streets as they go."""
        self._check_nodes([start, end])
        arrival_s, previous = self._fastest_from(int(start))
        path = [int(end)]
        while path[-1] != start:
            path.append(previous.item(path[-1]))
        nodes = np.array(path[::-1], dtype=np.int64)
        return Route(nodes, arrival_s[nodes])

    def distances_km(self, sources: ArrayLike) -> FloatArray:
        """Return the length of the shortest way from each source to every node, shape (len(sources), N)."""
        nodes = np.atleast_1d(np.asarray(sources, dtype=np.int64))
        self._check_nodes(nodes)
        return np.asarray(dijkstra(self._length_km, indices=nodes), dtype=np.float64)

    def nearest_node(self, x_km: ArrayLike, y_km: ArrayLike) -> IntArray:
        """Return the node nearest to each place as the crow flies."""
        places = np.stack(np.broadcast_arrays(x_km, y_km), axis=-1)
        return np.asarray(self._nearest.query(places)[1], dtype=np.int64)

    def cells(self) -> IntArray:
        """Return the cells that hold a node, sorted, each once."""
        return np.unique(self.cell)

    def share_of_cells(self, n_cells: int) -> FloatArray:
        """Return the share of the nodes in each cell, shape (n_cells,)."""
        return np.bincount(self.cell, minlength=n_cells) / self.n_nodes

    def describe(self) -> dict[str, Any]:
        """Return counts, and nodes and edges to draw a map from, for the manifest."""
        return {
            "nodes": self.n_nodes,
            "edges": self.graph.number_of_edges(),
            "dropped": dict(self.dropped),
            "x_m": np.rint(self.x_km * 1000.0).astype(int).tolist(),
            "y_m": np.rint(self.y_km * 1000.0).astype(int).tolist(),
            "edge_from": [u for u, _ in self.graph.edges],
            "edge_to": [v for _, v in self.graph.edges],
        }

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_trees": {}}  # workers need the roads, not what somebody once asked

    def _check_nodes(self, nodes: Sequence[int] | IntArray) -> None:
        for node in nodes:
            if not 0 <= node < self.n_nodes:
                raise ValueError(f"a road node must be in [0, {self.n_nodes - 1}], got {node}")

    def _fastest_from(self, source: int) -> tuple[FloatArray, Predecessors]:
        """Return arrival times at all nodes and the node before each; least recently used sources go."""
        tree = self._trees.pop(source, None)
        if tree is None:
            arrival_s, previous = dijkstra(self._travel_s, indices=[source], return_predecessors=True)
            tree = (arrival_s[0], previous[0])
            if len(self._trees) >= max(1, CACHED_NODES // self.n_nodes):
                del self._trees[next(iter(self._trees))]
        self._trees[source] = tree  # a dict keeps the order of insertion: the last is the most recently used
        return tree


def lattice(
    grid: Grid,
    *,
    spacing_km: float = 0.5,
    one_way_share: float = 0.3,
    missing_share: float = 0.1,
    speed_kmh: float = 30.0,
    avenue_every: int = 4,
    avenue_speed_kmh: float = 50.0,
    rng: Generator,
) -> Roads:
    """Make up a town: straight streets `spacing_km` apart, in the middle of the grid's rectangle.

    Every `avenue_every`-th line (0: none) is an avenue, two-way and faster. Of the other lines a share is
    one-way, whole, with directions that alternate. A share of all blocks is missing.
    """
    for name, share in (("one_way_share", one_way_share), ("missing_share", missing_share)):
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} must be in [0, 1], got {share}")
    if not 0.0 < spacing_km < math.inf:
        raise ValueError(f"spacing_km must be in (0, inf), got {spacing_km}")
    if avenue_every < 0:
        raise ValueError(f"avenue_every must be in [0, inf), got {avenue_every}")
    _check_size(grid, spacing_km)
    x_km, y_km = _ticks(grid.width_km, spacing_km), _ticks(grid.height_km, spacing_km)
    number = np.arange(len(x_km) * len(y_km)).reshape(len(y_km), len(x_km))
    blocks: list[tuple[int, int, int, float]] = []
    for lines in (number.tolist(), number.T.tolist()):
        avenue = [avenue_every > 0 and i % avenue_every == 0 for i in range(len(lines))]
        directions = _directions(avenue, one_way_share, rng)
        for line, fast, direction in zip(lines, avenue, directions, strict=True):
            kmh = avenue_speed_kmh if fast else speed_kmh
            blocks += [(u, v, direction, kmh) for u, v in pairwise(line)]
    missing = rng.permutation(len(blocks))[: round(missing_share * len(blocks))]
    edges: list[Edge] = []
    for i in sorted(set(range(len(blocks))) - set(missing.tolist())):
        u, v, direction, kmh = blocks[i]
        edges += [(u, v, spacing_km, kmh)] * (direction >= 0) + [(v, u, spacing_km, kmh)] * (direction <= 0)
    places = zip(np.tile(x_km, len(y_km)).tolist(), np.repeat(y_km, len(x_km)).tolist(), strict=True)
    return _roads(grid, dict(enumerate(places)), edges)


def close(
    roads: Roads, grid: Grid, *, share: float | None = None, cells: ArrayLike | None = None, rng: Generator
) -> Roads:
    """Return the roads without a share of their edges, drawn at random, or without all that touch some cells.

    Edges without which somebody would be stuck stay open. The nodes are the same, with the same numbers.
    """
    start, end = _ends(roads)
    if cells is None:
        closed = _drawn(np.arange(len(start)), share or 0.0, rng)
    else:
        wanted = np.isin(roads.cell, np.asarray(cells))
        closed = np.flatnonzero(wanted[start] | wanted[end])
    return _changed(roads, grid, closed, reverse=False)


def reverse(roads: Roads, grid: Grid, *, share: float, rng: Generator) -> Roads:
    """Return the roads with a share of their one-way edges, drawn at random, turned round.

    Those that would leave somebody stuck stay as they are. The nodes are the same, with the same numbers.
    """
    one_way = [i for i, (u, v) in enumerate(roads.graph.edges) if not roads.graph.has_edge(v, u)]
    return _changed(roads, grid, _drawn(np.array(one_way, dtype=np.int64), share, rng), reverse=True)


def _ends(roads: Roads) -> tuple[IntArray, IntArray]:
    """Return the nodes where each edge starts and ends, in the order of the graph."""
    edges = np.array(roads.graph.edges, dtype=np.int64).reshape(-1, 2)
    return edges[:, 0], edges[:, 1]


def _drawn(edges: IntArray, share: float, rng: Generator) -> IntArray:
    """Draw a share of some edges, one at least."""
    return rng.permutation(edges)[: max(1, round(share * edges.size))]


def _changed(roads: Roads, grid: Grid, edges: IntArray, *, reverse: bool) -> Roads:
    """Return the roads with these edges taken away or reversed, but for those that have to stay."""
    start, end = _ends(roads)
    changed = np.zeros(len(start), dtype=bool)
    changed[edges] = True
    while (staying := _needed(roads.n_nodes, start, end, changed, edges, reverse=reverse)).size:
        changed[staying] = False
    if not changed.any():
        what = f"reversing any of {edges.size} one-way roads" if reverse else f"closing any of {edges.size} roads"
        raise ValueError(f"{what} would leave somebody stuck, or there are none: name others, or more of them")
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(roads.graph.nodes(data=True))
    for (u, v, data), is_changed in zip(roads.graph.edges(data=True), changed.tolist(), strict=True):
        if reverse and is_changed:
            graph.add_edge(v, u, **data)
        elif not is_changed:
            graph.add_edge(u, v, **data)
    return Roads(graph=graph, grid=grid)


def _needed(
    n_nodes: int, start: IntArray, end: IntArray, changed: BoolArray, edges: IntArray, *, reverse: bool
) -> IntArray:
    """Return changed edges to leave as they were: nothing where everybody still gets everywhere.

    Parts of the town that cannot be entered any more get back one edge into each, the first of those in `edges`; if
    there are none such, parts that cannot be left get back one out of each. As everybody got everywhere before, there
    is one.
    """
    if reverse:
        now = (np.where(changed, end, start), np.where(changed, start, end))
    else:
        now = (start[~changed], end[~changed])
    links = csr_array((np.ones(now[0].size), now), shape=(n_nodes, n_nodes))
    count, part = connected_components(links, directed=True, connection="strong")
    if count == 1:
        return np.zeros(0, dtype=np.int64)
    between = part[now[0]] != part[now[1]]
    waiting = edges[changed[edges] & (part[start[edges]] != part[end[edges]])]
    staying: IntArray = np.zeros(0, dtype=np.int64)
    for ends, old in ((now[1], end), (now[0], start)):
        cut_off = np.ones(count, dtype=bool)
        cut_off[part[ends[between]]] = False
        of_part = part[old[waiting]]
        first = np.unique(of_part, return_index=True)[1]
        staying = waiting[first[cut_off[of_part[first]]]]
        if staying.size:
            break
    return staying


def read_csv(nodes_path: str | Path, edges_path: str | Path, grid: Grid) -> Roads:
    """Read nodes `osmid,lat,lon` and directed edges `u,v,length_m,lanes,speed_mph`, gzipped or not.

    `lanes` is not used. Where `speed_mph` is missing or empty it is 25.
    """
    lat_lon: dict[str, tuple[float, float]] = {}
    for where, row in _csv_rows(Path(nodes_path), ("osmid", "lat", "lon")):
        if row["osmid"] in lat_lon:
            raise ValueError(f"{where}: osmid {row['osmid']} stands there twice")
        lat_lon[row["osmid"]] = (_number(row, "lat", where, -90, 90), _number(row, "lon", where, -180, 180))
    edges: list[Edge] = []
    unknown: list[str] = []
    for where, row in _csv_rows(Path(edges_path), ("u", "v", "length_m")):
        unknown += [f"{row[name]} ({where})" for name in ("u", "v") if row[name] not in lat_lon][:1]
        row["speed_mph"] = row.get("speed_mph") or str(DEFAULT_SPEED_MPH)
        length_km = _number(row, "length_m", where, 0, 1e6) / 1000.0
        edges.append((row["u"], row["v"], length_km, _number(row, "speed_mph", where, 1, 300) * KM_PER_MILE))
    if unknown:
        count = f"{len(unknown)} edges have ends that are not in {nodes_path}"
        raise ValueError(f"{edges_path}: {count}, first {unknown[0]}")
    return _roads(grid, _places(grid, lat_lon), edges)


def read_graphml(path: str | Path, grid: Grid) -> Roads:
    """Read a street network as osmnx's `save_graphml` writes it, gzipped or not.

    There a two-way street is two edges, so `oneway` says nothing new. A list of speeds counts by its mean.
    """
    graph = _graphml(Path(path))
    lat_lon: dict[str, tuple[float, float]] = {}
    for node, row in graph.nodes(data=True):
        where = f"{path}: node {node}"
        lat_lon[node] = (_number(row, "y", where, -90, 90), _number(row, "x", where, -180, 180))
    edges: list[Edge] = []
    for u, v, row in graph.edges(data=True):
        length_km = _number(row, "length", f"{path}: edge {u} -> {v}", 0, 1e6) / 1000.0
        edges.append((u, v, length_km, _speed_kmh(str(row.get("maxspeed", "")))))
    return _roads(grid, _places(grid, lat_lon), edges)


def _roads(grid: Grid, places: dict[Any, tuple[float, float]], edges: Iterable[Edge]) -> Roads:
    """Return the roads with these nodes; of parallel edges the shortest stays."""
    graph: nx.DiGraph[Any] = nx.DiGraph()
    for node, (x_km, y_km) in places.items():
        graph.add_node(node, x_km=x_km, y_km=y_km)
    redundant = 0
    for u, v, length_km, speed_kmh in edges:
        parallel = graph.get_edge_data(u, v)
        redundant += parallel is not None
        if parallel is None or length_km < parallel["length_km"]:
            graph.add_edge(u, v, length_km=length_km, speed_kmh=speed_kmh)
    return Roads(graph=graph, grid=grid, redundant_edges=redundant)


def _numbered(x_km: FloatArray, y_km: FloatArray, *columns: FloatArray | IntArray) -> nx.DiGraph[int]:
    """Return the graph of these nodes and of edges with start, end, length_km, speed_kmh, travel_s."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for node, (x, y) in enumerate(zip(x_km.tolist(), y_km.tolist(), strict=True)):
        graph.add_node(node, x_km=x, y_km=y)
    for u, v, km, kmh, s in zip(*(column.tolist() for column in columns), strict=True):
        graph.add_edge(u, v, length_km=km, speed_kmh=kmh, travel_s=s)
    return graph


def _arrays(
    graph: nx.DiGraph[Any],
) -> tuple[FloatArray, FloatArray, IntArray, IntArray, FloatArray, FloatArray]:
    """Return x_km, y_km of the nodes and start, end, length_km, speed_kmh of the edges, checked."""
    number = {node: i for i, node in enumerate(graph)}
    start = np.array([number[u] for u, _ in graph.edges], dtype=np.int64)
    end = np.array([number[v] for _, v in graph.edges], dtype=np.int64)
    x_km = _attribute(graph.nodes, "x_km", -np.inf, "finite")
    y_km = _attribute(graph.nodes, "y_km", -np.inf, "finite")
    length_km = _attribute(graph.edges, "length_km", 0.0, "in [0, inf)")
    speed_kmh = _attribute(graph.edges, "speed_kmh", np.nextafter(0.0, 1.0), "in (0, inf)")
    return x_km, y_km, start, end, length_km, speed_kmh


def _attribute(items: Mapping[Any, dict[str, Any]], name: str, least: float, rule: str) -> FloatArray:
    values = np.array([data.get(name, np.nan) for data in items.values()], dtype=np.float64)
    bad = ~(np.isfinite(values) & (values >= least))
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(f"{name} must be {rule}, got {values[first]} at {list(items)[first]!r}")
    return values


def _largest_component(inside: BoolArray, start: IntArray, end: IntArray) -> BoolArray:
    """Return which nodes are in the largest strongly connected part of what is inside."""
    if not inside.any():
        return inside
    on = inside[start] & inside[end]
    links = csr_array((np.ones(on.sum()), (start[on], end[on])), shape=(len(inside), len(inside)))
    component = connected_components(links, directed=True, connection="strong")[1]
    largest = np.argmax(np.bincount(component[inside]))
    return np.asarray(inside & (component == largest))


def _check_size(grid: Grid, spacing_km: float) -> None:
    """Refuse a lattice of one crossing, where nobody can go anywhere, and one that fills the memory."""
    crossings = _lines(grid.width_km, spacing_km) * _lines(grid.height_km, spacing_km)
    if not 2 <= crossings <= MOST_CROSSINGS:
        place = f"a grid of {grid.width_km:g} x {grid.height_km:g} km"
        rule = f"spacing_km must leave 2 to {MOST_CROSSINGS:,} crossings on {place}"
        raise ValueError(f"{rule}, got {spacing_km:g}, which leaves {crossings:,}")


def _lines(length_km: float, spacing_km: float) -> int:
    return max(1, math.floor(length_km / spacing_km + 1e-9))


def _ticks(length_km: float, spacing_km: float) -> FloatArray:
    """Return places `spacing_km` apart with equal margins at both ends, of half a spacing to one."""
    count = _lines(length_km, spacing_km)
    margin_km = (length_km - (count - 1) * spacing_km) / 2.0
    return margin_km + np.arange(count, dtype=np.float64) * spacing_km


def _directions(avenue: Sequence[bool], one_way_share: float, rng: Generator) -> list[int]:
    """Return 0 for a two-way line, 1 or -1 by turns for a one-way line."""
    streets = [i for i, fast in enumerate(avenue) if not fast]
    one_way = sorted(rng.permutation(streets)[: round(one_way_share * len(streets))].tolist())
    first = 1 - 2 * int(rng.integers(2))
    directions = [0] * len(avenue)
    for turn, i in enumerate(one_way):
        directions[int(i)] = first * (-1) ** turn
    return directions


def _places(grid: Grid, lat_lon: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    degrees = np.array(list(lat_lon.values()), dtype=np.float64).reshape(-1, 2)
    x_km, y_km = grid.to_km(degrees[:, 0], degrees[:, 1])
    return dict(zip(lat_lon, zip(x_km.tolist(), y_km.tolist(), strict=True), strict=True))


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _csv_rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield ("file, line n", row) with the text of every column; "" for what a short row lacks."""
    try:
        with _open(path) as file:
            reader = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), restval="")
            found = reader.fieldnames or []
            missing = [name for name in needed if name not in found]
            if missing:
                raise ValueError(
                    f"{path}: columns {', '.join(missing)} are missing, found {', '.join(found) or 'none'}"
                )
            for row in reader:
                yield f"{path}, line {reader.line_num}", row
    except (*UNREADABLE, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: this is not a readable CSV file: {error}") from error


def _number(row: dict[str, Any], name: str, where: str, low: float, high: float) -> float:
    try:
        value = float(row.get(name, ""))
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise ValueError(f"{where}: {name} must be a number in [{low:g}, {high:g}], got {row.get(name)!r}")
    return value


def _speed_kmh(maxspeed: str) -> float:
    """Return the mean of the speeds in OpenStreetMap's free text, such as "50" or "['25 mph', '35 mph']".

    >>> [round(_speed_kmh(text), 1) for text in ("50", "25 mph", "['25 mph', '35 mph']", "signals")]
    [50.0, 40.2, 48.3, 40.2]
    """
    found = re.findall(r"(\d+(?:\.\d+)?)\s*(mph)?", maxspeed)
    speeds = [float(number) * (KM_PER_MILE if unit else 1.0) for number, unit in found]
    speeds = [speed for speed in speeds if 0.0 < speed < 500.0]
    return sum(speeds) / len(speeds) if speeds else DEFAULT_SPEED_MPH * KM_PER_MILE


def _refuse_doctype(*_: object) -> NoReturn:
    # Entities can only be declared in a DOCTYPE, and nested ones fill any memory. osmnx never writes one.
    raise ValueError("a DOCTYPE is not allowed")


def _graphml(path: Path) -> nx.MultiDiGraph[str]:
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        with _open(path) as file:
            parser.ParseFile(file)
        with _open(path) as file:
            graph = nx.read_graphml(file, force_multigraph=True)
    except (*UNREADABLE, expat.ExpatError, nx.NetworkXError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: this is not a readable GraphML file: {error}") from error
    if not isinstance(graph, nx.MultiDiGraph):
        raise ValueError(f"{path}: the graph must be directed, found an undirected one")
    return graph
