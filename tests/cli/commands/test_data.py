"""The commands `data import` and `data describe`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread

from sim.datasets.describing import describe, load
from sim.datasets.formats import text
from sim.datasets.picture import picture
from sim.errors import InputError
from tests import support

HOSTILE = "[red]a\x1b[2J$x_1$"


def done(*words: str | Path) -> str:
    return support.done("data", *words)


def refused(*words: str | Path) -> str:
    return support.refused("data", *words)


def checkins(path: Path, users: dict[str, int], *, default: int = 0) -> Path:
    """Write the given number of check-ins per user, spread over the region, and `default` check-ins at one point."""
    rng = np.random.default_rng(1)
    lines = []
    for user, count in users.items():
        lat, lon = rng.uniform(37.56, 37.8, count), rng.uniform(-122.5, -122.38, count)
        lines += [
            f"{user}\t2010-10-{1 + i % 28:02d}T00:00:00Z\t{y:.5f}\t{x:.5f}\tp\n"
            for i, (y, x) in enumerate(zip(lat, lon, strict=True))
        ]
    lines += ["0\t2010-10-19T23:55:27Z\t37.774929\t-122.419415\td\n"] * default
    path.write_text("".join(lines))
    return path


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    raw = checkins(tmp_path / "loc.txt", {"0": 300, HOSTILE: 300, "2": 5}, default=100)
    done("import", "brightkite", raw, "-o", tmp_path / "traces.parquet")
    return tmp_path / "traces.parquet"


def test_import_reports_imported_and_invalid_lines(tmp_path: Path) -> None:
    raw = checkins(tmp_path / "loc.txt", {"0": 20})
    with raw.open("a") as file:
        file.write("0\t2010-10-19T23:55:27Z\t0\t0\t0\n\x1b[2J\n0\t2010-10-01T00:00:00Z\tx[red]y\t-122.4\tp\n")
        file.write("0\t2010-10-19T23:55:27Z\t37.6\t-122.4\tp\n" * 2)
    out = done("import", "gowalla", raw, "-o", tmp_path / "x.parquet")
    assert out.splitlines()[0].split() == ["lines", "25"]
    assert "invalid  2 lines" in out
    assert "loc.txt:22: " in out
    assert r"found 1: '\x1b[2J'" in out
    assert "loc.txt:23: lat " in out
    assert "found 'x[red]y'" in out
    assert "outside  1 row outside" in out
    assert "the region is lat 37.55 to 37.801, lon -122.5153 to -122.3789" in out
    assert "imported  22 rows of 1 user" in out
    assert "1 row that repeats another row" in out
    assert f"wrote  {tmp_path / 'x.parquet'}" in out
    assert "\x1b" not in out


def test_import_of_another_region(tmp_path: Path) -> None:
    raw = checkins(tmp_path / "loc.txt", {"0": 200})
    out = done("import", "gowalla", raw, "-o", tmp_path / "x.parquet", "--region", "37.6,37.7,-122.45,-122.4")
    assert "the region is lat 37.6 to 37.7, lon -122.45 to -122.4" in out
    rows = pq.read_table(tmp_path / "x.parquet").to_pydict()
    assert 0 < len(rows["lat"]) < 200
    assert min(rows["lat"]) >= 37.6
    assert max(rows["lon"]) <= -122.4
    south = done("import", "gowalla", raw, "-o", tmp_path / "y.parquet", "--region", "-90,90,-180,180")
    everything = done("import", "gowalla", raw, "-o", tmp_path / "z.parquet", "--region", "all")
    assert "imported  200 rows" in south
    assert "imported  200 rows" in everything
    assert "outside" not in everything


@pytest.mark.parametrize("region", ["1,2,3", "a,b,c,d", "2,1,3,4", "1,2,3,181", "nan,2,3,4", ""])
def test_invalid_regions_are_rejected(tmp_path: Path, region: str) -> None:
    raw = checkins(tmp_path / "loc.txt", {"0": 2})
    assert f"found {region!r}" in refused("import", "gowalla", raw, "-o", tmp_path / "x.parquet", "--region", region)
    assert not (tmp_path / "x.parquet").exists()


def test_existing_file_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    raw, out = checkins(tmp_path / "loc.txt", {"0": 2}), tmp_path / "x.parquet"
    done("import", "gowalla", raw, "-o", out)
    before = out.read_bytes()
    checkins(raw, {"0": 3})
    assert "[file-exists]" in refused("import", "gowalla", raw, "-o", out)
    assert out.read_bytes() == before
    done("import", "gowalla", raw, "-o", out, "--overwrite")
    assert out.read_bytes() != before


def test_interrupt_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    raw = checkins(tmp_path / "loc.txt", {"0": 2})
    monkeypatch.setattr(text, "parse", interrupt)
    result = support.lppm_sim("data", "import", "gowalla", raw, "-o", tmp_path / "x.parquet")
    assert result.exit_code == 1
    assert "[interrupted]" in result.stderr
    assert list(tmp_path.iterdir()) == [raw]


# Describe --------------------------------------------------------------------------------------------------------


def test_describe_prints_users_rows_and_region(traces: Path) -> None:
    out = done("describe", traces)
    assert "rows  705 of 3 users" in out
    assert "2010-10-01 00:00:00 to 2010-10-28 00:00:00 UTC, 27.0 days" in out
    assert "of 250 cells of the paper's grid" in out
    assert "2 users have at least 300 rows in the region" in out
    assert "min 5, 25% 5, median 300, 75% 300, 90% 300, max 400 rows; maximum: user 0, 400 rows" in out
    assert "37.774929, -122.419415: 100 rows, 14.2%" in out
    assert "note: 14% of the rows in the region are at one point (37.774929, -122.419415)" in out
    assert "good days" not in out
    picture = traces.with_name("traces.parquet.png")
    assert f"wrote {picture}" in out
    assert imread(picture).shape[0] == 1000


def test_visited_cells_are_those_of_the_grid(traces: Path) -> None:
    description = describe(load(traces))
    rows = pq.read_table(traces).to_pydict()
    cells = set(description.grid.cell_of(rows["lat"], rows["lon"]).tolist())
    assert description.cells_visited == len(cells)
    assert -1 not in cells


def test_frequent_point_is_reported_only_above_a_share(tmp_path: Path) -> None:
    raw = checkins(tmp_path / "loc.txt", {"0": 100}, default=11)
    done("import", "gowalla", raw, "-o", tmp_path / "x.parquet")
    assert "note:" not in done("describe", tmp_path / "x.parquet", "--no-figure")
    assert not (tmp_path / "x.parquet.png").exists()


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    raw = checkins(tmp_path / "loc.txt", {HOSTILE: 30})
    path = tmp_path / "[bold]日x$^$\x1b.parquet"
    assert "\x1b" not in done("import", "gowalla", raw, "-o", path)
    out = done("describe", path, "-o", tmp_path / "p.png")
    assert r"maximum: user [red]a\x1b[2J$x_1$, 30 rows" in out
    assert r"[bold]日x$^$\x1b.parquet" in out
    assert "\x1b" not in out
    assert imread(tmp_path / "p.png").shape[0] == 1000


def cabs(tmp_path: Path) -> Path:
    """Import two cabs: one with a point every hour of two local days, one with two points."""
    midnight = 1_211_007_600  # 2008-05-17 in California
    for name, times in (("a", range(midnight, midnight + 2 * 86_400, 3600)), ("b", (midnight, midnight + 9000))):
        lines = [f"37.{600 + i} -122.4 0 {time}\n" for i, time in enumerate(times)]
        (tmp_path / f"new_{name}.txt").write_text("".join(reversed(lines)))
    done("import", "cabspotting", tmp_path, "-o", tmp_path / "cabs.parquet")
    return tmp_path / "cabs.parquet"


def test_good_days_of_cabs(tmp_path: Path) -> None:
    file = cabs(tmp_path)
    assert describe(load(file)).good_days == {"a": 2, "b": 0}
    out = done("describe", file, "-o", tmp_path / "p.png")
    assert "good days  2 days" in out
    assert "0 of 2 cabs have at least 10 good days" in out


def test_describe_reads_csv_with_a_header_and_an_order(tmp_path: Path) -> None:
    rows = "".join(f"7,{i},37.{600 + i},-122.4,5\n" for i in range(30))
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(f"user,chron_seq,lat,lon,loc_id\n{rows}8,0,0,0,1\n".encode()))
    out = done("describe", path, "-o", tmp_path / "p.png")
    assert "time  none" in out
    assert "region  30 rows in" in out
    assert "note: 1 of 31 rows are outside the region" in out
    path.write_bytes(gzip.compress(f"user,chron_seq,lat,lon,loc_id\n{rows}8,x,0,0,1\n".encode()))
    message = refused("describe", path)
    assert "x.csv.gz:32: order " in message
    assert "found 'x'" in message
    assert "[invalid-row]" in message


def test_file_of_another_region_has_a_separate_grid(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("user,time,lat,lon\n1,5,48.1,11.5\n1,6,48.1,11.5\n")
    description = describe(load(path))
    assert (description.inside, description.cells_visited, description.of_paper) == (2, 1, False)
    assert "of 247 cells of a grid of 19 x 13 cells over 0.1 x 0.2 km" in done("describe", path)


def table(**changes: Any) -> pa.Table:
    columns: dict[str, Any] = {"user": ["1", "1"], "time_s": [5, 6], "lat": [37.6, 37.6], "lon": [-122.4, -122.4]}
    return pa.table({name: column for name, column in (columns | changes).items() if column is not None})


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"user": None}, ["[no-such-column]", "columns user; found time_s, lat, lon"]),
        ({"time_s": None, "lat": None}, ["[no-such-column]", "columns order, lat; found"]),
        ({"user": ["1", None]}, ["[invalid-row]", " user, 1 row has none"]),
        ({"lat": [37.6, float("nan")]}, ["[invalid-row]", " lat ", "[-90, 90], 1 row is not"]),
        ({"lon": [190.0, -200.0]}, ["[invalid-row]", " lon ", "[-180, 180], 2 rows"]),
        ({"lat": ["x", "y"]}, ["[invalid-column]", "column lat must be double"]),
        (
            {"time_s": pa.array([5, 6], pa.timestamp("us"))},
            ["[invalid-column]", "column time_s must be int64: found timestamp[us]"],
        ),
        ({name: [] for name in ("user", "time_s", "lat", "lon")}, ["[invalid-column]"]),
    ],
)
def test_invalid_parquet_files_are_rejected(tmp_path: Path, changes: dict[str, Any], parts: list[str]) -> None:
    pq.write_table(table(**changes), tmp_path / "x.parquet")
    message = refused("describe", tmp_path / "x.parquet")
    assert all(part in message for part in parts)


@pytest.mark.parametrize("notes", ["no json", "[]", '{"format": "traces", "region": {"south": 5}}', '{"region": 3}'])
def test_foreign_metadata_is_ignored(tmp_path: Path, notes: str) -> None:
    pq.write_table(table().replace_schema_metadata({"lppm-sim": notes}), tmp_path / "x.parquet")
    assert "2 rows in 1 of 250 cells of the paper's grid" in done("describe", tmp_path / "x.parquet", "--no-figure")


def test_region_without_rows_is_rejected(tmp_path: Path) -> None:
    notes = {"format": "traces", "region": {"south": 0, "north": 1, "west": 0, "east": 1}}
    pq.write_table(table().replace_schema_metadata({"lppm-sim": json.dumps(notes)}), tmp_path / "x.parquet")
    with support.raises_code(InputError, "outside-region") as error:
        describe(load(tmp_path / "x.parquet"))
    assert "2 rows" in str(error.value)


def test_invalid_files_and_destinations_are_rejected(tmp_path: Path, traces: Path) -> None:
    (tmp_path / "torn.parquet").write_bytes(traces.read_bytes()[:100])
    assert "[unreadable-file]" in refused("describe", tmp_path / "torn.parquet")
    assert "[missing-header]" in refused("describe", tmp_path / "loc.txt")
    assert "[file-not-found]" in refused("describe", tmp_path / "nothing.parquet")
    assert "[is-a-folder]" in refused("describe", tmp_path)
    assert "[unsupported-file-type]" in refused("describe", traces, "-o", tmp_path / "x.pdf")
    (tmp_path / "mine.png").write_bytes(b"precious")
    assert "[file-exists]" in refused("describe", traces, "-o", tmp_path / "mine.png")
    assert (tmp_path / "mine.png").read_bytes() == b"precious"
    done("describe", traces, "-o", tmp_path / "mine.png", "--overwrite")
    assert (tmp_path / "mine.png").read_bytes() != b"precious"


def test_figure_is_deterministic(traces: Path) -> None:
    loaded = load(traces)
    description = describe(loaded)
    assert picture(loaded, description, title="x") == picture(loaded, description, title="x")


@pytest.mark.parametrize("span_s", [0, 3600, 86_400, 20 * 86_400, 400 * 86_400, 4000 * 86_400, 60_000_000_000])
def test_figure_of_any_time_span(tmp_path: Path, span_s: int) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"user,time,lat,lon\n1,1211007600,37.6,-122.4\n1,{1211007600 + span_s},37.6,-122.4\n")
    loaded = load(path)
    assert picture(loaded, describe(loaded), title="x").startswith(b"\x89PNG")


@pytest.mark.data
def test_real_data_sets(real_data: Path, tmp_path: Path) -> None:
    brightkite = done("describe", real_data / "brightkite_sf_ccs17.csv.gz", "-o", tmp_path / "b.png")
    assert "rows  75,065 of 3,402 users" in brightkite
    assert "44 users have at least 300 rows in the region" in brightkite
    assert "note: 23% of the rows in the region are at one point (37.774929, -122.419415)" in brightkite
    gowalla = done("describe", real_data / "gowalla_sf_ccs17.csv.gz", "--no-figure")
    assert "57 users have at least 300 rows in the region" in gowalla
    cabs = done("describe", real_data / "cabs_sf_points.csv.gz", "--no-figure")
    assert "379 days from midnight to midnight" in cabs
    assert "23 of 37 cabs have at least 10 good days" in cabs


def test_map_fits_most_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lat, lon = 52.5 + 0.02 * rng.normal(size=1000), 13.4 + 0.03 * rng.normal(size=1000)
    lat[:2], lon[:2] = (0.0, 37.7), (0.0, -122.4)  # a default value, and one row in the paper's region
    lines = [f"u,{number},{y:.6f},{x:.6f}\n" for number, (y, x) in enumerate(zip(lat, lon, strict=True))]
    path = tmp_path / "berlin.csv"
    path.write_text("user,time,lat,lon\n" + "".join(lines))
    description = describe(load(path))
    assert not description.of_paper
    assert 980 <= description.inside <= 998
    assert 5 < description.grid.width_km < 30
    cell_km = description.grid.width_km / description.grid.cols, description.grid.height_km / description.grid.rows
    assert 0.7 < cell_km[0] / cell_km[1] < 1.4
    assert "are outside the region" in done("describe", path)


def test_cells_are_described_on_their_grid(tmp_path: Path) -> None:
    raw = tmp_path / "yjmob100k-dataset1.csv"
    raw.write_text("uid,d,t,x,y\n" + "".join(f"1,{day},20,1,200\n" for day in range(9)) + "2,0,0,200,1\n")
    done("import", raw, "-o", tmp_path / "x.parquet")
    traces = load(tmp_path / "x.parquet")
    description = describe(traces)
    assert description.extent is None
    assert (description.inside, description.cells_visited, description.grid.n_cells) == (10, 2, 40_000)
    assert description.points[0] == (0.25, 0.25, 9)
    assert picture(traces, description, title="cells").startswith(b"\x89PNG")
    assert "x 0.25 km, y 0.25 km: 9 rows" in done("describe", tmp_path / "x.parquet", "--no-figure")
    table = pq.read_table(tmp_path / "x.parquet")
    cells = pa.array([40_000] * 10)
    pq.write_table(table.set_column(2, "cell", cells), tmp_path / "y.parquet")
    assert "[invalid-row]" in refused("describe", tmp_path / "y.parquet")
