"""Constant shifts of the sent times: found, stated first, and not seen where there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from sim.audit.displacement import Sample
from sim.audit.pairs import Pairs, read_pairs
from sim.audit.record import audit
from sim.audit.zone import fit_dropping
from sim.cli import main
from tests.audit.mechanisms import (
    Release,
    constant_offset,
    decimals,
    drifting_offset,
    identity,
    laplace,
    memoised_by_time,
    sometimes,
    zone,
)

USERS, ROWS, PERIOD_S = 6, 100, 600
START_S = 1_700_000_000


def _walks(*, users: int = USERS) -> Sample:
    """Return positions every ten minutes that move steadily, with changes of direction."""
    rng = np.random.default_rng(1)
    walk = rng.normal(0, 0.02, (users, 1, 2)) + np.cumsum(rng.normal(0, 0.003, (users, ROWS, 2)), axis=1)
    lat, lon = 37.75 + walk[..., 0].ravel(), -122.45 + walk[..., 1].ravel()
    time_s = START_S + np.tile(np.arange(ROWS) * PERIOD_S, users).astype(float)
    return Sample(np.repeat(np.arange(users), ROWS), time_s, lat, lon, lat.copy(), lon.copy())


def _files(folder: Path, sample: Sample, *, shift_s: int = 0) -> tuple[Path, Path]:
    kept = sample.rows(sample.sent)
    tables = {
        "true": {"user": sample.user, "time": sample.time_s.astype(int), "lat": sample.lat, "lon": sample.lon},
        "sent": {
            "user": kept.user,
            "time": kept.time_s.astype(int) + shift_s,
            "lat": kept.sent_lat,
            "lon": kept.sent_lon,
        },
    }
    for name, table in tables.items():
        pd.DataFrame(table).to_csv(folder / f"{name}.csv", index=False)
    return folder / "true.csv", folder / "sent.csv"


def _read(folder: Path, release: Release, *, shift_s: int = 0) -> Pairs:
    return read_pairs(*_files(folder, release(_walks(), np.random.default_rng(2)), shift_s=shift_s))


@pytest.mark.parametrize("shift_s", [3600, -3600, 19_800, 1200])
@pytest.mark.parametrize("release", [identity, laplace(100), decimals(3)])
def test_shifted_times_are_found(tmp_path: Path, release: Release, shift_s: int) -> None:
    pairs = _read(tmp_path, release, shift_s=shift_s)
    assert pairs.time_shift_s == shift_s
    assert pairs.warnings[0].startswith(f"The times of SENT look shifted by {shift_s:+,} s")


@pytest.mark.parametrize(("release", "shift_s"), [(identity, 3600), (decimals(3), -7200), (decimals(2), 0)])
def test_shifts_of_users_who_mostly_stay_are_found(tmp_path: Path, release: Release, shift_s: int) -> None:
    walks = _walks()
    hold = np.flatnonzero(np.tile(np.arange(ROWS) % 50 >= 4, USERS))  # four steps, then a long stay
    lat, lon = walks.lat.copy(), walks.lon.copy()
    for row in hold:
        lat[row], lon[row] = lat[row - 1], lon[row - 1]
    still = replace(walks, lat=lat, lon=lon, sent_lat=lat, sent_lon=lon)
    files = _files(tmp_path, release(still, np.random.default_rng(2)), shift_s=shift_s)
    assert read_pairs(*files).time_shift_s == shift_s


@pytest.mark.parametrize(
    "release",
    [
        identity,
        laplace(2000),
        decimals(1),
        constant_offset(1500),
        drifting_offset(1000, 24),
        memoised_by_time(identity, 3600),
        memoised_by_time(laplace(250), 1800),
        sometimes(0.3, laplace(500)),
        zone(3000),
        zone(3000, hidden=False),
    ],
)
def test_mechanisms_are_no_shift(tmp_path: Path, release: Release) -> None:
    assert _read(tmp_path, release).time_shift_s == 0


def test_the_shift_is_stated_before_the_result(tmp_path: Path) -> None:
    walks = _walks()
    gap = (walks.time_s - START_S) // PERIOD_S // 20 == 2
    files = _files(tmp_path, walks.rows(~gap), shift_s=3600)  # rows before the gap have no sent position
    out = tmp_path / "audit.html"
    result = CliRunner().invoke(main, ["audit", *map(str, files), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("WARNING: The times of SENT look shifted by +3,600 s")
    assert "zone of each user" not in result.output
    assert "dropped at random" not in result.output
    html = out.read_text()
    assert html.index("look shifted by +3,600 s") < html.index("The pairs show")
    assert html.count("look shifted") == 1


def _dropped(first: int, last: int) -> Sample:
    sample, row = _walks(), np.tile(np.arange(ROWS), USERS)
    return replace(sample, sent_lat=np.where((row < first) | (row >= ROWS - last), np.nan, sample.sent_lat))


@pytest.mark.parametrize(("first", "last"), [(6, 0), (0, 6)])
def test_rows_outside_the_sent_recording_are_no_zone(tmp_path: Path, first: int, last: int) -> None:
    sample = _dropped(first, last)
    assert fit_dropping(sample).kind == "all"
    result = audit(read_pairs(*_files(tmp_path, sample)), ["true.csv", "sent.csv"])
    assert result.finding.kind == "identity"
    where = "first" if first else "last"
    assert f"They are only the {where} of each user's recording" in " ".join(result.notes)


def test_rows_dropped_in_the_middle_are_reported() -> None:
    sample = _dropped(6, 0)
    sent_lat = sample.sent_lat.copy()
    sent_lat[ROWS // 2 :: ROWS] = np.nan
    assert fit_dropping(replace(sample, sent_lat=sent_lat)).kind != "all"
