"""Spanners: few edges, and no path longer than the dilation allows."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.lppm.spanner import greedy_spanner, metric
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=4, cols=5, width_km=6.0, height_km=4.4)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), dilation=st.floats(1.0, 3.0))
def test_no_path_exceeds_the_dilation(seed: int, dilation: float) -> None:
    rng = np.random.default_rng(seed)
    distance_km = metric(rng.uniform(0.1, 5, (8, 8)) * (1 - np.eye(8)))
    spanner = greedy_spanner(distance_km, dilation)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_weighted_edges_from(
        zip(spanner.start.tolist(), spanner.end.tolist(), spanner.length_km.tolist(), strict=True)
    )
    paths = dict(nx.all_pairs_dijkstra_path_length(graph))
    longest = max(paths[x][y] / distance_km[x, y] for x in range(8) for y in range(8) if x != y)
    assert 1 <= spanner.dilation <= dilation * (1 + 1e-6)
    assert spanner.dilation == pytest.approx(longest)


def test_neighbours_suffice_on_a_manhattan_grid() -> None:
    spanner = greedy_spanner(manhattan(GRID).matrix_km, 1.0)
    assert spanner.start.size == 4 * 4 + 3 * 5
    assert spanner.dilation == pytest.approx(1.0)
    assert set((spanner.end - spanner.start).tolist()) == {1, 5}


def test_few_edges_suffice_for_the_euclidean_distance() -> None:
    exact, near = (greedy_spanner(euclidean(GRID).matrix_km, dilation) for dilation in (1.0, 1.1))
    assert near.start.size < 0.6 * exact.start.size < 0.6 * 190
    assert 1 < near.dilation <= 1.1


def test_metric_is_symmetric_and_includes_detours() -> None:
    shortest_km = metric(np.array([[0.0, 5.0, 1.0], [4.0, 0.0, 2.0], [7.0, 1.0, 0.0]]))
    assert shortest_km.tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]


def test_cells_at_distance_zero_are_joined() -> None:
    spanner = greedy_spanner(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]), 1.0)
    assert list(zip(spanner.start.tolist(), spanner.end.tolist(), strict=True)) == [(0, 1), (0, 2)]
