from __future__ import annotations

import gzip
import json
import math
import os
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from sim.world import Grid, Roads, lattice, read_csv, read_graphml
from sim.world import roads as roads_module
from sim.world.roads import close, reverse

DATA = Path(os.environ.get("LPPM_SIM_DATA", Path(__file__).parents[3] / "shared" / "data"))
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


def test_only_the_largest_connected_part_inside_the_grid_is_kept() -> None:
    places = {"out": (9.0, 0.5), "a": (0.5, 0.5), "b": (1.5, 0.5), "c": (1.5, 2.5), "dead end": (0.5, 3.5)}
    ring = [("a", "b"), ("b", "c"), ("c", "a")]
    edges = [*ring, ("c", "dead end"), ("a", "out"), ("out", "b"), ("b", "b")]
    roads = Roads(graph=graph_of(places, edges), grid=square())
    assert list(roads.graph.nodes) == [0, 1, 2]
    assert list(roads.graph.edges) == [(0, 1), (1, 2), (2, 0)]
    assert roads.dropped == {"nodes_outside": 1, "nodes_unconnected": 1, "edges": 3, "edges_redundant": 1}
    assert roads.x_km.tolist() == [0.5, 1.5, 1.5]
    assert roads.cell.tolist() == [0, 1, 9]
    assert roads.cells().tolist() == [0, 1, 9]
    assert roads.graph.edges[0, 1] == {"length_km": 1.0, "speed_kmh": 30.0, "travel_s": 120.0}


def test_a_way_out_of_the_grid_and_back_does_not_connect() -> None:
    places = {"a": (0.5, 0.5), "b": (1.5, 0.5), "out": (0.5, -3.0), "c": (2.5, 0.5), "d": (2.5, 1.5)}
    edges = [("a", "b"), ("b", "out"), ("out", "a"), ("c", "d"), ("d", "c")]
    roads = Roads(graph=graph_of(places, edges), grid=square())
    assert roads.x_km.tolist() == [2.5, 2.5]


