"""Roads from CSV files of nodes and edges."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from sim.errors import InvalidValue
from sim.world.grid import Grid
from sim.world.roads.csv import read_csv
from tests.support import raises_code
from tests.world.roads.towns import MILE_KM, degrees, square

NODES = "osmid,lat,lon\n1,0.1,10.1\n2,0.1,10.9\n3,0.9,10.9\n4,5.0,10.5\n"


HEADER = "u,v,length_m,lanes,speed_mph\n"


EDGES = HEADER + "1,2,100,,30\n1,2,90,2,20\n2,3,200.5,1,\n3,1,300,1,65\n3,4,1,1,1\n3,3,1,1,1\n1,2,95,1,9\n"


def write(folder: Path, nodes: str = NODES, edges: str = EDGES) -> tuple[Path, Path]:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder / "nodes.csv", folder / "edges.csv"


def test_the_shortest_of_parallel_edges_is_used(tmp_path: Path) -> None:
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
    ("nodes", "edges", "code", "message"),
    [
        ("osmid,y,lon\n", EDGES, "no-such-column", r"nodes\.csv: .*columns lat, found osmid, y, lon$"),
        ("", EDGES, "no-such-column", r"nodes\.csv: .*columns osmid, lat, lon, found none$"),
        (NODES, "u,v\n", "no-such-column", r"edges\.csv: .*columns length_m, found u, v$"),
        (NODES + "9,nan,10\n", EDGES, "invalid-row", r"nodes\.csv, line 6: lat .* \[-90, 90\], got 'nan'$"),
        (NODES + "9,0.5\n", EDGES, "invalid-row", r"nodes\.csv, line 6: lon .* \[-180, 180\], got ''$"),
        (NODES + "1,0.5,10.5\n", EDGES, "duplicate-entry", r"nodes\.csv, line 6: osmid 1\b"),
        (NODES, EDGES + "1,3,-4,1,25\n", "invalid-row", r"edges\.csv, line 9: length_m .* \[0, 1e\+06\], got '-4'$"),
        (NODES, EDGES + "1,3,inf,1,25\n", "invalid-row", r"edges\.csv, line 9: length_m .*, got 'inf'$"),
        (NODES, EDGES + "1,3,4,1,fast\n", "invalid-row", r"edges\.csv, line 9: speed_mph .*, got 'fast'$"),
        (NODES, EDGES + "1,7,4,1,25\n8,7,4,1,25\n", "unknown-node", r"edges\.csv: 2 edges .*, first 7 \(.*line 9\)$"),
    ],
)
def test_bad_csv_is_rejected_with_file_and_line(
    tmp_path: Path, nodes: str, edges: str, code: str, message: str
) -> None:
    with raises_code(InvalidValue, code) as error:
        read_csv(*write(tmp_path, nodes, edges), degrees())
    assert re.match(re.escape(f"{tmp_path}/") + message, str(error.value))


def test_files_that_are_not_text_or_not_gzip_are_rejected(tmp_path: Path) -> None:
    nodes, edges = write(tmp_path)
    broken = tmp_path / "nodes.csv.gz"
    for content in (b"osmid,lat,lon\n", gzip.compress(NODES.encode())[:-9]):
        broken.write_bytes(content)
        with raises_code(InvalidValue, "unreadable-file") as error:
            read_csv(broken, edges, degrees())
        assert str(error.value).startswith(f"{broken}: ")
    nodes.write_bytes(b"osmid,lat,lon\n\xff\xfe,1,1\n")
    with raises_code(InvalidValue, "unreadable-file") as error:
        read_csv(nodes, edges, degrees())
    assert str(error.value).startswith(f"{nodes}: ")
    with pytest.raises(FileNotFoundError, match=r"absent\.csv"):
        read_csv(tmp_path / "absent.csv", edges, degrees())


def test_road_files_require_a_georeferenced_grid(tmp_path: Path) -> None:
    with raises_code(InvalidValue, "no-coordinates"):
        read_csv(*write(tmp_path), square())


@pytest.mark.data
def test_the_roads_of_san_francisco(real_data: Path) -> None:
    grid = Grid.san_francisco()
    roads = read_csv(real_data / "sf_road_nodes.csv.gz", real_data / "sf_road_edges.csv.gz", grid)
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
