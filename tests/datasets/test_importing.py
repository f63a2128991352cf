"""Import of raw downloads into a trace file: selection, order, counts and invalid input."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.datasets import describing, files
from sim.datasets.importing import SAN_FRANCISCO, Counts, import_traces
from sim.errors import InputError
from sim.mobility.recorded.replay import Replay, Selection
from sim.storage.errors import RequestError, RunError
from sim.world.grid import Grid
from tests.support import made, raises_code

IN = ("37.6163", "-122.3861")
OUT = ("30.2359", "-97.7951")


def checkin(user: str, second: int, place: tuple[str, str] = IN, location: str = "7") -> str:
    time = datetime.fromtimestamp(1_287_000_000 + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{user}\t{time}\t{place[0]}\t{place[1]}\t{location}\n"


def load(path: Path) -> dict[str, list[Any]]:
    return pq.read_table(path).to_pydict()


def notes(path: Path) -> dict[str, Any]:
    metadata: dict[str, Any] = json.loads((pq.read_schema(path).metadata or {})[b"lppm-sim"])
    return metadata


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Ten check-ins of three users, newest first."""
    text = "".join(checkin("10", 50 - second) for second in range(5))
    text += "".join(checkin("9", 50 - second, OUT if second % 2 else IN, f"l{second}") for second in range(4))
    text += checkin("007", 3)
    path = tmp_path / "loc-gowalla_totalCheckins.txt"
    path.write_bytes(text.encode())
    return path


def imported(
    raw: Path | Sequence[Path], source: str = "gowalla", region: Any = SAN_FRANCISCO, name: str = "out.parquet"
) -> tuple[Path, Counts]:
    paths = [raw] if isinstance(raw, Path) else list(raw)
    out = paths[0].parent / name
    return out, import_traces(source, paths, out, region=region, overwrite=True)


def test_users_are_in_numeric_order_and_each_in_time(raw: Path) -> None:
    out, counts = imported(raw)
    rows = load(out)
    assert list(rows) == ["user", "time_s", "lat", "lon", "location"]
    assert rows["user"] == ["007", "9", "9", *["10"] * 5]
    assert [time - 1_287_000_000 for time in rows["time_s"]] == [3, 48, 50, 46, 47, 48, 49, 50]
    assert rows["location"][:3] == ["7", "l2", "l0"]
    assert counts == Counts(lines=10, outside=2, kept=8, users=3)


def test_import_without_a_region(raw: Path) -> None:
    out, counts = imported(raw, region=None)
    assert (counts.kept, counts.outside) == (10, 0)
    assert len(load(out)["user"]) == 10
    assert notes(out)["region"] is None


def test_rows_with_equal_times_keep_their_chronological_order(tmp_path: Path) -> None:
    newest_first = tmp_path / "loc.txt"
    newest_first.write_text("".join(checkin("a", 0, location=name) for name in "cba"))
    out, _ = imported(newest_first)
    assert load(out)["location"] == ["a", "b", "c"]
    oldest_first = tmp_path / "loc.csv"
    oldest_first.write_text("user,time,lat,lon,location\n" + "".join(f"u,5,37.6,-122.4,{name}\n" for name in "abc"))
    out, _ = imported(oldest_first)
    assert load(out)["location"] == ["a", "b", "c"]


@pytest.mark.parametrize("pack", ["gzip", "two members", "crlf", "bom", "blank lines"])
def test_compression_and_line_breaks_do_not_matter(raw: Path, pack: str) -> None:
    plain, counts = imported(raw)
    text = raw.read_bytes()
    content = {
        "gzip": gzip.compress(text),
        "two members": gzip.compress(text[:100]) + gzip.compress(text[100:]),
        "crlf": text.replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + text,
        "blank lines": b"\n" + text.replace(b"\n", b"\n\n") + b"\n \n",
    }[pack]
    other = raw.with_name("other.txt")  # the name does not reveal the compression
    other.write_bytes(content)
    out, other_counts = imported(other, name="other.parquet")
    assert load(out) == load(plain)
    assert other_counts == counts


