"""Services against brute force on small worlds, their invariants, and their parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sim.components.files import Place
from sim.errors import InvalidValue
from sim.interfaces import FloatArray
from sim.scenario.world import WorldSpec
from sim.world import Grid, Service, World
from sim.world.roads.graph import Roads
from sim.world.services.extra_travel import ExtraTravel
from sim.world.services.nearest_points import NearestPoints
from sim.world.services.zone import Zones

GRID = Grid.rectangle(rows=4, cols=5, width_km=5.0, height_km=4.0)
LATTICE = {"kind": "lattice", "spacing_km": 0.47, "missing_share": 0.2, "one_way_share": 0.3}
RECTANGLE = {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0}
REGION = {"kind": "region", "rows": 4, "cols": 4, "south": 37.0, "north": 37.04, "west": -122.04, "east": -122.0}
KM = {"x_km": "x", "y_km": "y"}


def world_of(folder: Path, service: dict[str, Any], **world: Any) -> World:
    spec = {"grid": RECTANGLE, "services": {"one": service}} | world
    return WorldSpec.model_validate(spec).build(7, Place(folder))


def points_file(folder: Path, x_km: FloatArray, y_km: FloatArray, name: str = "points.csv") -> str:
    rows = [f"{x},{y}" for x, y in zip(x_km.tolist(), y_km.tolist(), strict=True)]
    (folder / name).write_text("\n".join(["x,y", *rows]) + "\n")
    return name


def fault_of(folder: Path, service: dict[str, Any], **world: Any) -> str:
    """Return the code of the error of a service that is rejected."""
    try:
        world_of(folder, service, **world)
    except InvalidValue as error:
        return error.code
    except ValidationError as error:
        return str(error.errors()[0]["ctx"]["error"].code)
    raise AssertionError("the service is accepted")


# Nearest points --------------------------------------------------------------------------------------------------


def nearest_sets(x_km: FloatArray, y_km: FloatArray, k: int) -> list[set[int]]:
    """Return the k nearest points of each cell by sorting all pairs by distance, to 1 mm, and by number."""
    sets = []
    for x, y in zip(GRID.x_km, GRID.y_km, strict=True):
        away = np.round(np.hypot(x_km - x, y_km - y), 6)
        sets.append(set(np.lexsort((np.arange(x_km.size), away))[:k].tolist()))
    return sets


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-2, 12), st.integers(-2, 10)), min_size=1, max_size=25),
    st.integers(1, 25),
)
def test_nearest_points_by_sorting_all_pairs(halves: list[tuple[int, int]], k: int) -> None:
    """Coordinates in multiples of 0.5 km give many ties and repeated points."""
    x_km, y_km = np.array(halves, dtype=float).T / 2
    k = min(k, x_km.size)
    service = NearestPoints(GRID, x_km=x_km, y_km=y_km, k=k)
    sets = nearest_sets(x_km, y_km, k)
    assert [set(own) for own in service.true_answers.tolist()] == sets
    expected = [[1 - len(true & other) / k for other in sets] for true in sets]
    np.testing.assert_allclose(service.matrix(), expected, atol=1e-12)


def test_planted_fault_of_ties_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the treatment of ties, the tree returns any of the points at the same distance."""
    x_km, y_km = np.tile(GRID.x_km, 4), np.tile(GRID.y_km, 4)
    sets = nearest_sets(x_km, y_km, 3)
    assert [set(own) for own in NearestPoints(GRID, x_km=x_km, y_km=y_km, k=3).true_answers.tolist()] == sets
    monkeypatch.setattr("sim.world.services.nearest_points._TIE_KM", -1.0)
    assert [set(own) for own in NearestPoints(GRID, x_km=x_km, y_km=y_km, k=3).true_answers.tolist()] != sets


# Extra travel ----------------------------------------------------------------------------------------------------


def trips_km(roads: Roads, x_km: FloatArray, y_km: FloatArray) -> FloatArray:
    """Return the length of the trip from each cell to each point by the shortest paths of networkx."""
    lengths = dict(nx.all_pairs_dijkstra_path_length(roads.graph, weight="length_km"))
    table = np.empty((GRID.n_cells, x_km.size))
    for cell, point in np.ndindex(*table.shape):
        ends = [(GRID.x_km[cell], GRID.y_km[cell]), (x_km[point], y_km[point])]
        nodes = [int(roads.nearest_node(*end)) for end in ends]
        straight = [
            np.hypot(x - roads.x_km[node], y - roads.y_km[node]) for (x, y), node in zip(ends, nodes, strict=True)
        ]
        table[cell, point] = lengths[nodes[0]][nodes[1]] + sum(straight)
    return table


