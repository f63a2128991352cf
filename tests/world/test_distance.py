"""Distances between cells: by hand, against networkx, from files and from labels."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sim.errors import InvalidValue
from sim.world import Grid, World
from sim.world.distance import MatrixDistance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.distances.matrix import from_file
from sim.world.distances.road import road
from sim.world.distances.semantic import SemanticDistanceParameters, read_labels, semantic
from sim.world.roads.graph import Roads
from sim.world.roads.lattice import lattice
from tests.support import raises_code


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


def test_the_matrix_is_a_read_only_copy() -> None:
    source = np.zeros((2, 2))
    distance = MatrixDistance(kind="file", matrix_km=source)
    source[0, 1] = 5.0
    assert distance.matrix_km[0, 1] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        distance.matrix_km[0, 1] = 1.0


@pytest.mark.parametrize("seed", range(3))
def test_road_distance_is_a_directed_metric_of_at_least_the_euclidean_distance(seed: int) -> None:
    grid = square()
    by_road = road(grid, town(grid, seed)).matrix_km
    assert np.diag(by_road).tolist() == [0.0] * 20
    assert (by_road >= euclidean(grid).matrix_km).all()
    assert not np.allclose(by_road, by_road.T)
    via = (by_road[:, :, None] + by_road[None, :, :]).min(axis=1)
    assert (by_road <= via + 1e-9).all()


@pytest.mark.parametrize("seed", range(3))
def test_road_distance_is_the_shortest_path_plus_access_at_both_ends(seed: int) -> None:
    import networkx as nx

    grid = square()
    roads = town(grid, seed)
    by_road = road(grid, roads).matrix_km
    away = np.hypot(grid.x_km[:, None] - roads.x_km, grid.y_km[:, None] - roads.y_km)
    nearest, access = away.argmin(axis=1), away.min(axis=1)
    for a, b in np.random.default_rng(seed).integers(grid.n_cells, size=(50, 2)).tolist():
        if a != b:
            path = nx.shortest_path_length(roads.graph, int(nearest[a]), int(nearest[b]), weight="length_km")
            assert by_road[a, b] == pytest.approx(access[a] + path + access[b])


def test_road_distance_on_a_full_lattice_through_the_centres_is_manhattan() -> None:
    grid = square(6, 4)
    rng = np.random.default_rng(0)
    roads = lattice(grid, spacing_km=1.0, one_way_share=0.0, missing_share=0.0, rng=rng)
    np.testing.assert_allclose(road(grid, roads).matrix_km, manhattan(grid).matrix_km, atol=1e-12)


def test_cells_with_the_same_nearest_node_have_a_positive_distance() -> None:
    grid = Grid.rectangle(rows=4, cols=4, width_km=4.0, height_km=4.0)
    roads = lattice(grid, spacing_km=2.0, one_way_share=0.0, missing_share=0.0, rng=np.random.default_rng(0))
    by_road = road(grid, roads).matrix_km
    assert roads.n_nodes == 4
    assert (by_road >= euclidean(grid).matrix_km).all()
    assert by_road[0, 1] == pytest.approx(2 * math.hypot(0.5, 0.5))


def test_understated_street_lengths_do_not_undercut_the_euclidean_distance() -> None:
    grid = square()
    graph = town(grid).graph.copy()
    for _, _, data in graph.edges(data=True):
        data["length_km"] /= 10.0
    by_road = road(grid, Roads(graph=graph, locations=grid)).matrix_km
    assert (by_road >= euclidean(grid).matrix_km).all()
    assert (by_road == euclidean(grid).matrix_km).any()


@pytest.mark.parametrize("name", ["d.npy", "d.csv"])
def test_stored_distances_are_read_unchanged(tmp_path: Path, name: str) -> None:
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
    ("text", "code", "values"),
    [
        ("0,1\n1,0\n", "wrong-shape", ["(3, 3)", "(2, 2)"]),
        ("0,1,2\n1,0,3\n2,-3,0\n", "invalid-distance", ["[0, inf)", "-3.0 from cell 2 to cell 1"]),
        ("0,1,2\n1,0,nan\n2,inf,0\n", "invalid-distance", ["[0, inf)", "nan from cell 1 to cell 2", "1 more"]),
        ("0,1,2\n1,0.5,3\n2,3,0\n", "invalid-distance", ["diagonal", "0.5 from cell 1 to cell 1"]),
        ("0,1,2\n1,0\n2,3,0\n", "unreadable-file", ["from 3 to 2"]),
        ("a,b,c\n0,1,2\n1,0,3\n2,3,0\n", "unreadable-file", ["'a'"]),
        ("\n", "empty-file", []),
    ],
)
def test_bad_csv_files_are_rejected(tmp_path: Path, text: str, code: str, values: list[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with raises_code(InvalidValue, code) as error:
        from_file(path, 3)
    assert str(error.value).startswith(f"{path}: ")
    assert [value for value in values if value not in str(error.value)] == []


def test_bad_npy_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "bad.npy"

    def rejected(code: str, n_cells: int) -> str:
        with raises_code(InvalidValue, code) as error:
            from_file(path, n_cells)
        assert str(error.value).startswith(f"{path}: ")
        return str(error.value)

    np.save(path, np.array([[{}]], dtype=object), allow_pickle=True)
    rejected("unreadable-file", 1)
    np.save(path, np.zeros((2, 2), dtype=np.complex128))
    assert "complex128" in rejected("invalid-distance", 2)
    np.save(path, np.zeros(4))
    assert re.search(r"\(2, 2\), found \(4,\)", rejected("wrong-shape", 2))
    with path.open("wb") as file:
        np.savez(file, a=np.zeros((2, 2)))
    assert ".npz" in rejected("unreadable-file", 2)
    whole = tmp_path / "whole.npy"
    np.save(whole, np.zeros((20, 20)))
    for content in (b"", b"not an array", whole.read_bytes()[:-8]):
        path.write_bytes(content)
        rejected("unreadable-file", 20)
    with raises_code(InvalidValue, "unsupported-format") as error:
        from_file(tmp_path / "d.txt", 2)
    assert re.search(r"\.npy or \.csv, got '\.txt'", str(error.value))


def test_distances_of_another_grid_are_rejected() -> None:
    grid = square()
    world = World(locations=grid, roads=None, privacy_distance=euclidean(grid), quality_distance=manhattan(grid))
    assert world.quality_distance.n_cells == 20
    with raises_code(InvalidValue, "wrong-shape") as error:
        World(
            locations=grid,
            roads=None,
            privacy_distance=euclidean(grid),
            quality_distance=manhattan(square(2, 2)),
        )
    assert re.match(r"quality_distance\b.*\b20, got 4$", str(error.value))


def test_a_world_without_roads_does_not_import_networkx() -> None:
    loaded = "'networkx' in sys.modules, 'scipy' in sys.modules"
    kinds = ", ".join(f"sim.world.roads.{kind}" for kind in ("lattice", "csv", "graphml"))
    code = f"import sys, sim.world, {kinds}; print({loaded})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.split() == ["False", "False"]


def test_semantic_distance_decreases_with_the_common_part_of_the_labels() -> None:
    labels = ["home", "food/pizza", "food/sushi/fast", "home", "food/pizza/fast"]
    distance_km = semantic(labels, apart_km=6.0).matrix_km
    assert distance_km[0].tolist() == [0.0, 6.0, 6.0, 0.0, 6.0]
    assert distance_km[1] == pytest.approx([6.0, 0.0, 4.0, 6.0, 2.0])
    assert distance_km[2] == pytest.approx([6.0, 4.0, 0.0, 6.0, 4.0])
    assert np.array_equal(distance_km, distance_km.T)
    via = (distance_km[:, :, None] + distance_km[None, :, :]).min(axis=1)
    assert (distance_km <= via + 1e-12).all()
    with pytest.raises(ValueError, match=r"(?s)apart_km.*input_value=0.0"):
        SemanticDistanceParameters(labels="labels.csv", apart_km=0.0)


def test_labels_are_read_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text('cell, label\n2,work\n0,"home, sweet home"\n\n1,work\n', encoding="utf-8-sig")
    assert read_labels(file, 3) == ["home, sweet home", "work", "work"]


@pytest.mark.parametrize(
    ("text", "code", "problem"),
    [
        ("", "no-such-column", r": .*cell,label, found ''$"),
        ("0,home\n", "no-such-column", r": .*cell,label, found '0,home'$"),
        ("cell,label\n0,home\n", "missing-label", r": .*\bcell 1$"),
        ("cell,label\n0,home\n0,work\n", "duplicate-entry", r", line 3: cell 0 .*'home'$"),
        ("cell,label\n2,home\n", "invalid-row", r", line 2: cell .* \[0, 1\], found '2'$"),
        ("cell,label\n-1,home\n", "invalid-row", r", line 2: cell .* found '-1'$"),
        ("cell,label\n0, \n", "invalid-row", r", line 2: .* found '0, '$"),
        ("cell,label\n0,a,b\n", "invalid-row", r", line 2: .* found '0,a,b'$"),
    ],
)
def test_invalid_labels_are_rejected(text: str, code: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(text)
    with raises_code(InvalidValue, code) as error:
        read_labels(file, 2)
    assert re.fullmatch(re.escape(str(file)) + problem, str(error.value))


def test_the_number_of_missing_labels_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("cell,label\n1,home\n")
    with raises_code(InvalidValue, "missing-label") as error:
        read_labels(file, 4)
    assert str(error.value).endswith("cell 0 and 2 more")