@pytest.mark.parametrize("block", [1, 60, 100])
def test_blocks_may_end_anywhere(raw: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raw.write_text(raw.read_text().replace("l1\n", "l1\textra\n", 1))
    whole, counts = imported(raw)
    assert counts.first_unreadable[0].startswith("loc-gowalla_totalCheckins.txt:7: ")
    assert "found 6" in counts.first_unreadable[0]
    monkeypatch.setattr(files, "BLOCK", block)
    out, block_counts = imported(raw, name="blocks.parquet")
    assert out.read_bytes() == whole.read_bytes()
    assert block_counts == counts


def test_invalid_lines_are_counted_and_reported(raw: Path) -> None:
    lines = raw.read_bytes().splitlines(keepends=True)
    for at in (1, 4, 6):
        lines.insert(at, b"58186\t\t\t\t\n")
    lines.insert(8, b"\xff\xfe\n")
    raw.write_bytes(b"".join([*lines, *[b"bad\n"] * 10]))
    out, counts = imported(raw)
    assert (counts.lines, counts.unreadable, counts.kept) == (24, 14, 8)
    assert [line.partition(" ")[0] for line in counts.first_unreadable] == [
        f"{raw.name}:{number}:" for number in (2, 5, 7, 9, 15)
    ]
    assert "found nothing" in counts.first_unreadable[0]
    assert notes(out)["counts"]["unreadable"] == 14


def test_duplicates_are_counted_and_kept(tmp_path: Path) -> None:
    raw = tmp_path / "loc.txt"
    same, other = checkin("1", 5, location="x"), checkin("1", 5, location="y")
    raw.write_text(same + other + same + same + checkin("2", 5, location="x"))
    _, counts = imported(raw)
    assert (counts.kept, counts.duplicates) == (5, 2)


@pytest.mark.parametrize(
    ("content", "code", "value"),
    [
        (b"", "empty-file", ""),
        (b"\n\n", "empty-file", ""),
        (gzip.compress(b"", mtime=0), "empty-file", ""),
        (b"user,time,lat,lon\n", "empty-file", ""),
        (b"hello\nworld\n", "invalid-row", "user, time_s, lat, lon, location, separated by tabs"),
        ("0\t2010\n".encode("utf-16"), "invalid-row", "2 lines"),
        (b"user,when,lat,lon\n1,2,3,4\n", "no-such-column", "time"),
        (b"user,time,cell\n1,2,3\n", "no-such-column", "lat and lon"),
        (b"PK\x03\x04abc", "unsupported-file-type", "zip"),
        (checkin("1", 1, OUT).encode(), "outside-region", "lat 30.2359 to 30.2359, lon -97.7951 to -97.7951"),
    ],
)
def test_file_without_rows_is_rejected(tmp_path: Path, content: bytes, code: str, value: str) -> None:
    raw = tmp_path / "loc.txt"
    raw.write_bytes(content)
    with raises_code(InputError, code) as error:
        imported(raw)
    assert str(raw) in str(error.value) or code == "outside-region"
    assert value in str(error.value)
    assert list(tmp_path.iterdir()) == [raw]


def test_truncated_or_damaged_gzip_file_is_rejected(raw: Path) -> None:
    packed = bytearray(gzip.compress(raw.read_bytes()))
    for content in (packed[:-12], packed[:-6], packed[:40] + bytes(8) + packed[48:], packed + b"rubbish"):
        raw.write_bytes(content)
        with raises_code(InputError, "unreadable-file"):
            imported(raw)
    assert list(raw.parent.iterdir()) == [raw]


def test_endless_line_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 100)
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    raw = tmp_path / "loc.txt"
    raw.write_bytes(b"x" * 5000)
    with raises_code(InputError, "unreadable-file") as error:
        imported(raw)
    assert "1,000 bytes" in str(error.value)


def cab(path: Path, *times: int, place: tuple[str, str] = IN) -> Path:
    path.write_text("".join(f"{place[0]} {place[1]} {time % 2} {time}\n" for time in sorted(times, reverse=True)))
    return path


