"""Generated lattices of streets."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest

from sim.errors import InvalidValue
from sim.world.grid import Grid
from sim.world.roads.lattice import lattice
from tests.support import raises_code
from tests.world.roads.towns import square, town


@pytest.mark.parametrize("seed", range(4))
def test_a_lattice_is_connected_with_every_node_on_the_grid(seed: int) -> None:
    roads = town(seed, missing_share=0.3)
    assert nx.is_strongly_connected(roads.graph)
    np.testing.assert_array_equal(roads.cell, square().cell_of_km(roads.x_km, roads.y_km))
    assert roads.cell.min() >= 0
    assert roads.n_nodes + roads.dropped["nodes_unconnected"] == 80


def test_a_full_lattice_is_centred_and_two_way() -> None:
    roads = town(0, one_way_share=0.0, missing_share=0.0)
    assert (roads.n_nodes, roads.graph.number_of_edges()) == (80, 2 * (10 * 7 + 8 * 9))
    assert sorted(set(roads.x_km.tolist())) == pytest.approx(np.arange(0.25, 4.0, 0.5))
    assert sorted(set(roads.y_km.tolist())) == pytest.approx(np.arange(0.25, 5.0, 0.5))
    assert all(roads.graph.has_edge(v, u) for u, v in roads.graph.edges)


def test_one_way_streets_alternate_and_avenues_are_fast_and_two_way() -> None:
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
    n_edges = roads.graph.number_of_edges() + roads.dropped["edges"]
    assert n_edges == 2 * (142 - round(0.25 * 142))


def test_the_same_stream_generates_the_same_roads() -> None:
    assert town(7).describe() == town(7).describe()
    assert town(7).describe() != town(8).describe()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"one_way_share": 1.5}, r"^one_way_share\b.* \[0, 1\], got 1\.5$"),
        ({"missing_share": -0.1}, r"^missing_share\b.* \[0, 1\], got -0\.1$"),
        ({"spacing_km": 0.0}, r"^spacing_km\b.* \(0, inf\), got 0\.0$"),
        ({"avenue_every": -1}, r"^avenue_every\b.* \[0, inf\), got -1$"),
        ({"speed_kmh": -3.0}, r"^speed_kmh\b.* \(0, inf\), got -3\.0\b"),
    ],
)
def test_invalid_parameters_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        town(0, **options)


@pytest.mark.parametrize(
    ("options", "code"),
    [({"missing_share": 1.0}, "roads-not-connected"), ({"spacing_km": 10.0}, "lattice-size")],
)
def test_impossible_lattices_are_rejected(options: dict[str, Any], code: str) -> None:
    with raises_code(InvalidValue, code):
        town(0, **options)
