from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sim.world import Distance, Grid, World
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.distances.matrix import from_file
from sim.world.distances.road import road
from sim.world.distances.semantic import SemanticDistanceParameters, read_labels, semantic
from sim.world.roads.graph import Roads
from sim.world.roads.lattice import lattice


def square(rows: int = 5, cols: int = 4) -> Grid:
    return Grid.rectangle(rows=rows, cols=cols, width_km=float(cols), height_km=float(rows))


def town(grid: Grid, seed: int = 0, spacing_km: float = 0.45) -> Roads:
    return lattice(grid, spacing_km=spacing_km, one_way_share=0.7, rng=np.random.default_rng(seed))


def test_manhattan_and_euclidean_by_hand() -> None:
    grid = Grid.rectangle(rows=2, cols=2, width_km=6.0, height_km=8.0)
    assert manhattan(grid).matrix_km[0].tolist() == [0.0, 3.0, 4.0, 7.0]
    assert euclidean(grid).matrix_km[0].tolist() == [0.0, 3.0, 4.0, 5.0]
    assert manhattan(grid).matrix_km[1].tolist() == [3.0, 0.0, 7.0, 4.0]


def test_only_manhattan_has_a_shape() -> None:
    grid = square()
    assert manhattan(grid).shape == (5, 4)
    assert euclidean(grid).shape is None
    assert road(grid, town(grid)).shape is None
    with pytest.raises(ValueError, match="got 'euclidean' with shape"):
        Distance(kind="euclidean", matrix_km=np.zeros((4, 4)), shape=(2, 2))
    with pytest.raises(ValueError, match="got 'manhattan' with shape None"):
        Distance(kind="manhattan", matrix_km=np.zeros((4, 4)))
    with pytest.raises(ValueError, match=r"shape must have 4 cells as matrix_km has, got \(3, 2\)"):
        Distance(kind="manhattan", matrix_km=np.zeros((4, 4)), shape=(3, 2))


def test_the_matrix_is_a_copy_that_cannot_be_written() -> None:
    mine = np.zeros((2, 2))
    distance = Distance(kind="file", matrix_km=mine)
    mine[0, 1] = 5.0
    assert distance.matrix_km[0, 1] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        distance.matrix_km[0, 1] = 1.0


@pytest.mark.parametrize("seed", range(3))
def test_road_distance_is_a_directed_metric_no_shorter_than_the_crow_flies(seed: int) -> None:
    grid = square()
    by_road = road(grid, town(grid, seed)).matrix_km
    assert np.diag(by_road).tolist() == [0.0] * 20
    assert (by_road >= euclidean(grid).matrix_km).all()
    assert not np.allclose(by_road, by_road.T)
    via = (by_road[:, :, None] + by_road[None, :, :]).min(axis=1)
    assert (by_road <= via + 1e-9).all()


@pytest.mark.parametrize("seed", range(3))
def test_road_distance_is_the_way_by_road_with_its_access_legs(seed: int) -> None:
    import networkx as nx

    grid = square()
    roads = town(grid, seed)
    by_road = road(grid, roads).matrix_km
    away = np.hypot(grid.x_km[:, None] - roads.x_km, grid.y_km[:, None] - roads.y_km)
    near, leg = away.argmin(axis=1), away.min(axis=1)
    for a, b in np.random.default_rng(seed).integers(grid.n_cells, size=(50, 2)).tolist():
        if a != b:
            way = nx.shortest_path_length(roads.graph, int(near[a]), int(near[b]), weight="length_km")
            assert by_road[a, b] == pytest.approx(leg[a] + way + leg[b])


def test_road_distance_on_a_full_lattice_through_the_centres_is_manhattan() -> None:
    grid = square(6, 4)
    rng = np.random.default_rng(0)
    roads = lattice(grid, spacing_km=1.0, one_way_share=0.0, missing_share=0.0, rng=rng)
    np.testing.assert_allclose(road(grid, roads).matrix_km, manhattan(grid).matrix_km, atol=1e-12)


def test_cells_with_the_same_nearest_node_are_still_apart() -> None:
    grid = Grid.rectangle(rows=4, cols=4, width_km=4.0, height_km=4.0)
    roads = lattice(grid, spacing_km=2.0, one_way_share=0.0, missing_share=0.0, rng=np.random.default_rng(0))
    by_road = road(grid, roads).matrix_km
    assert roads.n_nodes == 4
    assert (by_road >= euclidean(grid).matrix_km).all()
    assert by_road[0, 1] == pytest.approx(2 * math.hypot(0.5, 0.5))


def test_streets_with_too_short_lengths_are_no_short_cut() -> None:
    grid = square()
    graph = town(grid).graph.copy()
    for _, _, data in graph.edges(data=True):
        data["length_km"] /= 10.0
    by_road = road(grid, Roads(graph=graph, grid=grid)).matrix_km
    assert (by_road >= euclidean(grid).matrix_km).all()
    assert (by_road == euclidean(grid).matrix_km).any()


