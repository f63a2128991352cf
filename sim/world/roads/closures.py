"""Changes of a road graph that leave every node reachable: closed roads and reversed one-way roads."""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from sim.interfaces import BoolArray, Generator, IntArray
from sim.world.grid import Grid
from sim.world.roads.graph import Roads


def close(
    roads: Roads, grid: Grid, *, share: float | None = None, cells: ArrayLike | None = None, rng: Generator
) -> Roads:
    """Return the roads without a share of their edges, drawn at random, or without all that touch some cells.

    Edges that are needed to keep all nodes connected stay open. The nodes are the same, with the same numbers.
    """
    start, end = _ends(roads)
    if cells is None:
        closed = _drawn(np.arange(len(start)), share or 0.0, rng)
    else:
        wanted = np.isin(roads.cell, np.asarray(cells))
        closed = np.flatnonzero(wanted[start] | wanted[end])
    return _changed(roads, grid, closed, reverse=False)


def reverse(roads: Roads, grid: Grid, *, share: float, rng: Generator) -> Roads:
    """Return the roads with a share of their one-way edges, drawn at random, reversed.

    Edges whose reversal would disconnect nodes stay as they are. The nodes are the same, with the same numbers.
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
    """Return the roads with these edges removed or reversed, except those that keep the nodes connected."""
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
    """Return changed edges to restore; none if the graph is still strongly connected.

    Each part of the town that can no longer be entered gets back one edge into it, the first in `edges`; if all can be
    entered, each part that can no longer be left gets back one edge out of it. Such an edge exists, as the graph was
    strongly connected before.
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
