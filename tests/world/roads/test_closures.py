"""Road closures and reversals that keep the network strongly connected."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from sim.errors import InvalidValue
from sim.world.roads.closures import close, reverse
from sim.world.roads.graph import Roads
from tests.support import raises_code
from tests.world.roads.towns import graph_of, square, town


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_closures_keep_every_node_reachable(seed: int, share: float) -> None:
    roads = town(seed, spacing_km=0.25)
    closed = close(roads, square(), share=share, rng=np.random.default_rng(seed))
    assert nx.is_strongly_connected(closed.graph)
    assert closed.n_nodes == roads.n_nodes
    assert closed.cell.tolist() == roads.cell.tolist()
    assert closed.x_km.tolist() == roads.x_km.tolist()
    n_closed = roads.graph.number_of_edges() - closed.graph.number_of_edges()
    n_drawn = round(share * roads.graph.number_of_edges())
    assert set(closed.graph.edges) < set(roads.graph.edges)
    assert n_drawn * (0.8 if share < 0.1 else 0.4) < n_closed <= n_drawn
    for u, v, data in closed.graph.edges(data=True):
        assert data == roads.graph.edges[u, v]


def test_only_roads_needed_for_connectivity_stay_open() -> None:
    # A ring with a two-way spur: one direction of the ring and both directions of the spur must stay open.
    places = {0: (0.5, 0.5), 1: (1.5, 0.5), 2: (1.5, 1.5), 3: (0.5, 1.5), 4: (2.5, 0.5)}
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 4), (4, 1)]
    edges += [(v, u) for u, v in edges[:4]]
    roads = Roads(graph=graph_of(places, edges), locations=square())
    for seed in range(10):
        closed = close(roads, square(), share=1.0, rng=np.random.default_rng(seed))
        assert {(1, 4), (4, 1)} < set(closed.graph.edges)
        assert nx.is_strongly_connected(closed.graph)
        assert closed.graph.number_of_edges() <= 8


def test_the_roads_of_cells_are_closed() -> None:
    roads = town(1, spacing_km=0.25, missing_share=0.0)
    closed = close(roads, square(), cells=[9, 10], rng=np.random.default_rng(0))
    inside = {node for node in range(roads.n_nodes) if roads.cell[node] in (9, 10)}
    removed = set(roads.graph.edges) - set(closed.graph.edges)
    assert removed
    assert all(u in inside or v in inside for u, v in removed)
    touching = [edge for edge in roads.graph.edges if inside & set(edge)]
    assert len(removed) > len(touching) / 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_one_way_roads_are_reversed(seed: int, share: float) -> None:
    roads = town(seed, spacing_km=0.25, one_way_share=0.6)
    reversed_roads = reverse(roads, square(), share=share, rng=np.random.default_rng(seed))
    assert nx.is_strongly_connected(reversed_roads.graph)
    assert reversed_roads.n_nodes == roads.n_nodes
    before, after = set(roads.graph.edges), set(reversed_roads.graph.edges)
    one_way = {(u, v) for u, v in before if not roads.graph.has_edge(v, u)}
    assert {(v, u) for u, v in before - after} == after - before
    assert before - after <= one_way
    assert 1 <= len(before - after) <= round(share * len(one_way))


def test_impossible_changes_are_rejected() -> None:
    two_way = town(1, one_way_share=0.0)
    with raises_code(InvalidValue, "no-road-to-change") as error:
        reverse(two_way, square(), share=0.5, rng=np.random.default_rng(0))
    assert "reverse any of the 0 one-way roads" in str(error.value)
    ring = Roads(
        graph=graph_of({0: (0.5, 0.5), 1: (1.5, 0.5), 2: (1.5, 1.5)}, [(0, 1), (1, 2), (2, 0)]), locations=square()
    )
    with raises_code(InvalidValue, "no-road-to-change") as error:
        close(ring, square(), share=1.0, rng=np.random.default_rng(0))
    assert "close any of the 3 roads" in str(error.value)
    assert set(reverse(ring, square(), share=1.0, rng=np.random.default_rng(0)).graph.edges) == {(1, 0), (2, 1), (0, 2)}