def test_a_folder_of_cabs(tmp_path: Path) -> None:
    cab(tmp_path / "new_ugatna.txt", 1211018409, 1211018400)
    cab(tmp_path / "new_abboip.txt", 1211018500)
    (tmp_path / "_cabs.txt").write_text('<cab id="abboip" updates="1"/>')
    (tmp_path / "README").write_text("not a cab")
    counts = import_traces("cabspotting", [tmp_path], tmp_path / "c.parquet", region=SAN_FRANCISCO)
    rows = load(tmp_path / "c.parquet")
    assert list(rows) == ["user", "time_s", "lat", "lon", "occupied"]
    assert rows["user"] == ["abboip", "ugatna", "ugatna"]
    assert rows["time_s"] == [1211018500, 1211018400, 1211018409]
    assert rows["occupied"] == [False, False, True]
    assert counts == Counts(lines=3, kept=3, users=2)
    assert [file["name"] for file in notes(tmp_path / "c.parquet")["files"]] == ["new_abboip.txt", "new_ugatna.txt"]


def test_cabs_given_one_by_one_stay_in_that_order(tmp_path: Path) -> None:
    paths = [cab(tmp_path / f"new_{name}.txt", 5) for name in ("ugatna", "abboip")]
    out, _ = imported(paths, "cabspotting")
    assert load(out)["user"] == ["ugatna", "abboip"]
    with raises_code(InputError, "duplicate-file"):
        imported([paths[0], paths[0]], "cabspotting")
    with raises_code(InputError, "invalid-file-name") as error:
        imported(cab(tmp_path / "cab.txt", 5), "cabspotting")
    assert "new_<cab>.txt" in str(error.value)