@pytest.mark.parametrize(
    ("places", "edges", "message"),
    [
        ({}, [], "0 of 0 road nodes"),
        ({"a": (9.0, 9.0), "b": (8.0, 8.0)}, [("a", "b"), ("b", "a")], "0 of 2 road nodes are inside"),
        ({"a": (0.5, 0.5), "b": (1.5, 0.5)}, [("a", "b")], "2 of 2 .* no two of them are connected"),
        ({"a": (math.nan, 0.5)}, [], "x_km must be finite, got nan at 'a'"),
    ],
)
def test_graphs_that_are_no_roads_are_refused(
    places: dict[Any, tuple[float, float]], edges: list[tuple[Any, Any]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Roads(graph=graph_of(places, edges), grid=square())


@pytest.mark.parametrize(
    ("name", "value"),
    [("length_km", -1.0), ("speed_kmh", 0.0), ("speed_kmh", math.inf)],
)
def test_bad_edges_are_refused(name: str, value: float) -> None:
    graph = graph_of({"a": (0.5, 0.5), "b": (1.5, 0.5)}, [("a", "b"), ("b", "a")])
    graph.edges["b", "a"][name] = value
    with pytest.raises(ValueError, match=rf"{name} must be in .*, got {value} at \('b', 'a'\)"):
        Roads(graph=graph, grid=square())


@pytest.mark.parametrize("seed", range(6))
def test_routes_are_the_fastest_and_never_leave_the_streets(seed: int) -> None:
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


def test_a_route_to_where_one_is_has_one_node() -> None:
    route = town(0).route(7, 7)
    assert (route.nodes.tolist(), route.arrival_s.tolist()) == ([7], [0.0])


def test_lengths_of_shortest_ways_agree_with_networkx() -> None:
    roads = town(3, one_way_share=1.0)
    found = roads.distances_km([5, 0, 5])
    for row, source in zip(found, (5, 0, 5), strict=True):
        best = nx.single_source_dijkstra_path_length(roads.graph, source, weight="length_km")
        np.testing.assert_allclose(row, [best[node] for node in range(roads.n_nodes)])


def test_edges_of_no_length_are_streets_too() -> None:
    places = {"a": (0.5, 0.5), "b": (1.5, 0.5), "c": (2.5, 0.5)}
    graph = graph_of(places, [("a", "b"), ("b", "c"), ("c", "a")])
    graph.edges["a", "b"]["length_km"] = 0.0
    roads = Roads(graph=graph, grid=square())
    assert roads.route(0, 1).arrival_s.tolist() == [0.0, 0.0]
    assert roads.distances_km([0]).tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize("node", [-1, 10_000])
def test_unknown_nodes_are_refused(node: int) -> None:
    roads = town(0)
    message = rf"a road node must be in \[0, {roads.n_nodes - 1}\], got {node}"
    for ask in (
        lambda: roads.route(0, node),
        lambda: roads.route(node, 0),
        lambda: roads.distances_km([0, node]),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_the_cache_of_routes_is_bounded_and_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    roads, fresh = town(2), town(2)
    monkeypatch.setattr(roads_module, "CACHED_NODES", 3 * roads.n_nodes)
    for start in (0, 1, 2, 0, 3, 4, 0, 1):
        np.testing.assert_array_equal(roads.route(start, 20).nodes, fresh.route(start, 20).nodes)
        assert len(roads._trees) <= 3
    assert list(roads._trees) == [4, 0, 1]
    again = pickle.loads(pickle.dumps(roads))
    assert again._trees == {}
    np.testing.assert_array_equal(again.route(0, 20).nodes, roads.route(0, 20).nodes)


def test_nearest_nodes_by_brute_force() -> None:
    roads = town(1)
    rng = np.random.default_rng(0)
    x_km, y_km = rng.uniform(-1.0, 6.0, size=(2, 10, 5))
    found = roads.nearest_node(x_km, y_km)
    away = np.hypot(x_km[..., None] - roads.x_km, y_km[..., None] - roads.y_km)
    np.testing.assert_array_equal(found, away.argmin(axis=-1))
    assert int(roads.nearest_node(roads.x_km[4], roads.y_km[4])) == 4


def test_description_is_json_with_a_map() -> None:
    roads = town(4)
    told = json.loads(json.dumps(roads.describe()))
    assert (told["nodes"], told["edges"]) == (roads.n_nodes, roads.graph.number_of_edges())
    assert told["dropped"] == roads.dropped
    np.testing.assert_allclose(np.array(told["x_m"]) / 1000.0, roads.x_km, atol=0.0005)
    np.testing.assert_allclose(np.array(told["y_m"]) / 1000.0, roads.y_km, atol=0.0005)
    assert set(zip(told["edge_from"], told["edge_to"], strict=True)) == set(roads.graph.edges)


@pytest.mark.parametrize("seed", range(4))
def test_a_lattice_is_connected_with_every_node_on_the_grid(seed: int) -> None:
    roads = town(seed, missing_share=0.3)
    assert nx.is_strongly_connected(roads.graph)
    np.testing.assert_array_equal(roads.cell, square().cell_of_km(roads.x_km, roads.y_km))
    assert roads.cell.min() >= 0
    assert roads.n_nodes + roads.dropped["nodes_unconnected"] == 80


def test_a_full_lattice_is_in_the_middle_and_two_way() -> None:
    roads = town(0, one_way_share=0.0, missing_share=0.0)
    assert (roads.n_nodes, roads.graph.number_of_edges()) == (80, 2 * (10 * 7 + 8 * 9))
    assert sorted(set(roads.x_km.tolist())) == pytest.approx(np.arange(0.25, 4.0, 0.5))
    assert sorted(set(roads.y_km.tolist())) == pytest.approx(np.arange(0.25, 5.0, 0.5))
    assert all(roads.graph.has_edge(v, u) for u, v in roads.graph.edges)


def test_streets_are_one_way_whole_and_by_turns_and_avenues_are_fast_and_two_way() -> None:
    grid = Grid.rectangle(rows=4, cols=4, width_km=12.0, height_km=12.0)
    roads = lattice(grid, spacing_km=0.5, missing_share=0.0, one_way_share=0.5, rng=np.random.default_rng(5))
    signs: dict[tuple[str, int], set[int]] = {}
    for u, v, data in roads.graph.edges(data=True):
        dx, dy = roads.x_km[v] - roads.x_km[u], roads.y_km[v] - roads.y_km[u]
        across = roads.y_km[u] if abs(dx) > abs(dy) else roads.x_km[u]
        line = ("row" if abs(dx) > abs(dy) else "col", round((across - 0.25) / 0.5))
        assert data["speed_kmh"] == (50.0 if line[1] % 4 == 0 else 30.0)
        assert data["length_km"] == pytest.approx(math.hypot(dx, dy))
        signs.setdefault(line, set()).add(int(np.sign(dx + dy)))
    assert all(signs[way, i] == {1, -1} for way in ("row", "col") for i in range(0, 24, 4))
    for way in ("row", "col"):
        turns = [next(iter(signs[way, i])) for i in range(24) if len(signs[way, i]) == 1]
        assert len(turns) == 9  # half of 18 streets
        assert all(a == -b for a, b in pairwise(turns))


def test_a_share_of_blocks_is_missing() -> None:
    roads = town(0, one_way_share=0.0, missing_share=0.25)
    kept = roads.graph.number_of_edges() + roads.dropped["edges"]
    assert kept == 2 * (142 - round(0.25 * 142))


def test_the_same_stream_makes_the_same_town() -> None:
    assert town(7).describe() == town(7).describe()
    assert town(7).describe() != town(8).describe()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"one_way_share": 1.5}, r"one_way_share must be in \[0, 1\], got 1.5"),
        ({"missing_share": -0.1}, r"missing_share must be in \[0, 1\], got -0.1"),
        ({"spacing_km": 0.0}, r"spacing_km must be in \(0, inf\), got 0.0"),
        ({"avenue_every": -1}, r"avenue_every must be in \[0, inf\), got -1"),
        ({"speed_kmh": -3.0}, r"speed_kmh must be in \(0, inf\), got -3.0"),
        ({"missing_share": 1.0}, "no two of them are connected"),
    ],
)
def test_impossible_towns_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        town(0, **options)


