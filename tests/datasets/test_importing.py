"""Raw downloads become a trace file: what is kept, in which order, what is told, and what is refused."""

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
from tests.support import made

IN = ("37.6163", "-122.3861")
OUT = ("30.2359", "-97.7951")


def checkin(user: str, second: int, place: tuple[str, str] = IN, location: str = "7") -> str:
    time = datetime.fromtimestamp(1_287_000_000 + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{user}\t{time}\t{place[0]}\t{place[1]}\t{location}\n"


def load(path: Path) -> dict[str, list[Any]]:
    return pq.read_table(path).to_pydict()


def notes(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((pq.read_schema(path).metadata or {})[b"lppm-sim"])
    return found


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
    found = load(out)
    assert list(found) == ["user", "time_s", "lat", "lon", "location"]
    assert found["user"] == ["007", "9", "9", *["10"] * 5]
    assert [time - 1_287_000_000 for time in found["time_s"]] == [3, 48, 50, 46, 47, 48, 49, 50]
    assert found["location"][:3] == ["7", "l2", "l0"]
    assert counts == Counts(lines=10, outside=2, kept=8, users=3)


def test_the_whole_earth(raw: Path) -> None:
    out, counts = imported(raw, region=None)
    assert (counts.kept, counts.outside) == (10, 0)
    assert len(load(out)["user"]) == 10
    assert notes(out)["region"] is None


def test_rows_of_one_moment_keep_the_order_in_which_they_happened(tmp_path: Path) -> None:
    newest_first = tmp_path / "loc.txt"
    newest_first.write_text("".join(checkin("a", 0, location=name) for name in "cba"))
    out, _ = imported(newest_first)
    assert load(out)["location"] == ["a", "b", "c"]
    oldest_first = tmp_path / "loc.csv"
    oldest_first.write_text("user,time,lat,lon,location\n" + "".join(f"u,5,37.6,-122.4,{name}\n" for name in "abc"))
    out, _ = imported(oldest_first)
    assert load(out)["location"] == ["a", "b", "c"]


@pytest.mark.parametrize("pack", ["gzip", "two members", "crlf", "bom", "blank lines"])
def test_the_same_rows_however_they_are_written(raw: Path, pack: str) -> None:
    plain, counts = imported(raw)
    text = raw.read_bytes()
    content = {
        "gzip": gzip.compress(text),
        "two members": gzip.compress(text[:100]) + gzip.compress(text[100:]),
        "crlf": text.replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + text,
        "blank lines": b"\n" + text.replace(b"\n", b"\n\n") + b"\n \n",
    }[pack]
    other = raw.with_name("other.txt")  # nothing in the name tells how it is packed
    other.write_bytes(content)
    out, found = imported(other, name="other.parquet")
    assert load(out) == load(plain)
    assert found == counts


@pytest.mark.parametrize("block", [1, 60, 100])
def test_blocks_may_end_anywhere(raw: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raw.write_text(raw.read_text().replace("l1\n", "l1\textra\n", 1))
    whole, counts = imported(raw)
    assert counts.first_unreadable[0].startswith("loc-gowalla_totalCheckins.txt:7: must have 5 fields, found 6")
    monkeypatch.setattr(files, "BLOCK", block)
    out, found = imported(raw, name="blocks.parquet")
    assert out.read_bytes() == whole.read_bytes()
    assert found == counts


def test_lines_that_cannot_be_read_are_counted_and_shown(raw: Path) -> None:
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
    ("content", "words"),
    [
        (b"", "has no rows"),
        (b"\n\n", "has no rows"),
        (gzip.compress(b"", mtime=0), "has no rows"),
        (b"user,time,lat,lon\n", "has no rows"),
        (
            b"hello\nworld\n",
            "none of its 2 lines can be read. A line must have user, time_s, lat, lon, location, parted",
        ),
        ("0\t2010\n".encode("utf-16"), "none of its 2 lines can be read"),
        (b"user,when,lat,lon\n1,2,3,4\n", "no column for time"),
        (b"user,time,cell\n1,2,3\n", "no columns for lat and lon"),
        (b"PK\x03\x04abc", "is a zip archive: unpack it first"),
        (checkin("1", 1, OUT).encode(), "they lie in lat 30.2359 to 30.2359, lon -97.7951 to -97.7951"),
    ],
)
def test_files_that_hold_nothing_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    raw = tmp_path / "loc.txt"
    raw.write_bytes(content)
    with pytest.raises(InputError) as raised:
        imported(raw)
    assert words in str(raised.value)
    assert list(tmp_path.iterdir()) == [raw]


def test_a_gzip_file_that_is_cut_off_or_damaged_is_refused(raw: Path) -> None:
    packed = bytearray(gzip.compress(raw.read_bytes()))
    for content in (packed[:-12], packed[:-6], packed[:40] + bytes(8) + packed[48:], packed + b"rubbish"):
        raw.write_bytes(content)
        with pytest.raises(InputError, match="damaged or cut off"):
            imported(raw)
    assert list(raw.parent.iterdir()) == [raw]


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 100)
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    raw = tmp_path / "loc.txt"
    raw.write_bytes(b"x" * 5000)
    with pytest.raises(InputError, match="a line is longer than 1,000 bytes"):
        imported(raw)


def cab(path: Path, *times: int, place: tuple[str, str] = IN) -> Path:
    path.write_text("".join(f"{place[0]} {place[1]} {time % 2} {time}\n" for time in sorted(times, reverse=True)))
    return path


def test_a_folder_of_cabs(tmp_path: Path) -> None:
    cab(tmp_path / "new_ugatna.txt", 1211018409, 1211018400)
    cab(tmp_path / "new_abboip.txt", 1211018500)
    (tmp_path / "_cabs.txt").write_text('<cab id="abboip" updates="1"/>')
    (tmp_path / "README").write_text("not a cab")
    counts = import_traces("cabspotting", [tmp_path], tmp_path / "c.parquet", region=SAN_FRANCISCO)
    found = load(tmp_path / "c.parquet")
    assert list(found) == ["user", "time_s", "lat", "lon", "occupied"]
    assert found["user"] == ["abboip", "ugatna", "ugatna"]
    assert found["time_s"] == [1211018500, 1211018400, 1211018409]
    assert found["occupied"] == [False, False, True]
    assert counts == Counts(lines=3, kept=3, users=2)
    assert [file["name"] for file in notes(tmp_path / "c.parquet")["files"]] == ["new_abboip.txt", "new_ugatna.txt"]


def test_cabs_given_one_by_one_stay_in_that_order(tmp_path: Path) -> None:
    paths = [cab(tmp_path / f"new_{name}.txt", 5) for name in ("ugatna", "abboip")]
    out, _ = imported(paths, "cabspotting")
    assert load(out)["user"] == ["ugatna", "abboip"]
    with pytest.raises(InputError, match="is named twice"):
        imported([paths[0], paths[0]], "cabspotting")
    with pytest.raises(InputError, match=r"must be called new_<cab>\.txt"):
        imported(cab(tmp_path / "cab.txt", 5), "cabspotting")


def test_wrong_paths(tmp_path: Path, raw: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.txt does not exist"):
        imported(tmp_path / "nowhere.txt")
    with pytest.raises(InputError, match=r"is a folder: name the file, such as loc-gowalla_totalCheckins\.txt\.gz"):
        imported(tmp_path)
    with pytest.raises(InputError, match=r"has no file called new_<cab>\.txt"):
        imported(tmp_path, "cabspotting")
    archive = tmp_path / "cabs.tar.gz"
    with tarfile.open(archive, "w:gz", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(raw, "raw.txt")
    with pytest.raises(InputError, match="is a tar archive: unpack it first"):
        imported(archive)


def test_files_of_two_forms_are_not_mixed(tmp_path: Path, raw: Path) -> None:
    csv = tmp_path / "x.csv"
    csv.write_text("user,chron_seq,lat,lon,loc_id\n1,0,37.6,-122.4,5\n")
    with pytest.raises(InputError, match="import files of one form at a time"):
        imported([raw, csv])


def test_where_a_trace_file_may_not_be_written(raw: Path, tmp_path: Path) -> None:
    def refused(out: Path | str, *, overwrite: bool = False) -> str:
        with pytest.raises(RequestError) as raised:
            import_traces("gowalla", [raw], out, region=SAN_FRANCISCO, overwrite=overwrite)
        return str(raised.value)

    before = raw.read_bytes()
    assert "must be called NAME.parquet" in refused(raw, overwrite=True)
    there = tmp_path / "there.parquet"
    there.write_bytes(b"precious")
    assert "replace it with --overwrite" in refused(there)
    assert "is no folder" in refused(tmp_path / "no" / "x.parquet")
    (tmp_path / "folder.parquet").mkdir()
    assert "is a folder" in refused(tmp_path / "folder.parquet")
    assert "on this machine" in refused("s3://bucket/x.parquet")
    run = tmp_path / "run"
    (run / "events").mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    assert "is a run directory" in refused(run / "x.parquet")
    assert "is a run directory" in refused(run / "events" / "x.parquet", overwrite=True)
    assert there.read_bytes() == b"precious"
    assert raw.read_bytes() == before
    same = tmp_path / "raw.parquet"
    raw.rename(same)
    with pytest.raises(RequestError, match="is what is to be read"):
        import_traces("gowalla", [same], same, region=None, overwrite=True)


def test_nothing_is_left_of_a_file_that_could_not_be_written(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(RunError, match=r"cannot write .*out\.parquet: No space left on device"):
        imported(raw)
    assert list(raw.parent.iterdir()) == [raw]


def test_the_file_says_what_it_is_made_of(raw: Path) -> None:
    out, _ = imported(raw)
    said = notes(out)
    assert said["source"] == "gowalla"
    assert said["region"] == {"south": 37.55, "north": 37.801, "west": -122.5153, "east": -122.3789}
    digest = hashlib.sha256(raw.read_bytes()).hexdigest()
    assert said["files"] == [{"name": raw.name, "bytes": raw.stat().st_size, "sha256": digest}]
    assert said["counts"] == {
        "lines": 10, "unreadable": 0, "outside": 2, "kept": 8, "duplicates": 0, "users": 3
    }  # fmt: skip
    packed = raw.with_name("packed.gz")
    packed.write_bytes(gzip.compress(raw.read_bytes()))
    out, _ = imported(packed)
    assert notes(out)["files"][0]["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()


def test_the_same_rows_give_the_same_bytes(raw: Path) -> None:
    first = imported(raw, name="a.parquet")[0].read_bytes()
    assert imported(raw, name="b.parquet")[0].read_bytes() == first


def test_progress_counts_the_bytes_of_all_files(tmp_path: Path) -> None:
    paths = [cab(tmp_path / f"new_{name}.txt", *range(100)) for name in "ab"]
    told: list[tuple[int, int]] = []
    import_traces(
        "cabspotting",
        paths,
        tmp_path / "c.parquet",
        region=None,
        progress=lambda done, total: told.append((done, total)),
    )
    total = sum(path.stat().st_size for path in paths)
    assert told[-1] == (total, total)
    assert all(a[0] <= b[0] for a, b in pairwise(told))


def test_ids_are_text_for_every_reader(raw: Path) -> None:
    out, _ = imported(raw)
    assert pq.read_schema(out).field("user").type == pa.string()
    assert pd.read_parquet(out)["user"].tolist()[0] == "007"
    replay = made(Replay, grid=Grid.san_francisco(), file=out)
    assert list(replay.users()) == ["007", "9", "10"]


def test_a_scenarios_replay_reads_no_more_columns_than_it_needs(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = imported(raw)
    asked: list[Any] = []
    read_table = pq.read_table

    def spy(*args: Any, **options: Any) -> pa.Table:
        asked.append(options["columns"])
        return read_table(*args, **options)

    monkeypatch.setattr(pq, "read_table", spy)
    made(Replay, grid=Grid.san_francisco(), file=out)
    assert asked == [["user", "time_s", "lat", "lon"]]


# Real data -------------------------------------------------------------------------------------------------------


def as_replayed(file: Path) -> dict[str, tuple[list[int], list[int]]]:
    replay = made(Replay, grid=Grid.san_francisco(), file=file)
    rng = np.random.default_rng(0)
    found = {}
    for user in replay.users():
        visits = list(replay.visits(user, rng))
        found[user] = ([visit.time_s for visit in visits], [visit.cell for visit in visits])
    return found


@pytest.mark.data
@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("brightkite", "brightkite_sf_ccs17.csv.gz"),
        ("gowalla", "gowalla_sf_ccs17.csv.gz"),
        ("cabspotting", "cabs_sf_points.csv.gz"),
    ],
)
def test_an_imported_file_replays_as_the_original_does(real_data: Path, tmp_path: Path, source: str, name: str) -> None:
    out = tmp_path / "x.parquet"
    counts = import_traces(source, [real_data / name], out, region=SAN_FRANCISCO)
    assert counts.unreadable == 0
    ours, theirs = as_replayed(out), as_replayed(real_data / name)
    assert list(ours) == list(theirs)
    assert ours == theirs


@pytest.mark.data
def test_check_ins_written_as_the_download_is_import_to_the_same(real_data: Path, tmp_path: Path) -> None:
    table = pd.read_csv(real_data / "gowalla_sf_ccs17.csv.gz", dtype=str)
    # No times: make some that keep the order, several check-ins to a second as in the real file.
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
        made(Replay, grid=Grid.san_francisco(), file=tmp_path / name, select=select).users()
        for name in ("raw.parquet", "csv.parquet")
    ]
    assert sets[0] == sets[1]


@pytest.mark.data
def test_cabs_written_as_the_download_is_import_to_the_same(real_data: Path, tmp_path: Path) -> None:
    table = pd.read_csv(real_data / "cabs_sf_points.csv.gz", dtype=str)
    paths = []
    for name, own in table.groupby("user", sort=False):
        lines = own["lat"] + " " + own["lon"] + " " + own["occupied"] + " " + own["unixtime"] + "\n"
        paths.append(tmp_path / f"new_{name}.txt")
        paths[-1].write_text("".join(lines[::-1]))
    import_traces("cabspotting", paths, tmp_path / "raw.parquet", region=SAN_FRANCISCO)
    import_traces("cabspotting", [real_data / "cabs_sf_points.csv.gz"], tmp_path / "csv.parquet", region=SAN_FRANCISCO)
    assert pq.read_table(tmp_path / "raw.parquet").equals(pq.read_table(tmp_path / "csv.parquet"))


def test_an_id_of_thousands_of_digits(tmp_path: Path) -> None:
    raw = tmp_path / "loc.txt"
    raw.write_text(checkin("9" * 5000, 1) + checkin("8" * 5000, 2) + checkin("7", 3))
    out, counts = imported(raw)
    assert counts.users == 3
    assert load(out)["user"] == ["7", "8" * 5000, "9" * 5000]


@pytest.mark.parametrize("moment", ["{}", "2010-10-13T20:00:{}Z"])
def test_rows_are_ordered_by_exact_time_and_then_floored(tmp_path: Path, moment: str) -> None:
    """Newest first within a user, so that ties are reversed."""
    seconds = ["06", "05.95", "05.1", "05.9", "05.1"]
    rows = [f"1\t{moment.format(second)}\t37.6\t-122.4\tl{n}\n" for n, second in enumerate(seconds)]
    raw = tmp_path / "loc.txt"
    raw.write_text("".join(rows) + checkin("0", 1))
    found = load(imported(raw)[0])
    assert found["location"] == ["7", "l4", "l2", "l3", "l1", "l0"]
    assert [time % 60 for time in found["time_s"][1:]] == [5, 5, 5, 5, 6]
    assert list(found) == ["user", "time_s", "lat", "lon", "location"]


def test_a_time_that_wraps_is_refused_with_row_and_value(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    times = pa.array([5, 2**64 - 1], pa.uint64())
    pq.write_table(pa.table({"user": ["a", "a"], "time_s": times, "lat": [37.6] * 2, "lon": [-122.4] * 2}), path)
    with pytest.raises(InputError, match=r"the column time_s must be int64: .*18446744073709551615.*\(row 2\)"):
        describing.load(path)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_damaged_file_is_described_or_refused(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"user": ["a", "b"], "time_s": [1, 2], "lat": [37.6, 37.7], "lon": [-122.4, -122.5]})
    path = tmp_path / name
    if name.endswith("csv"):
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    content, rng = path.read_bytes(), np.random.default_rng(3)
    refused = []
    for _ in range(200):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            describing.describe(describing.load(path))
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert all(str(path) in message or "region" in message for message in refused)
