"""GeoJSON, KML and GeoParquet: the same features, valid files, escaped names."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest

from sim.storage.errors import RequestError
from sim.storage.export import Format, export
from sim.storage.geographic import features
from tests.storage.places import PLANE, SPACES, a_run
from tests.support import HOSTILE, raises_code

KML = "{http://www.opengis.net/kml/2.2}"
Feature = tuple[dict[str, Any], list[tuple[float, float]]]

N_TRUTHS = 2 * (3 * len(SPACES) + 1 - len(SPACES))
"""Queries of two parts; two attacks of the first user are one query."""


def from_geojson(path: Path) -> list[Feature]:
    content = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert content["type"] == "FeatureCollection"
    return [(feature["properties"], _points(feature["geometry"])) for feature in content["features"]]


def _points(geometry: dict[str, Any] | None) -> list[tuple[float, float]]:
    if geometry is None:
        return []
    assert geometry["type"] in ("Point", "MultiPoint")
    points = [geometry["coordinates"]] if geometry["type"] == "Point" else geometry["coordinates"]
    return [(x, y) for x, y in points]


def from_kml(path: Path) -> list[Feature]:
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{KML}kml"
    shown = []
    for placemark in root.iter(f"{KML}Placemark"):
        # The order of the KML schema.
        assert [child.tag.removeprefix(KML) for child in placemark][:3] == ["name", "styleUrl", "ExtendedData"]
        data = {one.attrib["name"]: one.findtext(f"{KML}value") for one in placemark.iter(f"{KML}Data")}
        texts = [one.text or "" for one in placemark.iter(f"{KML}coordinates")]
        pairs = [tuple(map(float, text.split(","))) for text in texts]
        shown.append((data, [(x, y) for x, y in pairs]))
        style = placemark.findtext(f"{KML}styleUrl") or ""
        assert root.find(f".//{KML}Style[@id='{style[1:]}']") is not None
    return shown


def from_geoparquet(path: Path) -> list[Feature]:
    return [
        ({key: value for key, value in row.items() if key != "geometry" and value is not None}, parsed(row["geometry"]))
        for row in pq.read_table(path).to_pylist()
    ]


def parsed(wkb: bytes | None) -> list[tuple[float, float]]:
    """Parse well-known binary independently of the writer."""
    if wkb is None:
        return []
    order, kind = struct.unpack_from("<BI", wkb)
    assert order == 1
    if kind == 1:
        assert len(wkb) == 21
        return [struct.unpack_from("<dd", wkb, 5)]
    (count,) = struct.unpack_from("<I", wkb, 5)
    assert (kind, len(wkb)) == (4, 9 + 21 * count)
    return [point for i in range(count) for point in parsed(wkb[9 + 21 * i : 30 + 21 * i])]


READERS = {"geojson": from_geojson, "kml": from_kml, "geoparquet": from_geoparquet}


@pytest.fixture(params=READERS)
def shown(request: pytest.FixtureRequest, tmp_path: Path) -> list[Feature]:
    exported = export(a_run(tmp_path / "run"), tmp_path / "x", request.param)
    read = READERS[request.param](exported.path)
    assert exported.rows == len(read)
    return read


def of_role(shown: list[Feature], role: str) -> list[Feature]:
    return [feature for feature in shown if feature[0]["role"] == role]


def test_truth_and_report_are_one_feature_per_query(shown: list[Feature]) -> None:
    assert len(of_role(shown, "truth")) == len(of_role(shown, "report")) == N_TRUTHS
    assert len(of_role(shown, "estimate")) == 2 * (3 * len(SPACES) + 1)
    assert all("attack" not in properties for properties, _ in of_role(shown, "truth"))


def test_positions(shown: list[Feature]) -> None:
    (truths,) = {tuple(points) for _, points in of_role(shown, "truth")}
    np.testing.assert_allclose(truths, [(178.5, 0.5)], atol=1e-7)
    expected = {
        "cells": [(179.5, 1.5)],
        "nothing": [],
        "regions": [(178.5, 1.5), (179.5, 1.5)],
        "sets": [(178.5, 0.5), (179.5, 0.5), (179.5, 1.5)],
        "points": [(-179.5, 0.0)],
        "places": [(178.0, 2.0)],
    }
    seen = set()
    for properties, points in of_role(shown, "report"):
        places = expected[properties["lppm"]]
        np.testing.assert_allclose(np.reshape(points, (-1, 2)), np.reshape(places, (-1, 2)), atol=1e-5)
        several = properties["lppm"] in ("regions", "sets")
        assert int(properties["cells"]) == (len(places) if several else bool(places))
        seen.add(properties["lppm"])
    assert seen == set(expected)


def test_names_are_literal(shown: list[Feature]) -> None:
    assert {properties["user"] for properties, _ in shown} == {HOSTILE[0], HOSTILE[1]}


def test_revised_estimates_name_their_query(shown: list[Feature]) -> None:
    revised = [p for p, _ in of_role(shown, "estimate") if int(p["estimated_index"]) < int(p["index"])]
    assert [int(properties["cell"]) for properties in revised] == [3, 3]


def test_batches_do_not_change_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path / "run")
    whole = export(run, tmp_path / "whole", "geojson").path.read_bytes()
    monkeypatch.setattr(features, "_BATCH", 3)
    assert export(run, tmp_path / "batches", "geojson").path.read_bytes() == whole


def test_geoparquet_metadata(tmp_path: Path) -> None:
    path = export(a_run(tmp_path / "run"), tmp_path / "x.parquet", "geoparquet").path
    metadata = pq.read_schema(path).metadata
    geo = json.loads(metadata[b"geo"])
    assert geo["version"] == "1.1.0"
    column = geo["columns"][geo["primary_column"]]
    assert column["encoding"] == "WKB"
    assert column["geometry_types"] == ["MultiPoint", "Point"]
    assert "crs" not in column  # longitude and latitude in WGS 84
    every = np.array([point for _, points in from_geoparquet(path) for point in points])
    assert column["bbox"] == [*every.min(axis=0), *every.max(axis=0)]
    assert json.loads(metadata[b"lppm-sim"])["scenario"]["name"] == "placed"


def test_a_plane_is_geoparquet_without_reference_system(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", grid=PLANE)
    path = export(run, tmp_path / "x.parquet", "geoparquet").path
    geo = json.loads(pq.read_schema(path).metadata[b"geo"])
    assert geo["columns"]["geometry"]["crs"] is None
    assert of_role(from_geoparquet(path), "truth")[0][1] == [(0.5, 0.5)]


@pytest.mark.parametrize("form", ["geojson", "kml"])
def test_a_plane_is_refused_by_formats_in_degrees(form: Format, tmp_path: Path) -> None:
    with raises_code(RequestError, "no-coordinates"):
        export(a_run(tmp_path / "run", grid=PLANE), tmp_path / "x", form)
    assert not (tmp_path / "x").exists()


def test_control_characters_do_not_break_kml(tmp_path: Path) -> None:
    from tests.storage.places import row

    run = a_run(tmp_path / "run", log=[row("cells", user="a\x00\x1b\ufffe]]>b")])
    shown = from_kml(export(run, tmp_path / "x.kml", "kml").path)
    assert {properties["user"] for properties, _ in shown} == {"a���]]>b"}


def test_geojson_has_one_feature_per_line(tmp_path: Path) -> None:
    exported = export(a_run(tmp_path / "run"), tmp_path / "x", "geojson")
    lines = exported.path.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if re.match(r'\{"type": "Feature"', line)]) == exported.rows