@pytest.mark.parametrize("seed", range(3))
def test_extra_travel_by_shortest_paths(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x_km, y_km = rng.uniform(0, 5, 12).round(3), rng.uniform(0, 4, 12).round(3)
    world = world_of(
        tmp_path, {"kind": "extra_travel", "file": points_file(tmp_path, x_km, y_km), "columns": KM}, roads=LATTICE
    )
    assert world.roads is not None
    trips = trips_km(world.roads, x_km, y_km)
    chosen = trips.argmin(axis=1)
    expected = trips[:, chosen] - trips.min(axis=1)[:, None]
    service = world.services["one"]
    assert service.true_answers[:, 0].tolist() == chosen.tolist()
    matrix = service.matrix()
    np.testing.assert_allclose(matrix, expected, atol=1e-9)
    assert (matrix >= 0).all()
    assert not matrix.diagonal().any()
    assert not np.allclose(matrix, matrix.T)


def test_points_at_one_node(tmp_path: Path) -> None:
    """Of several points at the same node and distance, the first in the file is the answer."""
    roads = world_of(tmp_path, {"kind": "zone", "labels": labels_file(tmp_path)}, roads=LATTICE).roads
    assert roads is not None
    x_km, y_km = np.full(3, roads.x_km[4]), np.full(3, roads.y_km[4])
    service = ExtraTravel(GRID, roads=roads, x_km=x_km + np.array([0.01, 0, 0]), y_km=y_km)
    assert set(service.true_answers[:, 0].tolist()) == {1}
    assert not service.matrix().any()


# Zones -----------------------------------------------------------------------------------------------------------


def labels_file(folder: Path, name: str = "labels.csv") -> str:
    """Write the labels A, B and C of the cells by column: 2, 2 and 1 columns."""
    lines = [f"{cell},{'AABBC'[cell % 5]}" for cell in range(20)]
    (folder / name).write_text("\n".join(["cell,label", *lines]) + "\n")
    return name


def test_zones_of_cells(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"kind": "zone", "labels": labels_file(tmp_path)}
    column = np.arange(20) % 5
    zone = np.array([0, 0, 1, 1, 2])[column]
    service = world_of(tmp_path, spec).services["one"]
    assert (service.matrix() == (zone[:, None] != zone)).all()
    assert service.answers(np.array([-9.0, 4.9]), np.array([0.5, 3.9])).tolist() == [[0], [2]]
    priced = world_of(tmp_path, spec | {"tariffs": {"A": 2.5, "B": 3.0, "C": 4}}).services["one"]
    tariff = np.array([2.5, 3.0, 4.0])[zone]
    assert (priced.matrix() == np.abs(tariff[:, None] - tariff)).all()
    assert (priced.unit, np.isnan(priced.unanswered)) == ("tariff", True)


def square(west: float, south: float, side: float, zone: str) -> dict[str, Any]:
    ring = [[west, south], [west + side, south], [west + side, south + side], [west, south + side], [west, south]]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    return {"type": "Feature", "properties": {"zone": zone}, "geometry": geometry}


def zones_file(folder: Path) -> str:
    """Write two zones; the first has two parts and overlaps the second one. The last column is outside."""
    squares = [
        square(-122.04, 37.0, 0.02, "inner"),
        square(-122.04, 37.02, 0.02, "inner"),
        square(-122.04, 37, 0.03, "b"),
    ]
    (folder / "zones.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": squares}))
    return "zones.geojson"


