"""Kinds of locations: points, polygons, hexagons, quadtrees and parts of roads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from sim.components.files import Place
from sim.errors import InvalidValue
from sim.scenario.world import WorldSpec
from sim.world import Bounds, LocationSet, World
from sim.world.sets.quadtree import quadtree
from tests.support import raises_code

POINTS = "name,lat,lon,visits\nhome,37.70,-122.45,3\nwork,37.78,-122.40,1\n,37.75,-122.42,0\n"
LATTICE = {"kind": "lattice", "spacing_km": 2.0, "missing_share": 0.0, "one_way_share": 0.0}


def built(folder: Path, **world: Any) -> World:
    return WorldSpec.model_validate(world).build(1, Place(folder))


def located(folder: Path, **locations: Any) -> LocationSet:
    result = built(folder, locations=locations).locations
    assert isinstance(result, LocationSet)
    return result


def fault_of(folder: Path, world: dict[str, Any]) -> str:
    """Return the code of the error of a world that is rejected."""
    try:
        built(folder, **world)
    except InvalidValue as error:
        return error.code
    except ValidationError as error:
        return str(error.errors()[0]["ctx"]["error"].code)
    raise AssertionError("the world is accepted")


def file_of(folder: Path, content: str, name: str = "points.csv") -> str:
    (folder / name).write_text(content)
    return name


def polygon(west: float, south: float, side: float, **properties: Any) -> dict[str, Any]:
    ring = [[west, south], [west + side, south], [west + side, south + side], [west, south + side], [west, south]]
    return {
        "type": "Feature",
        "properties": properties,
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }


def collection(*features: dict[str, Any]) -> str:
    return json.dumps({"type": "FeatureCollection", "features": list(features)})


# Points ----------------------------------------------------------------------------------------------------------


def test_points_of_a_file(tmp_path: Path) -> None:
    points = located(tmp_path, kind="points", file=file_of(tmp_path, POINTS))
    assert points.labels == ("home", "work", "")
    assert points.weights is not None
    assert points.weights.tolist() == [3.0, 1.0, 0.0]
    assert points.bounds == Bounds(37.70, 37.78, -122.45, -122.40)
    assert points.cell_of([37.701, 37.751, 37.9], [-122.45, -122.42, -122.42]).tolist() == [0, 2, -1]


def test_points_in_km(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a,b,lat,lon\n-1,5,0,0\n2,7,0,0\n")
    points = located(tmp_path, kind="points", file=file, columns={"x_km": "a", "y_km": "b"}, reach_km=0.5)
    assert (points.x_km.tolist(), points.y_km.tolist(), points.bounds) == ([0, 3], [0, 2], None)


def test_the_default_distance_between_scattered_locations_is_euclidean(tmp_path: Path) -> None:
    file = file_of(tmp_path, POINTS)
    world = built(tmp_path, locations={"kind": "points", "file": file}, privacy_distance="manhattan")
    assert (world.privacy_distance.kind, world.quality_distance.kind) == ("manhattan", "euclidean")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("lat,lon\n", "wrong-number-of-points"),
        ("lat,long_name\n1,2\n", "no-such-column"),
        ("lat,lon\n37,-122\n95,-122\n", "invalid-row"),
        ("lat,lon\n37,-122\nx,-122\n", "invalid-row"),
        ("lat,lon,weight\n37,-122,-1\n", "invalid-row"),
    ],
)
def test_faulty_files_of_points(content: str, code: str, tmp_path: Path) -> None:
    with raises_code(InvalidValue, code) as error:
        located(tmp_path, kind="points", file=file_of(tmp_path, content))
    assert "points.csv" in str(error.value)


# Areas -----------------------------------------------------------------------------------------------------------


def test_polygons_contain_their_positions(tmp_path: Path) -> None:
    pytest.importorskip("shapely", reason="shapely is not installed")
    features = polygon(0, 0, 1, name="a", people=7), polygon(1, 0, 1, name="b", people=2), polygon(0.5, 0, 1, name="c")
    features[2]["properties"]["people"] = 0.5
    file = file_of(tmp_path, collection(*features), "wards.geojson")
    wards = located(tmp_path, kind="polygons", file=file, weight="people")
    assert wards.labels == ("a", "b", "c")
    assert wards.weights is not None
    assert wards.weights.tolist() == [7, 2, 0.5]
    # The border of a and b, which c contains too, belongs to the first; so does every overlap.
    assert wards.cell_of([0.5, 0.5, 0.5, 3.0], [0.9, 1.0, 1.2, 1.0]).tolist() == [0, 0, 1, -1]
    assert wards.cell_of_km(wards.x_km, wards.y_km).tolist() == [0, 1, 0]


def test_the_position_of_a_polygon_is_inside_it(tmp_path: Path) -> None:
    pytest.importorskip("shapely", reason="shapely is not installed")
    ring = [[0, 0], [3, 0], [3, 3], [2, 3], [2, 1], [1, 1], [1, 3], [0, 3], [0, 0]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    horseshoe = located(tmp_path, kind="polygons", file=file_of(tmp_path, json.dumps(shape), "shape.geojson"))
    assert horseshoe.cell_of_km(horseshoe.x_km, horseshoe.y_km).tolist() == [0]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("not json", "unreadable-file"),
        (collection(), "invalid-area"),
        (json.dumps({"type": "Point", "coordinates": [0, 0]}), "invalid-area"),
        (collection(polygon(170, 0, 20)), "invalid-area"),
        (json.dumps({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]]]}), "invalid-area"),
    ],
)
def test_faulty_polygons(content: str, code: str, tmp_path: Path) -> None:
    pytest.importorskip("shapely", reason="shapely is not installed")
    with raises_code(InvalidValue, code):
        located(tmp_path, kind="polygons", file=file_of(tmp_path, content, "wards.geojson"))


def test_hexagons_are_those_of_h3(tmp_path: Path) -> None:
    h3 = pytest.importorskip("h3", reason="h3 is not installed")
    pytest.importorskip("shapely", reason="shapely is not installed")
    region = {"south": 37.70, "north": 37.76, "west": -122.46, "east": -122.40}
    hexagons = located(tmp_path, kind="hexagons", resolution=8, **region)
    assert hexagons.labels is not None
    rng = np.random.default_rng(1)
    lat, lon = rng.uniform(37.70, 37.76, 500), rng.uniform(-122.46, -122.40, 500)
    expected = [h3.latlng_to_cell(*at, 8) for at in zip(lat.tolist(), lon.tolist(), strict=True)]
    assert [hexagons.labels[cell] for cell in hexagons.cell_of(lat, lon).tolist()] == expected
    wards = file_of(tmp_path, collection(polygon(-122.46, 37.70, 0.05)), "wards.geojson")
    within = located(tmp_path, kind="hexagons", resolution=8, file=wards)
    assert within.labels is not None
    assert set(within.labels) < set(hexagons.labels)


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({}, "missing-key"),
        ({"south": 1.0}, "missing-key"),
        ({"south": 1.0, "north": 0.0, "west": 0.0, "east": 1.0}, "invalid-region"),
        ({"resolution": 15, "south": 0.0, "north": 9.0, "west": 0.0, "east": 9.0}, "too-many-cells"),
    ],
)
def test_faulty_regions_of_hexagons(keys: dict[str, Any], code: str, tmp_path: Path) -> None:
    pytest.importorskip("h3", reason="h3 is not installed")
    pytest.importorskip("shapely", reason="shapely is not installed")
    assert fault_of(tmp_path, {"locations": {"kind": "hexagons", "resolution": 5} | keys}) == code


# Quadtree --------------------------------------------------------------------------------------------------------


def test_quadtrees_divide_rectangles_with_many_positions() -> None:
    rng = np.random.default_rng(2)
    bounds = Bounds(0.0, 0.09, 0.0, 0.09)
    width_km, height_km = bounds.size_km
    x_km, y_km = rng.beta(2, 8, 3000) * width_km, rng.beta(5, 2, 3000) * height_km
    tree = quadtree(x_km, y_km, bounds, most_positions=100, depth=5)
    assert tree.outlines is not None
    assert tree.weights is not None
    cells = tree.cell_of_km(x_km, y_km)
    assert cells.min() >= 0
    assert tree.weights.tolist() == np.bincount(cells, minlength=tree.n_cells).tolist()
    sides = np.array([outline.max(axis=0) - outline.min(axis=0) for outline in tree.outlines])
    assert sides.prod(axis=1).sum() == pytest.approx(width_km * height_km)
    # Every rectangle is small enough or has few positions; the parent of every rectangle had too many.
    smallest = np.array([width_km, height_km]) / 32
    assert ((tree.weights <= 100) | np.isclose(sides, smallest).all(axis=1)).all()
    for side, outline in zip(sides, tree.outlines, strict=True):
        if np.allclose(side, (width_km, height_km)):
            continue
        corner = np.floor(outline.min(axis=0) / (2 * side) + 1e-9) * 2 * side
        inside = (x_km >= corner[0]) & (x_km < corner[0] + 2 * side[0])
        inside &= (y_km >= corner[1]) & (y_km < corner[1] + 2 * side[1])
        assert inside.sum() > 100
    # Positions belong to the rectangle that contains them.
    low, high = (np.array([f(outline, axis=0) for outline in tree.outlines]) for f in (np.min, np.max))
    assert ((x_km >= low[cells, 0] - 1e-9) & (x_km <= high[cells, 0] + 1e-9)).all()
    assert ((y_km >= low[cells, 1] - 1e-9) & (y_km <= high[cells, 1] + 1e-9)).all()
    assert tree.cell_of_km([-0.1, width_km + 0.1], [1.0, 1.0]).tolist() == [-1, -1]


def test_quadtrees_of_files(tmp_path: Path) -> None:
    tree = located(tmp_path, kind="quadtree", file=file_of(tmp_path, POINTS), most_positions=1, least_m=1000)
    assert tree.weights is not None
    assert tree.weights.sum() == 3
    assert tree.weights.max() == 1


# Roads -----------------------------------------------------------------------------------------------------------


def test_nodes_of_the_roads(tmp_path: Path) -> None:
    world = built(tmp_path, locations={"kind": "road_nodes"}, roads=LATTICE, quality_distance="road")
    assert world.roads is not None
    assert world.locations.x_km.tolist() == world.roads.x_km.tolist()
    assert world.roads.cell.tolist() == list(range(world.n_cells))
    length_km = world.roads.distances_km([3])[0]
    np.testing.assert_allclose(world.quality_distance.row_km(3), length_km, rtol=1e-12)


def test_segments_of_the_roads(tmp_path: Path) -> None:
    pytest.importorskip("shapely", reason="shapely is not installed")
    segments = {"kind": "road_segments", "longest_m": 900.0, "reach_km": 0.2}
    world = built(tmp_path, locations=segments, roads=LATTICE)
    assert isinstance(world.locations, LocationSet)
    assert world.roads is not None
    assert world.locations.outlines is not None
    lines = np.array(world.locations.outlines)
    lengths_km = np.hypot(*(lines[:, 1] - lines[:, 0]).T)
    edges = {tuple(sorted(edge)) for edge in world.roads.graph.edges}
    total_km = sum(world.roads.graph.edges[edge]["length_km"] for edge in world.roads.graph.edges if edge[0] < edge[1])
    assert lengths_km.max() <= 0.9
    assert lengths_km.sum() == pytest.approx(total_km)
    assert world.n_cells > len(edges)
    beside = lines.mean(axis=1) + 0.05
    nearest = world.locations.cell_of_km(beside[:, 0], beside[:, 1])
    assert (nearest == np.arange(world.n_cells)).mean() > 0.95
    centre = lines[0].mean(axis=0) + 1.0
    assert world.locations.cell_of_km(*centre) == -1


@pytest.mark.parametrize(
    ("world", "code"),
    [
        ({"locations": {"kind": "road_nodes"}}, "no-roads"),
        ({"locations": {"kind": "road_nodes"}, "roads": LATTICE, "grid": "san_francisco"}, "exclusive-keys"),
    ],
)
def test_worlds_that_contradict_themselves(world: dict[str, Any], code: str, tmp_path: Path) -> None:
    assert fault_of(tmp_path, world) == code