NODES = "osmid,lat,lon\n1,0.1,10.1\n2,0.1,10.9\n3,0.9,10.9\n4,5.0,10.5\n"
HEADER = "u,v,length_m,lanes,speed_mph\n"
EDGES = HEADER + "1,2,100,,30\n1,2,90,2,20\n2,3,200.5,1,\n3,1,300,1,65\n3,4,1,1,1\n3,3,1,1,1\n1,2,95,1,9\n"


def write(folder: Path, nodes: str = NODES, edges: str = EDGES) -> tuple[Path, Path]:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder / "nodes.csv", folder / "edges.csv"


def test_csv_is_read_with_the_shorter_of_parallel_edges(tmp_path: Path) -> None:
    grid = degrees()
    roads = read_csv(*write(tmp_path), grid)
    x_km, y_km = grid.to_km([0.1, 0.1, 0.9], [10.1, 10.9, 10.9])
    np.testing.assert_allclose([roads.x_km, roads.y_km], [x_km, y_km])
    edges = {(u, v): (data["length_km"], data["speed_kmh"]) for u, v, data in roads.graph.edges(data=True)}
    assert edges == {
        (0, 1): (0.09, pytest.approx(20 * MILE_KM)),
        (1, 2): (0.2005, pytest.approx(25 * MILE_KM)),
        (2, 0): (0.3, pytest.approx(65 * MILE_KM)),
    }
    assert roads.dropped == {"nodes_outside": 1, "nodes_unconnected": 0, "edges": 1, "edges_redundant": 3}


