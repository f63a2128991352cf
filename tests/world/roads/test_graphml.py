"""Roads from GraphML files written by osmnx."""

from __future__ import annotations

import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from sim.errors import InvalidValue
from sim.world.roads.graphml import read_graphml
from tests.support import raises_code
from tests.world.roads.towns import MILE_KM, degrees


def osm_graph() -> nx.MultiDiGraph[str]:
    """Return a graph in the form in which osmnx saves it: all attributes are strings."""
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
def test_graphml_of_osmnx_is_read(tmp_path: Path, name: str) -> None:
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


def test_graphml_with_entities_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "bomb.graphml"
    entities = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">'
    text = f'<?xml version="1.0"?><!DOCTYPE graphml [{entities}]><graphml>&b;</graphml>'
    for content in (text.encode(), text.encode("utf-16")):
        path.write_bytes(content)
        with raises_code(InvalidValue, "unsafe-file") as error:
            read_graphml(path, degrees())
        assert str(error.value).startswith(f"{path}: ")
        assert "DOCTYPE" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("300.0", "-300.0", "invalid-row", r"edge 13 -> 11: length .*, got '-300.0'$"),
        ("300.0", "nan", "invalid-row", r"edge 13 -> 11: length .*, got 'nan'$"),
        (">0.9<", ">north<", "invalid-row", r"node 13: y .* \[-90, 90\], got 'north'$"),
        ('target="11"', 'target="77"', "invalid-row", r"node 77: y .*, got None$"),
        ('edgedefault="directed"', 'edgedefault="undirected"', "undirected-graph", ""),
        ("</graphml>", "", "unreadable-file", ""),
    ],
)
def test_bad_graphml_is_rejected(tmp_path: Path, old: str, new: str, code: str, message: str) -> None:
    path = tmp_path / "town.graphml"
    nx.write_graphml(osm_graph(), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with raises_code(InvalidValue, code) as error:
        read_graphml(path, degrees())
    assert re.match(re.escape(f"{path}: ") + message, str(error.value))


def test_a_file_of_another_format_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "page.graphml"
    path.write_text("<html><body/></html>")
    with raises_code(InvalidValue, "unreadable-file") as error:
        read_graphml(path, degrees())
    assert str(error.value).startswith(f"{path}: ")
