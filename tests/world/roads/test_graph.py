"""Road graph compared with networkx: connected component, routes, distances, nearest nodes."""

from __future__ import annotations

import json
import math
import pickle
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest

from sim.errors import InvalidValue
from sim.world.roads import graph as graph_module
from sim.world.roads.graph import Roads
from tests.support import raises_code
from tests.world.roads.towns import graph_of, square, town


def test_only_the_largest_connected_component_inside_the_grid_is_used() -> None:
    places = {"out": (9.0, 0.5), "a": (0.5, 0.5), "b": (1.5, 0.5), "c": (1.5, 2.5), "dead end": (0.5, 3.5)}
    ring = [("a", "b"), ("b", "c"), ("c", "a")]
    edges = [*ring, ("c", "dead end"), ("a", "out"), ("out", "b"), ("b", "b")]
    roads = Roads(graph=graph_of(places, edges), locations=square())
    assert list(roads.graph.nodes) == [0, 1, 2]
    assert list(roads.graph.edges) == [(0, 1), (1, 2), (2, 0)]
    assert roads.dropped == {"nodes_outside": 1, "nodes_unconnected": 1, "edges": 3, "edges_redundant": 1}
    assert roads.x_km.tolist() == [0.5, 1.5, 1.5]
    assert roads.cell.tolist() == [0, 1, 9]
    assert roads.cells().tolist() == [0, 1, 9]
    assert roads.graph.edges[0, 1] == {"length_km": 1.0, "speed_kmh": 30.0, "travel_s": 120.0}


def test_a_path_through_the_outside_of_the_grid_does_not_connect() -> None:
    places = {"a": (0.5, 0.5), "b": (1.5, 0.5), "out": (0.5, -3.0), "c": (2.5, 0.5), "d": (2.5, 1.5)}
    edges = [("a", "b"), ("b", "out"), ("out", "a"), ("c", "d"), ("d", "c")]
    roads = Roads(graph=graph_of(places, edges), locations=square())
    assert roads.x_km.tolist() == [2.5, 2.5]


@pytest.mark.parametrize(
    ("places", "edges", "counts"),
    [
        ({}, [], "0 of 0"),
        ({"a": (9.0, 9.0), "b": (8.0, 8.0)}, [("a", "b"), ("b", "a")], "0 of 2"),
        ({"a": (0.5, 0.5), "b": (1.5, 0.5)}, [("a", "b")], "2 of 2"),
    ],
)
def test_graphs_without_connected_nodes_are_rejected(
    places: dict[Any, tuple[float, float]], edges: list[tuple[Any, Any]], counts: str
) -> None:
    with raises_code(InvalidValue, "roads-not-connected") as error:
        Roads(graph=graph_of(places, edges), locations=square())
    assert counts in str(error.value)


def test_nodes_without_a_position_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"^x_km\b.* nan at 'a'"):
        Roads(graph=graph_of({"a": (math.nan, 0.5)}, []), locations=square())


@pytest.mark.parametrize(
    ("name", "value"),
    [("length_km", -1.0), ("speed_kmh", 0.0), ("speed_kmh", math.inf)],
)
def test_invalid_edges_are_rejected(name: str, value: float) -> None:
    graph = graph_of({"a": (0.5, 0.5), "b": (1.5, 0.5)}, [("a", "b"), ("b", "a")])
    graph.edges["b", "a"][name] = value
    with pytest.raises(ValueError, match=rf"^{name}\b.*, got {value} at \('b', 'a'\)"):
        Roads(graph=graph, locations=square())


@pytest.mark.parametrize("seed", range(6))
def test_routes_are_the_fastest_paths_along_edges(seed: int) -> None:
    roads = town(seed, one_way_share=0.8, missing_share=0.15)
    assert any(not roads.graph.has_edge(v, u) for u, v in roads.graph.edges)
    rng = np.random.default_rng(seed)
    for start, end in rng.integers(roads.n_nodes, size=(60, 2)).tolist():
        route = roads.route(start, end)
        steps = [roads.graph.edges[step]["travel_s"] for step in pairwise(route.nodes.tolist())]
        assert (route.nodes[0], route.nodes[-1]) == (start, end)
        np.testing.assert_allclose(route.arrival_s, np.cumsum([0.0, *steps]))
        best = nx.shortest_path_length(roads.graph, start, end, weight="travel_s")
        assert route.arrival_s[-1] == pytest.approx(best)


