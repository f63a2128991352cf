"""Index of recorded visits: the same users and visits from memory and from a file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sim.components import user_cache
from sim.errors import InvalidValue
from sim.mobility.recorded import index_cache
from sim.mobility.recorded.replay import Replay, ReplayParameters, Selection
from sim.mobility.recorded.visit_index import DamagedIndex, RecordedUsers, UserVisits, VisitIndex
from sim.world.grid import Grid

GRID = Grid(rows=4, cols=5, width_km=5.0, height_km=4.0)


def visits_of(count: int, seed: int = 1, *, carried: bool = False) -> dict[str, UserVisits]:
    """Return random visits of users whose names are not in alphabetical order, with or without carried ones."""
    rng = np.random.default_rng(seed)
    names = [f"ü{number}" for number in rng.permutation(count)]
    lengths = dict(zip(names, rng.integers(1, 9, count).tolist(), strict=True))
    return {
        name: UserVisits(
            np.sort(rng.integers(-9, 10**10, n)), rng.integers(0, 20, n), rng.random(n) < 0.5 if carried else None
        )
        for name, n in lengths.items()
    }


def stored(index: VisitIndex, path: Path) -> VisitIndex:
    with path.open("wb") as file:
        index.write(file)
    return VisitIndex.open(path)


@pytest.fixture(params=["memory", "file"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> VisitIndex:
    index = VisitIndex.of(visits_of(50), {"timed": True})
    return index if request.param == "memory" else stored(index, tmp_path / "index")


def test_an_index_returns_the_visits_of_each_user(index: VisitIndex) -> None:
    visits, users = visits_of(50), RecordedUsers(index)
    assert users == list(visits)
    assert index.notes == {"timed": True}
    for place, (user, own) in enumerate(visits.items()):
        fresh = RecordedUsers(index)
        assert (fresh.place(user), fresh.index(user)) == (place, place)
        read = index.visits(place)
        assert np.array_equal(read.times_s, own.times_s)
        assert np.array_equal(read.cells, own.cells)
        assert {read.times_s.dtype, read.cells.dtype} == {np.dtype(np.int64)}
        assert read.carried is None


def test_an_index_returns_which_visits_are_carried(tmp_path: Path) -> None:
    visits = visits_of(20, carried=True)
    index = stored(VisitIndex.of(visits, {}), tmp_path / "index")
    for place, own in enumerate(visits.values()):
        read = index.visits(place).carried
        assert read is not None
        assert own.carried is not None
        assert read.tolist() == own.carried.tolist()


def test_users_are_a_sequence(index: VisitIndex) -> None:
    users, names = RecordedUsers(index), list(visits_of(50))
    assert users[10:20] == names[10:20]
    assert users[10:20].index(names[12]) == 2
    assert users[-1] == names[-1]
    assert names[12] in users[10:20]
    assert names[30] not in users[10:20]
    assert "nobody" not in users
    assert users.place("nobody") is None
    with pytest.raises(ValueError, match=names[7]):
        users[:5].index(names[7])


def test_every_changed_byte_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with path.open("wb") as file:
        VisitIndex.of(visits_of(3), {}).write(file)
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(DamagedIndex):
            VisitIndex.open(path)
    for length in (0, 5, 40, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedIndex):
            VisitIndex.open(path)


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a trace file, regard all files as large, and return its path."""
    monkeypatch.setattr(index_cache, "LARGE_BYTES", 0)
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "cache"))
    visits = visits_of(9).items()
    frames = [pd.DataFrame({"user": user, "time_s": own.times_s, "cell": own.cells}) for user, own in visits]
    pd.concat(frames).assign(time_s=lambda frame: frame["time_s"].clip(0)).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def replayed(file: Path, **keys: object) -> list[object]:
    replay = Replay(ReplayParameters(file=str(file), **keys), locations=GRID, file=file)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    return [replay.report(), replay.timed, *((user, list(replay.visits(user, rng))) for user in replay.users())]


def test_a_cached_index_replays_the_same_visits(
    traces: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, again = replayed(traces), replayed(traces)
    (cached,) = (traces.parent / "cache").iterdir()
    assert first == again
    assert (cached.stat().st_mode & 0o777) == 0o600 or os.name != "posix"
    assert replayed(traces, select=Selection(first=2))[2:] == first[2:4]
    assert replayed(traces, shuffle=True)[0] == first[0]
    assert len(list((traces.parent / "cache").iterdir())) == 2, "options other than shuffle have separate entries"
    cached.write_bytes(b"damaged")
    assert replayed(traces) == first
    assert "reading the trace file again" in capsys.readouterr().err
    assert VisitIndex.open(cached)
    monkeypatch.setenv(user_cache.VARIABLE, "off")
    assert replayed(traces) == first


def test_an_unreadable_file_is_reported_as_without_a_cache(traces: Path) -> None:
    traces.write_text("user,time_s,cell\na,1,99\n")
    with pytest.raises(InvalidValue, match="1 bad row: line 2"):
        replayed(traces)
    assert not list((traces.parent / "cache").iterdir())


def test_the_oldest_indexes_are_removed(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_cache, "MOST_BYTES", 1)
    replayed(traces)
    replayed(traces, visits=1)
    assert len(list((traces.parent / "cache").iterdir())) == 1
