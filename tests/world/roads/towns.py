"""Small road networks for tests."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from sim.world.grid import Grid
from sim.world.roads.graph import Roads
from sim.world.roads.lattice import lattice

MILE_KM = 1.609344


def square(rows: int = 5, cols: int = 4) -> Grid:
    return Grid.rectangle(rows=rows, cols=cols, width_km=float(cols), height_km=float(rows))


def degrees() -> Grid:
    return Grid.region(rows=2, cols=2, south=0.0, north=1.0, west=10.0, east=11.0)


def graph_of(places: dict[Any, tuple[float, float]], edges: list[tuple[Any, Any]]) -> nx.DiGraph[Any]:
    graph: nx.DiGraph[Any] = nx.DiGraph()
    for node, (x_km, y_km) in places.items():
        graph.add_node(node, x_km=x_km, y_km=y_km)
    graph.add_edges_from(edges, length_km=1.0, speed_kmh=30.0)
    return graph


def town(seed: int, **options: Any) -> Roads:
    return lattice(square(), rng=np.random.default_rng(seed), **options)