def test_zones_of_polygons(tmp_path: Path) -> None:
    pytest.importorskip("shapely", reason="polygons need shapely")
    spec: dict[str, Any] = {"kind": "zone", "file": zones_file(tmp_path), "label": "zone"}
    service = world_of(tmp_path, spec, grid=REGION).services["one"]
    expected = [[0, 0, 1, 2]] * 3 + [[0, 0, 2, 2]]
    assert service.true_answers.reshape(4, 4).tolist() == expected
    priced = world_of(tmp_path, spec | {"tariffs": {"inner": 3, "b": 2}}, grid=REGION).services["one"]
    assert priced.matrix()[0, :4].tolist() == [0, 0, 1, 3]
    numbered = world_of(tmp_path, {"kind": "zone", "file": "zones.geojson"}, grid=REGION).services["one"]
    assert numbered.true_answers.reshape(4, 4)[:, 0].tolist() == [0, 0, 1, 1]


# All services ----------------------------------------------------------------------------------------------------


def all_services(folder: Path) -> dict[str, Service]:
    rng = np.random.default_rng(1)
    file = points_file(folder, rng.uniform(0, 5, 9).round(3), rng.uniform(0, 4, 9).round(3))
    nearest = {"kind": "nearest_points", "file": file, "columns": KM, "k": 3}
    travel = {"kind": "extra_travel", "file": file, "columns": KM}
    zone = {"kind": "zone", "labels": labels_file(folder)}
    specs = {"nearest": nearest, "travel": travel, "zone": zone}
    specs |= {f"any {name}": {"kind": "answer_changes", "service": spec} for name, spec in specs.items()}
    return dict(world_of(folder, zone, roads=LATTICE, services=specs).services)


def test_a_true_report_costs_nothing_and_any_loss_is_a_change(tmp_path: Path) -> None:
    for name, service in all_services(tmp_path).items():
        matrix = service.matrix()
        changed = np.array([service.changed(cell, service.true_answers) for cell in range(20)])
        assert not matrix.diagonal().any(), name
        assert (matrix >= 0).all(), name
        assert (changed | (matrix == 0)).all(), name
        assert matrix.any(), name
        if service.unit != "km":
            assert matrix.max() <= 1, name
        if name.startswith("any"):
            assert (matrix == changed).all(), name


def test_quality_distance_of_a_service(tmp_path: Path) -> None:
    for name, service in all_services(tmp_path).items():
        spec: dict[str, Any] = {"kind": "zone", "labels": "labels.csv"}
        if "nearest" in name or "travel" in name:
            spec = {"kind": "extra_travel", "file": "points.csv", "columns": KM}
            spec |= {"kind": "nearest_points", "k": 3} if "nearest" in name else {}
        spec = {"kind": "answer_changes", "service": spec} if name.startswith("any") else spec
        distance = {"kind": "service", "service": spec, "km_per_unit": 2.5}
        world = WorldSpec.model_validate({"grid": RECTANGLE, "roads": LATTICE, "quality_distance": distance})
        built = world.build(7, Place(tmp_path)).quality_distance
        np.testing.assert_array_equal(built.matrix_km, 2.5 * service.matrix())


def test_rejected_services(tmp_path: Path) -> None:
    far = points_file(tmp_path, np.array([-122.0]), np.array([37.0]), "far.csv")
    near = points_file(tmp_path, np.array([1.0, 2.0]), np.array([1.0, 3.0]))
    nearest = {"kind": "nearest_points", "columns": KM}
    labels = {"kind": "zone", "labels": labels_file(tmp_path)}
    assert fault_of(tmp_path, nearest | {"file": far}) == "points-outside"
    assert fault_of(tmp_path, nearest | {"file": near, "k": 3}) == "out-of-range"
    assert fault_of(tmp_path, {"kind": "nearest_points", "file": near}) == "no-such-column"
    travel = {"kind": "extra_travel", "file": near, "columns": KM}
    assert fault_of(tmp_path, travel) == "no-roads"
    assert fault_of(tmp_path, {"kind": "answer_changes", "service": travel}) == "no-roads"
    assert fault_of(tmp_path, {"kind": "zone"}) == "missing-key"
    assert fault_of(tmp_path, labels | {"file": "labels.csv"}) == "exclusive-keys"
    assert fault_of(tmp_path, labels | {"label": "name"}) == "unused-key"
    assert fault_of(tmp_path, labels | {"tariffs": {"A": 1, "B": 1}}) == "wrong-tariffs"
    assert fault_of(tmp_path, labels | {"tariffs": {"A": 1, "B": 1, "C": 1, "D": 1}}) == "wrong-tariffs"
    assert isinstance(world_of(tmp_path, labels).services["one"], Zones)
