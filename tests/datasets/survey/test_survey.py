"""Surveys of trace files: numbers against pandas, formats, invalid rows, and remarks on the quality of the data."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sim.datasets.survey import batches
from sim.datasets.survey.remarks import remarks
from sim.datasets.survey.survey import Survey, survey
from sim.errors import InputError
from sim.world.grid import Grid
from tests.support import DATA, raises_code

GRID = Grid.region(rows=4, cols=4, south=39.8, north=40.2, west=116.0, east=116.4)


def logs(users: int = 5, rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Return logs as of Geolife, user by user in order of time: rows every 1 to 5 s with gaps of hours to days."""
    rng = np.random.default_rng(seed)
    frames = []
    for user in range(users):
        steps = np.where(rng.random(rows) < 0.01, rng.integers(7300, 400_000, rows), rng.integers(1, 6, rows))
        position = np.cumsum(rng.normal(0, 1e-4, (2, rows)), axis=1)
        frames.append(
            pd.DataFrame(
                {
                    "user": f"u{user}",
                    "time_s": 1_200_000_000 + np.cumsum(steps),
                    "lat": (40 + position[0]).round(6),
                    "lon": (116.2 + position[1]).round(6),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def saved(folder: Path, frame: pd.DataFrame, name: str = "t.csv") -> Path:
    path = folder / name
    if name.endswith(".parquet"):
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def texts(content: Survey, grid: Grid | None = None) -> str:
    return "\n".join(remarks(content, grid))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let users continue from one batch to the next."""
    monkeypatch.setattr(batches, "_ROWS", 37)
    monkeypatch.setattr(batches, "_BLOCK_BYTES", 1000)


@pytest.mark.parametrize("order", ["by user", "by time", "descending"])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.csv.gz", "t.csv.xz"])
def test_numbers_are_those_of_pandas(tmp_path: Path, name: str, order: str) -> None:
    frame = logs()
    if order == "by time":
        frame = frame.sort_values("time_s", kind="stable")
    if order == "descending":
        frame = frame.sort_values(["user", "time_s"], ascending=[True, False])
    content = survey(saved(tmp_path, frame, name), locations=GRID)
    gaps = frame.sort_values("time_s", kind="stable").groupby("user")["time_s"].diff().dropna()
    assert (content.rows, content.users, content.invalid) == (2000, 5, 0)
    assert content.span_s == (frame["time_s"].min(), frame["time_s"].max())
    assert content.extent == (*frame["lat"].agg(["min", "max"]), *frame["lon"].agg(["min", "max"]))
    for share, gap_s in content.gaps_s:
        assert gap_s == np.quantile(gaps, share, method="lower")
    assert (content.longest_gap_s, content.long_gaps) == (gaps.max(), (gaps > 7200).sum())
    assert content.sessions == 5 + (gaps > 7200).sum()
    assert content.cells is not None
    assert content.cells.tolist() == np.bincount(GRID.cell_of(frame["lat"], frame["lon"]), minlength=16).tolist()
    assert content.sampled is None
    assert content.irregular["backward"].rows == 0
    assert texts(content) == ""


def test_irregular_rows_are_counted_by_user(tmp_path: Path) -> None:
    rows = [("a", 5, 0), ("b", 1, 0), ("a", 4, 0), ("a", 9, 0), ("a", 9, 0), ("a", 9, 1), ("b", 1, 0), ("b", 0.5, 0)]
    frame = pd.DataFrame([(user, when, 40 + north, 116) for user, when, north in rows], columns=[*"ut", "lat", "lon"])
    path = saved(tmp_path, frame)
    content = survey(path, columns={"user": "u", "time": "t"})
    backward, elsewhere, repeated = (content.irregular[kind] for kind in ("backward", "same_time", "repeated"))
    assert (backward.rows, backward.users, backward.most) == (1, 1, (("a", 1),)), "b is in descending order"
    assert (elsewhere.rows, elsewhere.most) == (1, (("a", 1),))
    assert (repeated.rows, repeated.most) == (2, (("a", 1), ("b", 1)))
    text = texts(content)
    assert "1 row (1 user; a: 1) goes back in time" in text
    assert "2 rows (2 users; a: 1, b: 1) repeat time and position" in text


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-01T08:00:00-07:00", "2024-05-01T15:00:05Z"],
        ["2024-05-01 15:00:00", "2024-05-01 15:00:05"],
        ["1714575600", "1714575605.0"],
        ["2024-05-01T15:00:00", "2024-05-01T08:00:05-07:00"],
    ],
)
def test_times_are_read_as_in_a_replay(tmp_path: Path, times: list[str]) -> None:
    frame = pd.DataFrame({"user": "a", "time": times, "lat": 40.0, "lon": 116.0})
    for name in ("t.csv", "t.parquet"):
        content = survey(saved(tmp_path, frame, name))
        assert content.span_s == (1_714_575_600, 1_714_575_605)
    stamps = frame.assign(time=pd.to_datetime(["2024-05-01T15:00:00.25", "2024-05-01T15:00:05.75"]))
    assert survey(saved(tmp_path, stamps, "t.parquet")).span_s == (1_714_575_600.25, 1_714_575_605.75)


def test_invalid_rows_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "user,time_s,lat,lon\na,1,40,116\n,2,40,116\na,x,40,116\na,4,95,116\na,5,,116\na,6,40,116,7\na,7,0,0\n"
    )
    content = survey(path)
    assert (content.rows, content.invalid, content.users, content.zeros) == (2, 5, 1, 1)
    assert "5 of 7 rows have no user" in texts(content)
    assert "1 row is at latitude 0 and longitude 0" in texts(content)


def test_compressed_files_orders_and_cells_are_read(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbfid;chron_seq;lat;lon\na;3;40;116\na;9;40;116\nb;1;41;116\n"
    for name, content in {"t.csv": text, "t.txt.gz": gzip.compress(text), "t.csv.xz": lzma.compress(text)}.items():
        (tmp_path / name).write_bytes(content)
        result = survey(tmp_path / name)
        assert (result.rows, result.users, result.timed, result.gaps_s) == (3, 2, False, ())
        assert "no times" in texts(result)
    (tmp_path / "t.csv").write_text("user,time,cell\na,1,2\na,61,3\n")
    result = survey(tmp_path / "t.csv")
    assert (result.rows, result.extent, result.suggestion, result.frequent) == (2, None, None, None)
    assert result.longest_gap_s == 60
    (tmp_path / "t.gpx").write_text(
        '<gpx><trk><trkseg><trkpt lat="40" lon="116"><time>2024-05-01T15:00:00Z</time></trkpt></trkseg></trk></gpx>'
    )
    assert survey(tmp_path / "t.gpx").span_s == (1_714_575_600, 1_714_575_600)


def test_a_large_file_is_described_by_a_sample(tmp_path: Path) -> None:
    frame = logs(users=3, rows=3000)
    whole, sampled = (survey(saved(tmp_path, frame), sample=size) for size in (10**6, 2000))
    assert (whole.sampled, sampled.sampled) == (None, 2000)
    assert sampled.long_gaps == whole.long_gaps
    assert dict(sampled.gaps_s)[0.5] == dict(whole.gaps_s)[0.5]
    assert whole.suggestion is not None
    assert sampled.suggestion is not None
    assert sampled.suggestion.box == pytest.approx(whole.suggestion.box, abs=0.003)


def test_default_positions_need_several_users(tmp_path: Path) -> None:
    frame = logs()
    frame.loc[::4, ["lat", "lon"]] = (40.05, 116.25)
    content = survey(saved(tmp_path, frame))
    assert content.frequent is not None
    assert (content.frequent.lat, content.frequent.lon, content.frequent.users) == (40.05, 116.25, 5)
    assert content.frequent.share == pytest.approx(0.25)
    assert "holds 25% of all rows, of 5 users: a default position?" in texts(content)
    one = logs()
    one.loc[one["user"] == "u1", ["lat", "lon"]] = (40.05, 116.25)
    assert "default position" not in texts(survey(saved(tmp_path, one))), "one user may live there"


def test_outer_rows_and_columns_without_data_are_reported(tmp_path: Path) -> None:
    wide = Grid.region(rows=8, cols=8, south=39.99, north=40.05, west=116.19, east=116.21)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": "a", "time": range(3000)})
    frame["lat"], frame["lon"] = rng.uniform(39.99, 40.03, 3000), rng.uniform(116.19, 116.21, 3000)
    text = texts(survey(saved(tmp_path, frame), locations=wide), wide)
    assert "the 2 northernmost rows of the grid's 8 are almost empty, with 0 of 3,000 rows" in text
    assert "column" not in text
    assert "southernmost" not in text


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("t.csv", b"", "empty-file"),
        ("t.csv", b"who,when\na,1\n", "no-such-column"),
        ("t.parquet", b"PAR1 damaged", "unreadable-file"),
        ("t.csv.gz", gzip.compress(b"user,time,lat,lon\n" + b"a,1,40,116\n" * 9999)[:-40], "unreadable-file"),
        ("t.gpx", b"<gpx", "unreadable-file"),
    ],
)
def test_unreadable_files_are_rejected(tmp_path: Path, name: str, content: bytes, code: str) -> None:
    (tmp_path / name).write_bytes(content)
    with raises_code(InputError, code) as error:
        survey(tmp_path / name)
    assert name in str(error.value)


def test_missing_files_and_folders_are_rejected(tmp_path: Path) -> None:
    for path, code in ((tmp_path / "t.csv", "file-not-found"), (tmp_path, "is-a-folder")):
        with raises_code(InputError, code):
            survey(path)


def test_a_file_without_valid_rows_has_an_empty_survey(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,time,lat,lon\n,1,2,3\n")
    content = survey(tmp_path / "t.csv", locations=GRID)
    values: dict[str, Any] = {"rows": 0, "invalid": 1, "users": 0, "span_s": None, "extent": None, "suggestion": None}
    assert {name: getattr(content, name) for name in values} == values
    assert "1 of 1 rows" in texts(content, GRID)


@pytest.mark.data
@pytest.mark.skipif(not (DATA / "gowalla_sf_ccs17.csv.gz").exists(), reason=f"no real data in {DATA}")
def test_known_problems_of_real_data_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    paper = Grid.san_francisco()
    brightkite, gowalla, cabs = (
        survey(DATA / name, locations=paper)
        for name in ("brightkite_sf_ccs17.csv.gz", "gowalla_sf_ccs17.csv.gz", "cabs_sf_points.csv.gz")
    )
    text = texts(brightkite, paper)
    assert "no times" in text
    assert "37.774929, -122.419415, holds 23% of all rows" in text
    assert "the northernmost row of the grid's 25 is almost empty" in text
    assert "the northernmost row of the grid's 25 is almost empty" in texts(gowalla, paper)
    assert "default" not in texts(gowalla, paper)
    assert (cabs.rows, cabs.users, cabs.long_gaps) == (915_219, 37, 551)
    assert "default" not in texts(cabs, paper)