def test_gzipped_csv_without_lanes_and_speeds_is_read(tmp_path: Path) -> None:
    paths = tmp_path / "nodes.csv.gz", tmp_path / "edges.csv.gz"
    paths[0].write_bytes(gzip.compress(NODES.encode("utf-8-sig")))
    paths[1].write_bytes(gzip.compress(b"u,v,length_m\n1,2,100\n2,1,100\n"))
    roads = read_csv(*paths, degrees())
    assert roads.graph.edges[0, 1]["speed_kmh"] == pytest.approx(25 * MILE_KM)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("osmid,y,lon\n", EDGES, r"nodes\.csv: columns lat are missing, found osmid, y, lon"),
        ("", EDGES, r"nodes\.csv: columns osmid, lat, lon are missing, found none"),
        (NODES, "u,v\n", r"edges\.csv: columns length_m are missing, found u, v"),
        (NODES + "9,nan,10\n", EDGES, r"nodes\.csv, line 6: lat must be a number in \[-90, 90\], got 'nan'"),
        (NODES + "9,0.5\n", EDGES, r"nodes\.csv, line 6: lon must be a number in \[-180, 180\], got ''"),
        (NODES + "1,0.5,10.5\n", EDGES, r"nodes\.csv, line 6: osmid 1 stands there twice"),
        (NODES, EDGES + "1,3,-4,1,25\n", r"edges\.csv, line 9: length_m must be a number in .*, got '-4'"),
        (NODES, EDGES + "1,3,inf,1,25\n", r"edges\.csv, line 9: length_m .*, got 'inf'"),
        (NODES, EDGES + "1,3,4,1,fast\n", r"edges\.csv, line 9: speed_mph .*, got 'fast'"),
        (NODES, EDGES + "1,7,4,1,25\n8,7,4,1,25\n", r"edges\.csv: 2 edges .*, first 7 \(.*line 9\)"),
    ],
)
def test_bad_csv_is_refused_with_file_and_line(tmp_path: Path, nodes: str, edges: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_csv(*write(tmp_path, nodes, edges), degrees())


def test_what_is_not_text_or_not_gzip_is_refused(tmp_path: Path) -> None:
    nodes, edges = write(tmp_path)
    broken = tmp_path / "nodes.csv.gz"
    for content in (b"osmid,lat,lon\n", gzip.compress(NODES.encode())[:-9]):
        broken.write_bytes(content)
        with pytest.raises(ValueError, match=r"nodes\.csv\.gz: this is not a readable CSV file"):
            read_csv(broken, edges, degrees())
    nodes.write_bytes(b"osmid,lat,lon\n\xff\xfe,1,1\n")
    with pytest.raises(ValueError, match=r"nodes\.csv: this is not a readable CSV file"):
        read_csv(nodes, edges, degrees())
    with pytest.raises(FileNotFoundError, match=r"absent\.csv"):
        read_csv(tmp_path / "absent.csv", edges, degrees())


def test_files_need_a_grid_on_the_earth(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without latitudes and longitudes"):
        read_csv(*write(tmp_path), square())


def osm_graph() -> nx.MultiDiGraph[str]:
    """Return a graph as osmnx hands it to networkx for saving: every attribute is text."""
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(crs="epsg:4326", simplified="True")
    for node, (lat, lon) in {"11": (0.1, 10.1), "12": (0.1, 10.9), "13": (0.9, 10.9)}.items():
        graph.add_node(node, y=str(lat), x=str(lon), street_count="3")
    graph.add_edge("11", "12", length="100.0", maxspeed="25 mph", oneway="True", osmid="[1, 2]")
    graph.add_edge("11", "12", length="80.0", maxspeed="50", oneway="True")
    graph.add_edge("12", "13", length="200.5", maxspeed="['25 mph', '35 mph']", oneway="True")
    graph.add_edge("13", "12", length="200.5", oneway="False")
    graph.add_edge("13", "11", length="300.0", maxspeed="signals", oneway="True")
    return graph


@pytest.mark.parametrize("name", ["town.graphml", "town.graphml.gz"])
def test_graphml_as_osmnx_writes_it(tmp_path: Path, name: str) -> None:
    nx.write_graphml(osm_graph(), tmp_path / name)
    roads = read_graphml(tmp_path / name, degrees())
    edges = {(u, v): (data["length_km"], data["speed_kmh"]) for u, v, data in roads.graph.edges(data=True)}
    assert edges == {
        (0, 1): (0.08, 50.0),
        (1, 2): (0.2005, pytest.approx(30 * MILE_KM)),
        (2, 1): (0.2005, pytest.approx(25 * MILE_KM)),
        (2, 0): (0.3, pytest.approx(25 * MILE_KM)),
    }
    assert roads.dropped["edges_redundant"] == 1
    np.testing.assert_allclose(roads.y_km, degrees().to_km([0.1, 0.1, 0.9], 0.0)[1])


def test_graphml_with_entities_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.graphml"
    entities = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">'
    text = f'<?xml version="1.0"?><!DOCTYPE graphml [{entities}]><graphml>&b;</graphml>'
    for content in (text.encode(), text.encode("utf-16")):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"bomb\.graphml: .*a DOCTYPE is not allowed"):
            read_graphml(path, degrees())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("300.0", "-300.0", r"edge 13 -> 11: length must be a number in .*, got '-300.0'"),
        ("300.0", "nan", r"edge 13 -> 11: length .*, got 'nan'"),
        (">0.9<", ">north<", r"node 13: y must be a number in \[-90, 90\], got 'north'"),
        ('target="11"', 'target="77"', r"node 77: y .*, got None"),
        ('edgedefault="directed"', 'edgedefault="undirected"', "the graph must be directed"),
        ("</graphml>", "", "this is not a readable GraphML file"),
    ],
)
def test_bad_graphml_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "town.graphml"
    nx.write_graphml(osm_graph(), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=r"town\.graphml: .*" + message):
        read_graphml(path, degrees())