def test_wrong_paths(tmp_path: Path, raw: Path) -> None:
    with raises_code(InputError, "file-not-found") as error:
        imported(tmp_path / "nowhere.txt")
    assert "nowhere.txt" in str(error.value)
    with raises_code(InputError, "is-a-folder") as error:
        imported(tmp_path)
    assert "loc-gowalla_totalCheckins.txt.gz" in str(error.value)
    with raises_code(InputError, "file-not-found") as error:
        imported(tmp_path, "cabspotting")
    assert "new_<cab>.txt" in str(error.value)
    archive = tmp_path / "cabs.tar.gz"
    with tarfile.open(archive, "w:gz", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(raw, "raw.txt")
    with raises_code(InputError, "unsupported-file-type") as error:
        imported(archive)
    assert " tar " in str(error.value)


def test_files_with_different_layouts_are_rejected(tmp_path: Path, raw: Path) -> None:
    csv = tmp_path / "x.csv"
    csv.write_text("user,chron_seq,lat,lon,loc_id\n1,0,37.6,-122.4,5\n")
    with raises_code(InputError, "layouts-differ"):
        imported([raw, csv])


def test_invalid_destinations_are_rejected(raw: Path, tmp_path: Path) -> None:
    def code(out: Path | str, *, overwrite: bool = False) -> str:
        with pytest.raises(RequestError) as error:
            import_traces("gowalla", [raw], out, region=SAN_FRANCISCO, overwrite=overwrite)
        return error.value.code

    before = raw.read_bytes()
    assert code(raw, overwrite=True) == "unsupported-file-type"
    existing = tmp_path / "existing.parquet"
    existing.write_bytes(b"precious")
    assert code(existing) == "file-exists"
    assert code(tmp_path / "no" / "x.parquet") == "folder-not-found"
    (tmp_path / "folder.parquet").mkdir()
    assert code(tmp_path / "folder.parquet") == "is-a-folder"
    assert code("s3://bucket/x.parquet") == "not-a-local-file"
    run = tmp_path / "run"
    (run / "events").mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    assert code(run / "x.parquet") == "inside-run-directory"
    assert code(run / "events" / "x.parquet", overwrite=True) == "inside-run-directory"
    assert existing.read_bytes() == b"precious"
    assert raw.read_bytes() == before
    same = tmp_path / "raw.parquet"
    raw.rename(same)
    with raises_code(RequestError, "output-is-input"):
        import_traces("gowalla", [same], same, region=None, overwrite=True)


def test_failed_write_leaves_no_file(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(RunError, match=r"out\.parquet"):
        imported(raw)
    assert list(raw.parent.iterdir()) == [raw]


def test_metadata_describes_the_source_files(raw: Path) -> None:
    out, _ = imported(raw)
    metadata = notes(out)
    assert metadata["source"] == "gowalla"
    assert metadata["region"] == {"south": 37.55, "north": 37.801, "west": -122.5153, "east": -122.3789}
    digest = hashlib.sha256(raw.read_bytes()).hexdigest()
    assert metadata["files"] == [{"name": raw.name, "bytes": raw.stat().st_size, "sha256": digest}]
    assert metadata["counts"] == {
        "lines": 10, "unreadable": 0, "outside": 2, "kept": 8, "duplicates": 0, "users": 3
    }  # fmt: skip
    packed = raw.with_name("packed.gz")
    packed.write_bytes(gzip.compress(raw.read_bytes()))
    out, _ = imported(packed)
    assert notes(out)["files"][0]["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()


def test_equal_rows_give_identical_bytes(raw: Path) -> None:
    first = imported(raw, name="a.parquet")[0].read_bytes()
    assert imported(raw, name="b.parquet")[0].read_bytes() == first


def test_progress_counts_the_bytes_of_all_files(tmp_path: Path) -> None:
    paths = [cab(tmp_path / f"new_{name}.txt", *range(100)) for name in "ab"]
    calls: list[tuple[int, int]] = []
    import_traces(
        "cabspotting",
        paths,
        tmp_path / "c.parquet",
        region=None,
        progress=lambda done, total: calls.append((done, total)),
    )
    total = sum(path.stat().st_size for path in paths)
    assert calls[-1] == (total, total)
    assert all(a[0] <= b[0] for a, b in pairwise(calls))


def test_user_ids_are_text_for_every_reader(raw: Path) -> None:
    out, _ = imported(raw)
    assert pq.read_schema(out).field("user").type == pa.string()
    assert pd.read_parquet(out)["user"].tolist()[0] == "007"
    replay = made(Replay, locations=Grid.san_francisco(), file=out)
    assert list(replay.users()) == ["007", "9", "10"]


def test_replay_reads_only_the_columns_it_needs(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = imported(raw)
    requested: list[Any] = []
    read_table = pq.read_table

    def spy(*args: Any, **options: Any) -> pa.Table:
        requested.append(options["columns"])
        return read_table(*args, **options)

    monkeypatch.setattr(pq, "read_table", spy)
    made(Replay, locations=Grid.san_francisco(), file=out)
    assert requested == [["user", "time_s", "lat", "lon"]]


# Real data -------------------------------------------------------------------------------------------------------


def as_replayed(file: Path) -> dict[str, tuple[list[int], list[int]]]:
    replay = made(Replay, locations=Grid.san_francisco(), file=file)
    rng = np.random.default_rng(0)
    traces = {}
    for user in replay.users():
        visits = list(replay.visits(user, rng))
        traces[user] = ([visit.time_s for visit in visits], [visit.cell for visit in visits])
    return traces


@pytest.mark.data
@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("brightkite", "brightkite_sf_ccs17.csv.gz"),
        ("gowalla", "gowalla_sf_ccs17.csv.gz"),
        ("cabspotting", "cabs_sf_points.csv.gz"),
    ],
)
def test_imported_file_replays_like_the_original(real_data: Path, tmp_path: Path, source: str, name: str) -> None:
    out = tmp_path / "x.parquet"
    counts = import_traces(source, [real_data / name], out, region=SAN_FRANCISCO)
    assert counts.unreadable == 0
    ours, theirs = as_replayed(out), as_replayed(real_data / name)
    assert list(ours) == list(theirs)
    assert ours == theirs


@pytest.mark.data
def test_check_ins_in_the_layout_of_the_download_import_equally(real_data: Path, tmp_path: Path) -> None:
    table = pd.read_csv(real_data / "gowalla_sf_ccs17.csv.gz", dtype=str)
    # The file has no times: create some in the same order, with several check-ins per second as in the original.
    seconds = 1_233_000_000 + table["chron_seq"].astype(int) // 3
    times = pd.to_datetime(seconds, unit="s").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = table["user"] + "\t" + times + "\t" + table["lat"] + "\t" + table["lon"] + "\t" + table["loc_id"] + "\n"
    backwards = table.assign(line=lines, at=table["chron_seq"].astype(int))
    backwards = backwards.iloc[::-1].sort_values("user", key=lambda ids: ids.astype(int), kind="stable")
    raw = tmp_path / "loc-gowalla_totalCheckins.txt.gz"
    raw.write_bytes(gzip.compress("".join(backwards["line"]).encode(), 1))
    import_traces("gowalla", [raw], tmp_path / "raw.parquet", region=SAN_FRANCISCO)
    import_traces("gowalla", [real_data / "gowalla_sf_ccs17.csv.gz"], tmp_path / "csv.parquet", region=SAN_FRANCISCO)
    one, other = load(tmp_path / "raw.parquet"), load(tmp_path / "csv.parquet")
    for column in ("user", "lat", "lon", "location"):
        assert one[column] == other[column]
    assert len(set(one["time_s"])) > 100
    select = Selection(min_visits=300, first=20, last=5)
    sets = [
        made(Replay, locations=Grid.san_francisco(), file=tmp_path / name, select=select).users()
        for name in ("raw.parquet", "csv.parquet")
    ]
    assert sets[0] == sets[1]


@pytest.mark.data
def test_cabs_in_the_layout_of_the_download_import_equally(real_data: Path, tmp_path: Path) -> None:
    table = pd.read_csv(real_data / "cabs_sf_points.csv.gz", dtype=str)
    paths = []
    for name, own in table.groupby("user", sort=False):
        lines = own["lat"] + " " + own["lon"] + " " + own["occupied"] + " " + own["unixtime"] + "\n"
        paths.append(tmp_path / f"new_{name}.txt")
        paths[-1].write_text("".join(lines[::-1]))
    import_traces("cabspotting", paths, tmp_path / "raw.parquet", region=SAN_FRANCISCO)
    import_traces("cabspotting", [real_data / "cabs_sf_points.csv.gz"], tmp_path / "csv.parquet", region=SAN_FRANCISCO)
    assert pq.read_table(tmp_path / "raw.parquet").equals(pq.read_table(tmp_path / "csv.parquet"))


def test_user_id_with_thousands_of_digits(tmp_path: Path) -> None:
    raw = tmp_path / "loc.txt"
    raw.write_text(checkin("9" * 5000, 1) + checkin("8" * 5000, 2) + checkin("7", 3))
    out, counts = imported(raw)
    assert counts.users == 3
    assert load(out)["user"] == ["7", "8" * 5000, "9" * 5000]


@pytest.mark.parametrize("moment", ["{}", "2010-10-13T20:00:{}Z"])
def test_rows_are_sorted_by_exact_time_before_truncation(tmp_path: Path, moment: str) -> None:
    """The newest rows of a user come first, so that ties are reversed."""
    seconds = ["06", "05.95", "05.1", "05.9", "05.1"]
    rows = [f"1\t{moment.format(second)}\t37.6\t-122.4\tl{n}\n" for n, second in enumerate(seconds)]
    raw = tmp_path / "loc.txt"
    raw.write_text("".join(rows) + checkin("0", 1))
    imported_rows = load(imported(raw)[0])
    assert imported_rows["location"] == ["7", "l4", "l2", "l3", "l1", "l0"]
    assert [time % 60 for time in imported_rows["time_s"][1:]] == [5, 5, 5, 5, 6]
    assert list(imported_rows) == ["user", "time_s", "lat", "lon", "location"]


def test_time_overflow_is_rejected_with_row_and_value(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    times = pa.array([5, 2**64 - 1], pa.uint64())
    pq.write_table(pa.table({"user": ["a", "a"], "time_s": times, "lat": [37.6] * 2, "lon": [-122.4] * 2}), path)
    with raises_code(InputError, "invalid-column") as error:
        describing.load(path)
    assert all(part in str(error.value) for part in ("time_s", "int64", "18446744073709551615", "(row 2)"))


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_damaged_file_is_described_or_rejected(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"user": ["a", "b"], "time_s": [1, 2], "lat": [37.6, 37.7], "lon": [-122.4, -122.5]})
    path = tmp_path / name
    if name.endswith("csv"):
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    content, rng = path.read_bytes(), np.random.default_rng(3)
    rejected = []
    for _ in range(200):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            describing.describe(describing.load(path))
        except InputError as error:
            rejected.append(str(error))
    assert len(rejected) > 20
    assert all(str(path) in message or "region" in message for message in rejected)
