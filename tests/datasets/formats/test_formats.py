"""Every format: rows, invalid rows, recognition by content, and wrong formats."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from sim.datasets import files
from sim.datasets.formats import FORMATS, candidates, detect
from sim.datasets.formats.base import Options
from sim.datasets.importing import import_traces
from sim.errors import InputError, UserError
from tests.datasets.formats.samples import MATSIM_NETWORK, SAMPLES, Sample, matsim
from tests.support import done, raises_code, refused

CASES = {f"{name} {variant}": (name, sample) for name, own in SAMPLES.items() for variant, sample in own.items()}


def rows(path: Path) -> list[tuple[Any, ...]]:
    table = pq.read_table(path).to_pydict()
    table.pop("location", None)
    return list(zip(*table.values(), strict=True))


def imported(name: str | None, path: Path, out: Path, **options: Any) -> Any:
    return import_traces(name, [path], out, region=None, options=Options(**options), overwrite=True)


def equal(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    same = [a[:2] for a in ours] == [b[:2] for b in theirs]
    return same and np.allclose([a[2:] for a in ours], [b[2:] for b in theirs], rtol=0, atol=1e-12)


def test_every_format_has_a_sample() -> None:
    ours = {*SAMPLES, "matsim", "brightkite", "gowalla", "cabspotting"}  # the last three are in test_importing
    assert ours == set(FORMATS)


@pytest.mark.parametrize(("name", "sample"), CASES.values(), ids=CASES.keys())
def test_rows_and_counts(tmp_path: Path, name: str, sample: Sample) -> None:
    path = sample.write(tmp_path)
    counts = imported(name, path, tmp_path / "out.parquet", **sample.options)
    assert equal(rows(tmp_path / "out.parquet"), sample.rows)
    assert counts.unreadable == sample.invalid
    assert sum(counts.ignored.values()) == sample.ignored
    assert counts.lines == len(sample.rows) + sample.invalid
    if sample.invalid:
        assert counts.first_unreadable[0].startswith(sample.first_invalid)


@pytest.mark.parametrize(("name", "sample"), CASES.values(), ids=CASES.keys())
def test_format_is_recognised_by_content(tmp_path: Path, name: str, sample: Sample) -> None:
    path = sample.write(tmp_path)
    fitting = candidates(path) if path.is_file() else [detect([path])]
    assert fitting == (["columns"] if name == "geolife" and sample.ambiguous else [] if sample.ambiguous else [name])


@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize(("name", "sample"), CASES.values(), ids=CASES.keys())
def test_chunks_may_end_anywhere(
    tmp_path: Path, name: str, sample: Sample, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sample.write(tmp_path)
    counts = imported(name, path, tmp_path / "whole.parquet", **sample.options)
    monkeypatch.setattr(files, "BLOCK", chunk)
    monkeypatch.setattr("sim.datasets.reader.check_format", lambda *_: None)
    monkeypatch.setattr("sim.datasets.importing.check_format", lambda *_: None)
    if name in ("sumo", "owntracks"):  # their heads are read from the first chunk
        monkeypatch.setattr(files, "BLOCK", 4096)
    other = imported(name, path, tmp_path / "parts.parquet", **sample.options)
    assert other == counts
    assert rows(tmp_path / "parts.parquet") == rows(tmp_path / "whole.parquet")


@pytest.mark.parametrize(("name", "sample"), CASES.values(), ids=CASES.keys())
def test_damaged_files_are_imported_or_rejected_with_a_code(tmp_path: Path, name: str, sample: Sample) -> None:
    path = sample.write(tmp_path)
    path = next(file for file in sorted(path.rglob("*")) if file.is_file()) if path.is_dir() else path
    content, rng = path.read_bytes(), np.random.default_rng(5)
    outcomes = set()
    for case in range(60):
        damaged = bytearray(content)
        if case % 3 == 0:
            damaged = damaged[: rng.integers(len(content))]
        for _ in range(case % 5):
            if damaged:
                damaged[rng.integers(len(damaged))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            imported(name, path, tmp_path / "out.parquet", **sample.options)
            outcomes.add("imported")
        except UserError as error:
            outcomes.add(error.code)
    assert len(outcomes) > 1
    assert not outcomes & {"failed", "invalid-input"}


def test_wrong_format_names_the_likely_one(tmp_path: Path) -> None:
    sumo, gpx = (SAMPLES[name][key].write(tmp_path) for name, key in (("sumo", "geo"), ("gpx", "track")))
    with raises_code(InputError, "wrong-format") as error:
        imported("gpx", sumo, tmp_path / "x.parquet")
    assert "sumo" in str(error.value)
    with raises_code(InputError, "wrong-format") as error:
        imported("tdrive", gpx, tmp_path / "x.parquet")
    assert "gpx" in str(error.value)
    (tmp_path / "a.txt").write_text("hello\n")
    with raises_code(InputError, "unknown-format"):
        detect([tmp_path / "a.txt"])
    (tmp_path / "checkins.txt").write_text("0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n")
    with raises_code(InputError, "ambiguous-format"):
        detect([tmp_path / "checkins.txt"])


def test_exchanged_coordinates_are_recognised_by_the_area(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    header = "TRIP_ID,CALL_TYPE,TAXI_ID,TIMESTAMP,MISSING_DATA,POLYLINE\n"
    path.write_text(header + '1,A,5,1372636858,False,"[[41.14,-8.61],[41.15,-8.62]]"\n')
    with raises_code(InputError, "columns-exchanged"):
        imported("porto", path, tmp_path / "x.parquet")


def test_options_that_a_format_does_not_use_are_rejected(tmp_path: Path) -> None:
    path = SAMPLES["porto"]["csv"].write(tmp_path)
    with raises_code(InputError, "option-not-used") as error:
        imported("porto", path, tmp_path / "x.parquet", user="a", crs="EPSG:4326")
    assert "--user" in str(error.value)
    assert "--crs" in str(error.value)
    cells = SAMPLES["yjmob100k"]["csv"].write(tmp_path)
    with raises_code(InputError, "option-not-used"):
        import_traces("yjmob100k", [cells], tmp_path / "x.parquet", region=(0, 1, 0, 1))


def test_digest_is_that_of_the_files(tmp_path: Path) -> None:
    for name in ("x.parquet", "ann.gpx"):
        sample = SAMPLES["columns"]["parquet"] if name == "x.parquet" else SAMPLES["gpx"]["track"]
        path = sample.write(tmp_path)
        imported("columns" if name == "x.parquet" else "gpx", path, tmp_path / "out.parquet", **sample.options)
        notes = json.loads(pq.read_schema(tmp_path / "out.parquet").metadata[b"lppm-sim"])
        assert notes["files"][0]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_matsim_events_on_their_network(tmp_path: Path) -> None:
    events = matsim(tmp_path)
    counts = imported("matsim", events, tmp_path / "x.parquet", network=tmp_path / "network.xml.gz")
    result = rows(tmp_path / "x.parquet")
    assert [row[:2] for row in result] == [("p", 21600), ("p", 21600), ("p", 21620), ("p", 21690)]
    # pyproj 3.7.2, EPSG:32632
    expected = [(48.13026955974837, 11.580478841024322)] * 3 + [(48.143600223755506, 11.587869619212857)]
    assert np.allclose([row[2:] for row in result], expected, rtol=0, atol=1e-9)
    assert counts.unreadable == 1  # the arrival on a link that is not in the network
    assert sum(counts.ignored.values()) == 5  # four other types, and a vehicle without persons
    assert detect([events]) == "matsim"
    with raises_code(InputError, "network-missing"):
        imported("matsim", events, tmp_path / "y.parquet")
    plain = tmp_path / "plain.xml"
    plain.write_text(MATSIM_NETWORK.replace("EPSG:32632", "Atlantis"))
    with raises_code(InputError, "unsupported-crs"):
        imported("matsim", events, tmp_path / "y.parquet", network=plain)
    imported("matsim", events, tmp_path / "y.parquet", network=plain, crs="EPSG:32632")
    assert rows(tmp_path / "y.parquet") == result


def test_sumo_in_metres_needs_a_place(tmp_path: Path) -> None:
    path = tmp_path / "fcd.xml"
    path.write_text('<fcd-export><timestep time="0"><vehicle id="a" x="1000" y="2000"/></timestep></fcd-export>')
    with raises_code(InputError, "crs-missing"):
        imported("sumo", path, tmp_path / "x.parquet")
    imported("sumo", path, tmp_path / "x.parquet", origin=(60.0, 10.0), start_s=100)
    ((user, time_s, lat, lon),) = rows(tmp_path / "x.parquet")
    assert (user, time_s) == ("a", 100)
    degree_m = 6371008.8 * np.pi / 180
    assert lat == pytest.approx(60 + 2000 / degree_m)
    assert lon == pytest.approx(10 + 1000 / (degree_m * 0.5))
    with raises_code(InputError, "options-exclude"):
        imported("sumo", path, tmp_path / "x.parquet", origin=(60.0, 10.0), crs="EPSG:4326")


def test_gpx_names_users_by_tracks_only_if_there_are_several(tmp_path: Path) -> None:
    point = '<trkseg><trkpt lat="1" lon="2"/></trkseg>'
    path = tmp_path / "a.gpx"
    path.write_text(f"<gpx><trk><name>b</name>{point}</trk><trk>{point}</trk></gpx>")
    imported("gpx", path, tmp_path / "x.parquet")
    assert rows(tmp_path / "x.parquet") == [("b", 0, 1.0, 2.0), ("2", 1, 1.0, 2.0)]
    assert "order" in pq.read_schema(tmp_path / "x.parquet").names
    imported("gpx", path, tmp_path / "x.parquet", user="me")
    assert {row[0] for row in rows(tmp_path / "x.parquet")} == {"me"}


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE gpx [<!ENTITY a "b">]><gpx><trk/></gpx>',
        "<gpx><trk>",
        "<gpx></gpx><gpx/>",
        "<kml></kml>",
    ],
)
def test_invalid_xml_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.gpx"
    path.write_text(text)
    with raises_code(InputError, "unreadable-file") as error:
        imported("gpx", path, tmp_path / "x.parquet")
    assert str(path) in str(error.value)


def test_commands(tmp_path: Path) -> None:
    path = SAMPLES["porto"]["csv"].write(tmp_path)
    out = done("data", "import", path, "-o", tmp_path / "a.parquet")
    assert "porto, recognised by the content" in out
    assert "2013-07-01 00:00:58" in out
    assert "trips with missing positions" in out
    named = done("data", "import", "porto", path, "-o", tmp_path / "b.parquet")
    assert "recognised" not in named
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    csv = SAMPLES["columns"]["csv"].write(tmp_path)
    columns = [word for pair in ("time=when", "lat=y", "lon=x") for word in ("--columns", pair)]
    assert "imported  2 rows" in done("data", "import", "columns", csv, "-o", tmp_path / "c.parquet", *columns)
    assert "[file-not-found]" in refused("data", "import", tmp_path / "none.csv", "-o", tmp_path / "d.parquet")
    assert "expected NAME=COLUMN" in refused("data", "import", csv, "-o", tmp_path / "d.parquet", "--columns", "time")
    assert "LAT,LON" in refused("data", "import", csv, "-o", tmp_path / "d.parquet", "--origin", "5")
    assert "seconds or ISO" in refused("data", "import", csv, "-o", tmp_path / "d.parquet", "--start", "noon")
    assert all(name in done("data", "formats") for name in FORMATS)
    assert "POLYLINE" in done("data", "formats", "porto")
    assert "[unknown-format]" in refused("data", "formats", "nothing")


def test_line_that_is_not_csv_is_not_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"user,ti\rme,lat,lon\n1,2,3,4\n")
    with raises_code(InputError, "missing-header"):
        imported("columns", path, tmp_path / "x.parquet")
