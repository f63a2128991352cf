"""Changes of a road graph that keep it strongly connected: closed roads and reversed one-way roads."""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from sim.errors import InvalidValue
from sim.interfaces import BoolArray, Generator, IntArray
from sim.world.locations import Locations
from sim.world.roads.graph import Roads


def close(
    roads: Roads, locations: Locations, *, share: float | None = None, cells: ArrayLike | None = None, rng: Generator
) -> Roads:
    """Return the roads without a random share of their edges, or without all edges that start or end in some cells.

    Edges that are needed to keep all nodes connected stay open. Nodes and their numbers do not change.
    """
    start, end = _ends(roads)
    if cells is None:
        closed = _drawn(np.arange(len(start)), share or 0.0, rng)
    else:
        in_cells = np.isin(roads.cell, np.asarray(cells))
        closed = np.flatnonzero(in_cells[start] | in_cells[end])
    return _changed(roads, locations, closed, reverse=False)


def reverse(roads: Roads, locations: Locations, *, share: float, rng: Generator) -> Roads:
    """Return the roads with a random share of their one-way edges reversed.

    Edges whose reversal would disconnect nodes are not reversed. Nodes and their numbers do not change.
    """
    one_way = [i for i, (u, v) in enumerate(roads.graph.edges) if not roads.graph.has_edge(v, u)]
    return _changed(roads, locations, _drawn(np.array(one_way, dtype=np.int64), share, rng), reverse=True)


def _ends(roads: Roads) -> tuple[IntArray, IntArray]:
    """Return the start node and the end node of each edge, in the order of the graph."""
    edges = np.array(roads.graph.edges, dtype=np.int64).reshape(-1, 2)
    return edges[:, 0], edges[:, 1]


def _drawn(edges: IntArray, share: float, rng: Generator) -> IntArray:
    """Draw a share of some edges, at least one."""
    return rng.permutation(edges)[: max(1, round(share * edges.size))]


def _changed(roads: Roads, locations: Locations, edges: IntArray, *, reverse: bool) -> Roads:
    """Return the roads with these edges removed or reversed, except those that keep the nodes connected."""
    start, end = _ends(roads)
    changed = np.zeros(len(start), dtype=bool)
    changed[edges] = True
    while (staying := _needed(roads.n_nodes, start, end, changed, edges, reverse=reverse)).size:
        changed[staying] = False
    if not changed.any():
        selection = (
            f"reverse any of the {edges.size} one-way roads" if reverse else f"close any of the {edges.size} roads"
        )
        reason = "would make parts of the network unreachable" if edges.size else "none is selected"
        raise InvalidValue(f"cannot {selection}: {reason}; select more or other roads", code="no-road-to-change")
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(roads.graph.nodes(data=True))
    for (u, v, data), is_changed in zip(roads.graph.edges(data=True), changed.tolist(), strict=True):
        if reverse and is_changed:
            graph.add_edge(v, u, **data)
        elif not is_changed:
            graph.add_edge(u, v, **data)
    return Roads(graph=graph, locations=locations)


def _needed(
    n_nodes: int, start: IntArray, end: IntArray, changed: BoolArray, edges: IntArray, *, reverse: bool
) -> IntArray:
    """Return changed edges to restore; none if the graph is still strongly connected.

    For each component that can no longer be entered, one edge into it is restored, the first in `edges`. If all
    components can be entered, one edge out of each component that can no longer be left is restored. Such an edge
    exists because the original graph is strongly connected.
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
