"""Files of pairs: all formats, matching, counts of unmatched rows, and errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sim.audit.displacement import Sample
from sim.audit.input_warnings import exchange_warning
from sim.audit.pairs import read_pairs
from sim.audit.record import audit
from sim.errors import InputError
from tests.audit.mechanisms import Release, decimals, gaussian, laplace, zone
from tests.audit.movement import people
from tests.support import raises_code

N = 40


def _frame(shift: float = 0.0) -> pd.DataFrame:
    step = np.arange(N)
    return pd.DataFrame(
        {
            "user": np.where(step < 20, "10", "9"),
            "time": 1_700_000_000 + 60 * step,
            "lat": 37.7 + 1e-4 * step + shift,
            "lon": -122.4 + 2e-4 * step + shift,
        }
    )


def _csv(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(path, index=False)
    return path


def _gpx(path: Path, frame: pd.DataFrame) -> Path:
    tracks = []
    for user, own in frame.groupby("user", sort=False):
        points = "".join(
            f'<trkpt lat="{lat}" lon="{lon}"><time>{pd.Timestamp(time, unit="s", tz="UTC").isoformat()}</time></trkpt>'
            for time, lat, lon in own[["time", "lat", "lon"]].astype(object).to_numpy().tolist()
        )
        tracks.append(f"<trk><name>{user}</name><trkseg>{points}</trkseg></trk>")
    path.write_text(f'<gpx xmlns="http://www.topografix.com/GPX/1/1">{"".join(tracks)}</gpx>')
    return path


def _geojson(path: Path, frame: pd.DataFrame) -> Path:
    features = [
        {
            "type": "Feature",
            "properties": {"user": user, "time": time},
            "geometry": {"type": "Point", "coordinates": [lon, lat]},
        }
        for user, time, lat, lon in frame[["user", "time", "lat", "lon"]].astype(object).to_numpy().tolist()
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def _parquet(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_parquet(path)
    return path


WRITERS = {".csv": _csv, ".parquet": _parquet, ".gpx": _gpx, ".geojson": _geojson}


@pytest.mark.parametrize("suffix", WRITERS)
def test_formats_are_read_alike(tmp_path: Path, suffix: str) -> None:
    true = _csv(tmp_path / "true.csv", _frame())
    sent = WRITERS[suffix](tmp_path / f"sent{suffix}", _frame(1e-3).sample(frac=1, random_state=1))
    pairs = read_pairs(true, sent)
    assert pairs.users == ("9", "10")
    assert pairs.matching.pairs == N
    assert pairs.sample.dy_m == pytest.approx(np.full(N, 111.19), abs=0.01)


def test_unmatched_rows_are_counted(tmp_path: Path) -> None:
    true = _csv(tmp_path / "true.csv", _frame())
    late = _frame().tail(3).assign(time=lambda frame: frame["time"] + 7)
    sent = _csv(tmp_path / "sent.csv", pd.concat([_frame().head(35), late]))
    matching = read_pairs(true, sent).matching
    assert (matching.pairs, matching.without_report, matching.without_truth) == (35, 5, 3)


def test_repeated_times_are_matched_in_their_order(tmp_path: Path) -> None:
    frame = pd.concat([_frame(), _frame(0.5).head(1)])
    files = [_csv(tmp_path / f"{name}.csv", frame) for name in ("true", "sent")]
    pairs = read_pairs(*files)
    assert pairs.matching.repeated == 2
    assert pairs.sample.distance_m.max() < 1e-6


def test_fractions_of_seconds_distinguish_rows(tmp_path: Path) -> None:
    frame = _frame().assign(time=lambda frame: frame["time"].iloc[0] + frame.index / 4)
    files = [_csv(tmp_path / f"{name}.csv", frame) for name in ("true", "sent")]
    pairs = read_pairs(*files)
    assert pairs.matching.repeated == 0
    assert np.diff(pairs.sample.time_s[:20]) == pytest.approx(np.full(19, 0.25))


def test_one_file_may_have_both_positions_and_missing_reports(tmp_path: Path) -> None:
    frame = _frame().assign(sent_lat=lambda f: f["lat"], sent_lon=lambda f: f["lon"])
    frame.loc[[3, 7], ["sent_lat", "sent_lon"]] = np.nan
    matching = read_pairs(_csv(tmp_path / "both.csv", frame)).matching
    assert (matching.pairs, matching.without_report) == (N - 2, 2)


def test_rows_match_by_number(tmp_path: Path) -> None:
    true = _csv(tmp_path / "true.csv", _frame())
    sent = _csv(tmp_path / "sent.csv", _frame().assign(time=lambda frame: frame["time"] + 5))
    with raises_code(InputError, "pairs-do-not-match"):
        read_pairs(true, sent)
    assert read_pairs(true, sent, match="row").matching.pairs == N


@pytest.mark.parametrize(
    ("true", "sent", "match", "code"),
    [
        (_frame(), _frame().head(20), "time", "too-few-pairs"),
        (_frame(), _frame().assign(user="x"), "time", "pairs-do-not-match"),
        (_frame(), _frame().assign(user="x"), "row", "pairs-do-not-match"),
        (_frame(), _frame().head(35), "row", "pairs-do-not-match"),
        (_frame(), pd.concat([_frame(), _frame().tail(1)]), "row", "pairs-do-not-match"),
        (_frame(), _frame().assign(lon=lambda f: f["lon"] - 200), "time", "invalid-row"),
        (_frame(), _frame().rename(columns={"time": "order"}), "time", "times-differ"),
        (_frame().drop(columns="lat"), _frame(), "time", "no-such-column"),
        (_frame().assign(lat=95.0), _frame(), "time", "invalid-row"),
        (
            _frame().assign(lon=lambda f: f["lon"] + 80),
            _frame().assign(lat=lambda f: f["lon"] + 80, lon=_frame()["lat"]),
            "time",
            "columns-exchanged",
        ),
    ],
)
def test_bad_input_has_a_code(tmp_path: Path, true: pd.DataFrame, sent: pd.DataFrame, match: str, code: str) -> None:
    files = [_csv(tmp_path / "true.csv", true), _csv(tmp_path / "sent.csv", sent)]
    with raises_code(InputError, code):
        read_pairs(*files, match=match)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("one.csv", "user,time,lat,lon\n1,2,3,4\n", "no-sent-positions"),
        ("one.gpx", "<gpx><trk>", "unreadable-file"),
        ("one.gpx", "<gpx></gpx>", "empty-file"),
        ("one.geojson", "[1, 2]", "unreadable-file"),
        ("one.geojson", '{"features": [{"geometry": {"type": "Polygon"}}]}', "invalid-row"),
        ("one.csv", "", "empty-file"),
    ],
)
def test_bad_files_have_a_code(tmp_path: Path, name: str, text: str, code: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with raises_code(InputError, code):
        read_pairs(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    true = _csv(tmp_path / "true.csv", _frame())
    for files in ((tmp_path / "none.csv",), (true, tmp_path / "none.csv"), (tmp_path / "none.csv", true)):
        with raises_code(InputError, "file-not-found") as raised:
            read_pairs(*files)
        assert str(tmp_path / "none.csv") in str(raised.value)
        assert "Errno" not in str(raised.value)
    with raises_code(InputError, "is-a-folder"):
        read_pairs(true, tmp_path)


def test_only_latitudes_out_of_range_suggest_swapped_columns(tmp_path: Path) -> None:
    sent = _csv(tmp_path / "sent.csv", _frame())
    for value, swapped in (("abc", False), (95.0, True)):
        true = _csv(tmp_path / "true.csv", _frame().astype({"lat": object}).assign(lat=value))
        with raises_code(InputError, "invalid-row") as raised:
            read_pairs(true, sent)
        assert ("swapped" in str(raised.value)) is swapped
        assert ("must be a number" in str(raised.value)) is not swapped


def test_a_constant_delay_is_stated(tmp_path: Path) -> None:
    true = _csv(tmp_path / "true.csv", _frame())
    sent = _csv(tmp_path / "sent.csv", _frame().assign(time=lambda frame: frame["time"] + 7))
    with raises_code(InputError, "pairs-do-not-match") as raised:
        read_pairs(true, sent)
    assert ", usually +7 s from the nearest true time" in str(raised.value)


def _warnings(tmp_path: Path, true: pd.DataFrame, sent: pd.DataFrame) -> str:
    return " ".join(read_pairs(_csv(tmp_path / "true.csv", true), _csv(tmp_path / "sent.csv", sent)).warnings)


def _noisy(metres: float) -> pd.DataFrame:
    noise = np.random.default_rng(1).normal(0, metres / 111_195, (2, N))
    return _frame().assign(lat=lambda f: f["lat"] + noise[0], lon=lambda f: f["lon"] + noise[1])


def _exchange(tmp_path: Path, true: pd.DataFrame, sent: pd.DataFrame) -> str:
    pairs = read_pairs(_csv(tmp_path / "true.csv", true), _csv(tmp_path / "sent.csv", sent))
    return exchange_warning(pairs.sample, timed=True, noise=False, one_file=False)


@pytest.mark.parametrize("sent", [_noisy(300), _noisy(300).round(2), _frame(1e-3), _frame().round(2)])
def test_exchanged_files_are_recognised_by_noise_or_few_places(tmp_path: Path, sent: pd.DataFrame) -> None:
    symmetric = len(sent) == len(_frame()) and np.allclose(sent["lat"] - _frame()["lat"], 1e-3)
    assert not _exchange(tmp_path, _frame(), sent)
    assert bool(_exchange(tmp_path, sent, _frame())) is not symmetric


def test_placeholders_and_far_positions_are_counted(tmp_path: Path) -> None:
    zero = _frame().assign(
        lat=lambda f: f["lat"].where(f.index > 2, 0.0), lon=lambda f: f["lon"].where(f.index > 2, 0.0)
    )
    assert "3 sent positions are 0, 0" in _warnings(tmp_path, _frame(), zero)
    assert "3 true positions are 0, 0" in _warnings(tmp_path, zero, _frame())
    far = _frame().assign(lon=lambda f: f["lon"].where(f.index > 4, -90.0))
    assert "5 sent positions are more than 1,000 km" in _warnings(tmp_path, _frame(), far)
    assert _warnings(tmp_path, _frame(), _frame()) == ""


def test_times_that_differ_on_both_sides_are_no_dropping(tmp_path: Path) -> None:
    late = _frame().assign(time=lambda f: f["time"].where(f.index < 31, f["time"] + 7))
    assert "9 of 40 true rows and 9 of 40 sent rows have no partner" in _warnings(tmp_path, _frame(), late)
    assert _warnings(tmp_path, _frame(), _frame().head(31)) == ""


@pytest.mark.parametrize(("release", "seen"), [(laplace(200), True), (decimals(2), True), (zone(800), False)])
def test_only_exchanged_files_are_called_so(release: Release, seen: bool) -> None:
    rng = np.random.default_rng(2)
    sample = release(people(rng, users=5, pairs=300), rng)
    kept = sample.rows(sample.sent)
    swapped = replace(kept, lat=kept.sent_lat, lon=kept.sent_lon, sent_lat=kept.lat, sent_lon=kept.lon)
    for noise in (False, True):
        assert not exchange_warning(sample, timed=True, noise=noise, one_file=False)
        assert bool(exchange_warning(swapped, timed=True, noise=noise, one_file=False)) is seen


def _noise_at_places() -> Sample:
    rng = np.random.default_rng(3)
    places = rng.normal(0, 0.02, (10, 6, 2))
    user = np.repeat(np.arange(10), 40)
    lat, lon = (np.array([[37.75], [-122.45]]) + places[user, rng.integers(0, 6, user.size)].T).round(5)
    still = Sample(user, np.tile(np.arange(40) * 600.0, 10), lat, lon, lat, lon)
    return gaussian(300)(still, rng)


def test_noise_at_recurrent_places_is_no_exchange(tmp_path: Path) -> None:
    sample = _noise_at_places()
    names = {"lat": sample.lat, "lon": sample.lon, "sent_lat": sample.sent_lat, "sent_lon": sample.sent_lon}
    file = _csv(tmp_path / "places.csv", pd.DataFrame({"user": sample.user, "time": sample.time_s, **names}))
    result = audit(read_pairs(file), ["places.csv"])
    assert result.finding.kind == "gaussian"
    assert "exchanged" not in " ".join(result.notes)
    known = exchange_warning(sample, timed=True, noise=False, one_file=True)
    assert known.startswith("lat/lon and sent_lat/sent_lon may be exchanged: lat/lon has 60 different places")


def test_columns_of_one_file_are_named_separately(tmp_path: Path) -> None:
    true = _csv(tmp_path / "true.csv", _frame().rename(columns={"user": "device", "lat": "y", "lon": "x"}))
    sent = _csv(tmp_path / "sent.csv", _frame(0.001))
    names = {"user": "device", "lat": "y", "lon": "x"}
    pairs = read_pairs(true, sent, columns_true=names)
    assert pairs.matching.pairs == N
    assert read_pairs(sent, true, columns_sent=names).matching.pairs == N
    assert read_pairs(true, true, columns=names).matching.pairs == N
    with raises_code(InputError, "no-such-column") as raised:
        read_pairs(true, sent, columns=names)
    assert "--columns-sent" in str(raised.value)
    with raises_code(InputError, "no-sent-positions"):
        read_pairs(true, columns_sent=names)