@pytest.mark.parametrize("name", ["d.npy", "d.csv"])
def test_files_give_back_what_was_stored(tmp_path: Path, name: str) -> None:
    matrix = euclidean(square()).matrix_km
    path = tmp_path / name
    if name == "d.npy":
        np.save(path, matrix)
    else:
        np.savetxt(path, matrix, delimiter=",", fmt="%.17g")
    distance = from_file(path, 20)
    assert (distance.kind, distance.shape) == ("file", None)
    np.testing.assert_array_equal(distance.matrix_km, matrix)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1,0\n", r"must have shape \(3, 3\), found \(2, 2\)"),
        ("0,1,2\n1,0,3\n2,-3,0\n", r"in \[0, inf\), found -3.0 from cell 2 to cell 1 \(1 such\)"),
        ("0,1,2\n1,0,nan\n2,inf,0\n", r"in \[0, inf\), found nan from cell 1 to cell 2 \(2 such\)"),
        ("0,1,2\n1,0.5,3\n2,3,0\n", "be 0 on the diagonal, found 0.5 from cell 1 to cell 1"),
        ("0,1,2\n1,0\n2,3,0\n", "columns changed from 3 to 2"),
        ("a,b,c\n0,1,2\n1,0,3\n2,3,0\n", "could not convert string 'a'"),
        ("\n", "the file is empty"),
    ],
)
def test_bad_csv_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.csv: .*" + message):
        from_file(path, 3)


def test_bad_npy_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.npy"
    np.save(path, np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"bad\.npy: "):
        from_file(path, 1)
    np.save(path, np.zeros((2, 2), dtype=np.complex128))
    with pytest.raises(ValueError, match=r"bad\.npy: .*real numbers, found dtype complex128"):
        from_file(path, 2)
    np.save(path, np.zeros(4))
    with pytest.raises(ValueError, match=r"bad\.npy: .*shape \(2, 2\), found \(4,\)"):
        from_file(path, 2)
    with path.open("wb") as file:
        np.savez(file, a=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"bad\.npy: .*archive"):
        from_file(path, 2)
    whole = tmp_path / "whole.npy"
    np.save(whole, np.zeros((20, 20)))
    for content in (b"", b"not an array", whole.read_bytes()[:-8]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"bad\.npy: "):
            from_file(path, 20)
    with pytest.raises(ValueError, match=r"must end in \.npy or \.csv, got '\.txt'"):
        from_file(tmp_path / "d.txt", 2)


def test_a_world_has_distances_of_its_own_grid() -> None:
    grid = square()
    world = World(grid=grid, roads=None, privacy_distance=euclidean(grid), quality_distance=manhattan(grid))
    assert world.quality_distance.n_cells == 20
    with pytest.raises(ValueError, match="quality_distance must have the grid's 20 cells, got 4"):
        World(
            grid=grid,
            roads=None,
            privacy_distance=euclidean(grid),
            quality_distance=manhattan(square(2, 2)),
        )


def test_a_world_without_roads_does_not_import_networkx() -> None:
    loaded = "'networkx' in sys.modules, 'scipy' in sys.modules"
    kinds = ", ".join(f"sim.world.roads.{kind}" for kind in ("lattice", "csv", "graphml"))
    code = f"import sys, sim.world, {kinds}; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["False", "False"]


def test_kinds_of_places_are_apart_by_what_their_labels_do_not_share() -> None:
    labels = ["home", "food/pizza", "food/sushi/fast", "home", "food/pizza/fast"]
    found = semantic(labels, apart_km=6.0).matrix_km
    assert found[0].tolist() == [0.0, 6.0, 6.0, 0.0, 6.0]
    assert found[1] == pytest.approx([6.0, 0.0, 4.0, 6.0, 2.0])
    assert found[2] == pytest.approx([6.0, 4.0, 0.0, 6.0, 4.0])
    assert np.array_equal(found, found.T)
    via = (found[:, :, None] + found[None, :, :]).min(axis=1)
    assert (found <= via + 1e-12).all()
    with pytest.raises(ValueError, match=r"(?s)apart_km.*input_value=0.0"):
        SemanticDistanceParameters(labels="labels.csv", apart_km=0.0)


def test_labels_are_read_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text('cell, label\n2,work\n0,"home, sweet home"\n\n1,work\n', encoding="utf-8-sig")
    assert read_labels(file, 3) == ["home, sweet home", "work", "work"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the first line must be cell,label, found ''"),
        ("0,home\n", "the first line must be cell,label, found '0,home'"),
        ("cell,label\n0,home\n", r"every cell needs a label, found none of cell 1 \(1 such\)"),
        ("cell,label\n0,home\n0,work\n", "line 3: cell 0 has a label already, 'home'"),
        ("cell,label\n2,home\n", r"line 2: a cell must be a whole number in \[0, 1\], found '2'"),
        ("cell,label\n-1,home\n", "found '-1'"),
        ("cell,label\n0, \n", "line 2: must be a cell and its label, found '0, '"),
        ("cell,label\n0,a,b\n", "line 2: must be a cell and its label, found '0,a,b'"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=problem):
        read_labels(file, 2)