def test_a_file_that_is_no_graphml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.graphml"
    path.write_text("<html><body/></html>")
    with pytest.raises(ValueError, match=r"page\.graphml: this is not a readable GraphML file"):
        read_graphml(path, degrees())


@pytest.mark.data
def test_the_roads_of_san_francisco() -> None:
    if not (DATA / "sf_road_nodes.csv.gz").exists():
        pytest.skip("no sf_road_nodes.csv.gz: set LPPM_SIM_DATA to the folder that has it")
    grid = Grid.san_francisco()
    roads = read_csv(DATA / "sf_road_nodes.csv.gz", DATA / "sf_road_edges.csv.gz", grid)
    dropped = roads.dropped
    assert roads.n_nodes + dropped["nodes_outside"] + dropped["nodes_unconnected"] == 3065
    assert roads.graph.number_of_edges() + dropped["edges"] + dropped["edges_redundant"] == 6563
    assert roads.n_nodes > 2000
    assert nx.is_strongly_connected(roads.graph)
    assert len(roads.cells()) > 100
    u, v = np.array(roads.graph.edges).T
    straight = np.hypot(roads.x_km[u] - roads.x_km[v], roads.y_km[u] - roads.y_km[v])
    driven = [data["length_km"] for *_, data in roads.graph.edges(data=True)]
    assert np.mean(np.array(driven) >= 0.99 * straight - 0.001) > 0.99
    for start, end in np.random.default_rng(0).integers(roads.n_nodes, size=(10, 2)).tolist():
        best = nx.shortest_path_length(roads.graph, start, end, weight="travel_s")
        assert roads.route(start, end).arrival_s[-1] == pytest.approx(best)


