"""Road graph: strongly connected nodes inside the grid, shortest and fastest paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from sim.errors import InvalidValue
from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.world.locations import Locations

CACHED_NODES = 4_000_000
"""Limit of the cache of fastest paths, in nodes times sources: about 50 MB for any size of the graph."""

Predecessors = NDArray[np.int32]
Edge = tuple[Any, Any, float, float]
"""From, to, length_km, speed_kmh."""


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """Fastest path from one node to another."""

    nodes: IntArray
    """Nodes of the path in order, including both ends."""
    arrival_s: FloatArray
    """Time of arrival at each node in s since departure; 0.0 at the first node."""


class Roads:
    """A road graph in which every node can be reached from every other node.

    `graph` must have the attributes `x_km` and `y_km` on nodes, and `length_km` in [0, inf) and `speed_kmh` in (0, inf)
    on edges. Nodes outside the grid are dropped, then all nodes outside the largest strongly connected component, so
    that no trip ends in a dead end. The remaining nodes are numbered 0..N-1 in the order of `graph`, and each edge gets
    the attribute `travel_s`.
    """

    graph: nx.DiGraph[int]
    """Remaining nodes and edges."""
    x_km: FloatArray
    """Positions of the nodes in km east of the south-west corner of the grid, shape (N,)."""
    y_km: FloatArray
    """Positions of the nodes in km north of the south-west corner of the grid, shape (N,)."""
    cell: IntArray
    """Cells of the nodes, shape (N,)."""
    dropped: dict[str, int]
    """Numbers of dropped elements: `nodes_outside` the grid, `nodes_unconnected`, the `edges` of those nodes, and
    `edges_redundant`, which are part of no shortest path (loops and the longer of parallel edges)."""

    def __init__(self, *, graph: nx.DiGraph[Any], locations: Locations, redundant_edges: int = 0) -> None:
        x_km, y_km, start, end, length_km, speed_kmh = _arrays(graph)
        cell = locations.cell_of_km(x_km, y_km)
        keep = _largest_component(cell >= 0, start, end)
        if keep.sum() < 2:
            raise InvalidValue(
                f"roads must have two nodes inside the region that are connected in both directions, found none: "
                f"{(cell >= 0).sum()} of {len(cell)} nodes are inside the region",
                code="roads-not-connected",
            )
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
        """Return the fastest path between two nodes along the directed edges."""
        self._check_nodes([start, end])
        arrival_s, previous = self._fastest_from(int(start))
        path = [int(end)]
        while path[-1] != start:
            path.append(previous.item(path[-1]))
        nodes = np.array(path[::-1], dtype=np.int64)
        return Route(nodes, arrival_s[nodes])

    def distances_km(self, sources: ArrayLike) -> FloatArray:
        """Return the lengths in km of the shortest paths from each source to every node, shape (len(sources), N)."""
        nodes = np.atleast_1d(np.asarray(sources, dtype=np.int64))
        self._check_nodes(nodes)
        return np.asarray(dijkstra(self._length_km, indices=nodes), dtype=np.float64)

    def distances_to_km(self, target: int) -> FloatArray:
        """Return the lengths in km of the shortest paths from every node to one node, shape (N,)."""
        self._check_nodes([target])
        return np.asarray(dijkstra(self._length_km.T, indices=[target])[0], dtype=np.float64)

    def nearest_node(self, x_km: ArrayLike, y_km: ArrayLike) -> IntArray:
        """Return the node nearest to each position by Euclidean distance."""
        positions = np.stack(np.broadcast_arrays(x_km, y_km), axis=-1)
        return np.asarray(self._nearest.query(positions)[1], dtype=np.int64)

    def cells(self) -> IntArray:
        """Return the cells that contain a node, sorted and without repetition."""
        return np.unique(self.cell)

    def share_of_cells(self, n_cells: int) -> FloatArray:
        """Return the share of the nodes in each cell, shape (n_cells,)."""
        return np.bincount(self.cell, minlength=n_cells) / self.n_nodes

    def describe(self) -> dict[str, Any]:
        """Return the manifest entry: counts, and the nodes and edges for drawing a map."""
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
        return self.__dict__ | {"_trees": {}}  # workers need the roads, not the cache

    def _check_nodes(self, nodes: Sequence[int] | IntArray) -> None:
        for node in nodes:
            if not 0 <= node < self.n_nodes:
                raise ValueError(f"node must be in [0, {self.n_nodes - 1}], got {node}")

    def _fastest_from(self, source: int) -> tuple[FloatArray, Predecessors]:
        """Return the arrival times at all nodes and the predecessor of each; cache the most recently used sources."""
        tree = self._trees.pop(source, None)
        if tree is None:
            arrival_s, previous = dijkstra(self._travel_s, indices=[source], return_predecessors=True)
            tree = (arrival_s[0], previous[0])
            if len(self._trees) >= max(1, CACHED_NODES // self.n_nodes):
                del self._trees[next(iter(self._trees))]
        self._trees[source] = tree  # a dict preserves insertion order: the last entry is the most recently used
        return tree


def build_roads(locations: Locations, places: dict[Any, tuple[float, float]], edges: Iterable[Edge]) -> Roads:
    """Build roads from positions (x_km, y_km) of nodes and edges; of parallel edges, only the shortest is used."""
    graph: nx.DiGraph[Any] = nx.DiGraph()
    for node, (x_km, y_km) in places.items():
        graph.add_node(node, x_km=x_km, y_km=y_km)
    redundant = 0
    for u, v, length_km, speed_kmh in edges:
        parallel = graph.get_edge_data(u, v)
        redundant += parallel is not None
        if parallel is None or length_km < parallel["length_km"]:
            graph.add_edge(u, v, length_km=length_km, speed_kmh=speed_kmh)
    return Roads(graph=graph, locations=locations, redundant_edges=redundant)


def _numbered(x_km: FloatArray, y_km: FloatArray, *columns: FloatArray | IntArray) -> nx.DiGraph[int]:
    """Return the graph with these nodes and with edges given by start, end, length_km, speed_kmh and travel_s."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for node, (x, y) in enumerate(zip(x_km.tolist(), y_km.tolist(), strict=True)):
        graph.add_node(node, x_km=x, y_km=y)
    for u, v, km, kmh, s in zip(*(column.tolist() for column in columns), strict=True):
        graph.add_edge(u, v, length_km=km, speed_kmh=kmh, travel_s=s)
    return graph


def _arrays(
    graph: nx.DiGraph[Any],
) -> tuple[FloatArray, FloatArray, IntArray, IntArray, FloatArray, FloatArray]:
    """Check and return x_km, y_km of the nodes and start, end, length_km, speed_kmh of the edges."""
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
    """Return a mask of the largest strongly connected component of the nodes inside the grid."""
    if not inside.any():
        return inside
    on = inside[start] & inside[end]
    links = csr_array((np.ones(on.sum()), (start[on], end[on])), shape=(len(inside), len(inside)))
    component = connected_components(links, directed=True, connection="strong")[1]
    largest = np.argmax(np.bincount(component[inside]))
    return np.asarray(inside & (component == largest))
