"""Plain XML of SUMO: nodes in m, edges with lengths and speeds of the graph."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import sim
from sim.world.roads.sumo import sumo_edges, sumo_nodes
from tests.support import done, refused

SCENARIO = "name: t\nworld: {{grid: {{kind: rectangle, rows: 4, cols: 4, width_km: 4, height_km: 4}}{roads}}}\n"
USERS = "users: {mobility: favourites, count: 1, queries: 2}\nlppms: [SP-Exp]\n"


def test_files_have_the_nodes_and_edges_of_the_graph() -> None:
    world = sim.make_world("rectangle", rows=4, cols=4, width_km=4, height_km=4, roads="lattice")
    roads = world.roads
    assert roads is not None
    nodes = ElementTree.fromstring(sumo_nodes(roads, world.grid))
    x_m = [float(node.get("x", "")) for node in nodes.iter("node")]
    assert np.allclose(x_m, 1000 * roads.x_km, atol=1e-3)
    edges = list(ElementTree.fromstring(sumo_edges(roads)).iter("edge"))
    assert len(edges) == roads.graph.number_of_edges()
    for edge in edges:
        data = roads.graph.edges[int(edge.get("from", "")), int(edge.get("to", ""))]
        assert float(edge.get("length", "")) == pytest.approx(1000 * data["length_km"], abs=1e-3)
        assert 3.6 * float(edge.get("speed", "")) == pytest.approx(data["speed_kmh"], abs=1e-3)


def test_command(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SCENARIO.format(roads=", roads: lattice") + USERS)
    out = done("roads", "export", tmp_path / "a.yaml", "-o", tmp_path / "a")
    assert str(tmp_path / "a.nod.xml") in out
    assert ElementTree.parse(tmp_path / "a.edg.xml").getroot().tag == "edges"
    assert "[file-exists]" in refused("roads", "export", tmp_path / "a.yaml", "-o", tmp_path / "a")
    (tmp_path / "b.yaml").write_text(SCENARIO.format(roads="") + USERS)
    assert "[no-roads]" in refused("roads", "export", tmp_path / "b.yaml", "-o", tmp_path / "b")