# ------------------------------------------------------------------------------------------------ changes


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_closed_roads_leave_everybody_a_way(seed: int, share: float) -> None:
    roads = town(seed, spacing_km=0.25)
    closed = close(roads, square(), share=share, rng=rng(seed))
    assert nx.is_strongly_connected(closed.graph)
    assert closed.n_nodes == roads.n_nodes
    assert closed.cell.tolist() == roads.cell.tolist()
    assert closed.x_km.tolist() == roads.x_km.tolist()
    gone = roads.graph.number_of_edges() - closed.graph.number_of_edges()
    asked = round(share * roads.graph.number_of_edges())
    assert set(closed.graph.edges) < set(roads.graph.edges)
    assert asked * (0.8 if share < 0.1 else 0.4) < gone <= asked
    for u, v, data in closed.graph.edges(data=True):
        assert data == roads.graph.edges[u, v]


def test_no_more_roads_stay_open_than_needed() -> None:
    # A ring with a two-way spur: of the ring, one direction must stay; of the spur, both.
    places = {0: (0.5, 0.5), 1: (1.5, 0.5), 2: (1.5, 1.5), 3: (0.5, 1.5), 4: (2.5, 0.5)}
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 4), (4, 1)]
    edges += [(v, u) for u, v in edges[:4]]
    roads = Roads(graph=graph_of(places, edges), grid=square())
    for seed in range(10):
        closed = close(roads, square(), share=1.0, rng=rng(seed))
        assert {(1, 4), (4, 1)} < set(closed.graph.edges)
        assert nx.is_strongly_connected(closed.graph)
        assert closed.graph.number_of_edges() <= 8


def test_the_roads_of_cells_are_closed() -> None:
    roads = town(1, spacing_km=0.25, missing_share=0.0)
    closed = close(roads, square(), cells=[9, 10], rng=rng(0))
    inside = {node for node in range(roads.n_nodes) if roads.cell[node] in (9, 10)}
    gone = set(roads.graph.edges) - set(closed.graph.edges)
    assert gone
    assert all(u in inside or v in inside for u, v in gone)
    touching = [edge for edge in roads.graph.edges if inside & set(edge)]
    assert len(gone) > len(touching) / 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_one_way_roads_are_turned_round(seed: int, share: float) -> None:
    roads = town(seed, spacing_km=0.25, one_way_share=0.6)
    turned = reverse(roads, square(), share=share, rng=rng(seed))
    assert nx.is_strongly_connected(turned.graph)
    assert turned.n_nodes == roads.n_nodes
    one_way = {(u, v) for u, v in roads.graph.edges if not roads.graph.has_edge(v, u)}
    gone, new = set(roads.graph.edges) - set(turned.graph.edges), set(turned.graph.edges) - set(roads.graph.edges)
    assert {(v, u) for u, v in gone} == new
    assert gone <= one_way
    assert 1 <= len(gone) <= round(share * len(one_way))


def test_changes_that_cannot_be_are_refused() -> None:
    two_way = town(1, one_way_share=0.0)
    with pytest.raises(ValueError, match="reversing any of 0 one-way roads would leave somebody stuck, or there are"):
        reverse(two_way, square(), share=0.5, rng=rng(0))
    ring = Roads(graph=graph_of({0: (0.5, 0.5), 1: (1.5, 0.5), 2: (1.5, 1.5)}, [(0, 1), (1, 2), (2, 0)]), grid=square())
    with pytest.raises(ValueError, match="closing any of 3 roads would leave somebody stuck"):
        close(ring, square(), share=1.0, rng=rng(0))
    assert set(reverse(ring, square(), share=1.0, rng=rng(0)).graph.edges) == {(1, 0), (2, 1), (0, 2)}