def test_a_route_from_a_node_to_itself_has_one_node() -> None:
    route = town(0).route(7, 7)
    assert (route.nodes.tolist(), route.arrival_s.tolist()) == ([7], [0.0])


def test_lengths_of_shortest_paths_agree_with_networkx() -> None:
    roads = town(3, one_way_share=1.0)
    distances_km = roads.distances_km([5, 0, 5])
    for row, source in zip(distances_km, (5, 0, 5), strict=True):
        best = nx.single_source_dijkstra_path_length(roads.graph, source, weight="length_km")
        np.testing.assert_allclose(row, [best[node] for node in range(roads.n_nodes)])


def test_edges_of_zero_length_are_allowed() -> None:
    places = {"a": (0.5, 0.5), "b": (1.5, 0.5), "c": (2.5, 0.5)}
    graph = graph_of(places, [("a", "b"), ("b", "c"), ("c", "a")])
    graph.edges["a", "b"]["length_km"] = 0.0
    roads = Roads(graph=graph, locations=square())
    assert roads.route(0, 1).arrival_s.tolist() == [0.0, 0.0]
    assert roads.distances_km([0]).tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize("node", [-1, 10_000])
def test_unknown_nodes_are_rejected(node: int) -> None:
    roads = town(0)
    message = rf"^node\b.* \[0, {roads.n_nodes - 1}\], got {node}$"
    for query in (
        lambda: roads.route(0, node),
        lambda: roads.route(node, 0),
        lambda: roads.distances_km([0, node]),
    ):
        with pytest.raises(ValueError, match=message):
            query()


def test_the_cache_of_routes_is_bounded_and_does_not_change_results(monkeypatch: pytest.MonkeyPatch) -> None:
    roads, fresh = town(2), town(2)
    monkeypatch.setattr(graph_module, "CACHED_NODES", 3 * roads.n_nodes)
    for start in (0, 1, 2, 0, 3, 4, 0, 1):
        np.testing.assert_array_equal(roads.route(start, 20).nodes, fresh.route(start, 20).nodes)
        assert len(roads._trees) <= 3
    assert list(roads._trees) == [4, 0, 1]
    restored = pickle.loads(pickle.dumps(roads))
    assert restored._trees == {}
    np.testing.assert_array_equal(restored.route(0, 20).nodes, roads.route(0, 20).nodes)


def test_nearest_nodes_agree_with_brute_force() -> None:
    roads = town(1)
    rng = np.random.default_rng(0)
    x_km, y_km = rng.uniform(-1.0, 6.0, size=(2, 10, 5))
    nearest = roads.nearest_node(x_km, y_km)
    away = np.hypot(x_km[..., None] - roads.x_km, y_km[..., None] - roads.y_km)
    np.testing.assert_array_equal(nearest, away.argmin(axis=-1))
    assert int(roads.nearest_node(roads.x_km[4], roads.y_km[4])) == 4


def test_the_description_is_json_with_counts_and_a_map() -> None:
    roads = town(4)
    description = json.loads(json.dumps(roads.describe()))
    assert (description["nodes"], description["edges"]) == (roads.n_nodes, roads.graph.number_of_edges())
    assert description["dropped"] == roads.dropped
    np.testing.assert_allclose(np.array(description["x_m"]) / 1000.0, roads.x_km, atol=0.0005)
    np.testing.assert_allclose(np.array(description["y_m"]) / 1000.0, roads.y_km, atol=0.0005)
    assert set(zip(description["edge_from"], description["edge_to"], strict=True)) == set(roads.graph.edges)
