"""Sessions of recorded rows: gaps, short sessions, and positions at a fixed period."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.analysis.narrative import left_out
from sim.errors import InvalidValue
from sim.events import Visit
from sim.interfaces import IntArray
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.periodic import Periodic, PeriodicParameters
from sim.mobility.gaps import sessions
from sim.mobility.recorded.replay import RecordedDays, Replay
from sim.mobility.recorded.sessions import long_enough, resample, session_numbers
from sim.mobility.recorded.stay_points import StayPoints
from sim.mobility.traces import Trace, live
from sim.simulation.setting import Setting
from sim.world.grid import Grid
from tests.support import MakeScenario, made, raises_code

GRID = Grid.rectangle(rows=2, cols=3, width_km=3, height_km=2)
HOUR, DAY = 3600, 86_400
NONE = np.zeros(0, dtype=np.int64)

times = st.lists(st.integers(0, 400), min_size=1, max_size=40).map(lambda steps: np.cumsum(steps).astype(np.int64))


def geolife(folder: Path, *, trips: int = 6, users: str = "ab", seed: int = 1) -> Path:
    """Write logs as in Geolife: trips with a point every 1 to 5 s, hours to days apart."""
    rng = np.random.default_rng(seed)
    lines = ["user,time_s,cell"]
    for user in users:
        now = 8 * HOUR
        for _ in range(trips):
            steps = rng.integers(1, 6, int(rng.integers(600, 900)))
            lines += [f"{user},{now + at},{(now + at) // 700 % 6}" for at in np.cumsum(steps)]
            now += int(steps.sum()) + int(rng.integers(3 * HOUR, 4 * DAY))
    path = folder / "geolife.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def times_of(path: Path, user: str) -> IntArray:
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return np.array([int(time_s) for name, time_s, _ in rows if name == user])


def queried(mobility: Replay, user: str, demand: Any) -> Trace:
    rng = np.random.default_rng(0)
    return live(mobility, demand, user, moves=rng, moments=rng).test


def every(period_s: int) -> Periodic:
    return Periodic(PeriodicParameters(period_s=period_s))


@settings(deadline=None)
@given(times=times, max_gap_s=st.integers(1, 300), least=st.integers(1, 6))
def test_sessions_agree_with_those_of_queries(times: IntArray, max_gap_s: int, least: int) -> None:
    parts = [list(part) for part in sessions([Visit(int(t), 0) for t in times], max_gap_s=max_gap_s)]
    numbers = session_numbers(np.zeros_like(times), times, max_gap_s=max_gap_s)
    assert np.bincount(numbers).tolist() == [len(part) for part in parts]
    kept = [visit.time_s for part in parts if len(part) >= least for visit in part]
    assert times[long_enough(numbers, min_session=least)].tolist() == kept


def test_sessions_do_not_cross_users() -> None:
    assert session_numbers(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2]), max_gap_s=9).tolist() == [0, 0, 1, 2]
    assert session_numbers(NONE, NONE, max_gap_s=9).size == 0
    assert long_enough(NONE, min_session=2).size == 0


@settings(deadline=None)
@given(times=times, period_s=st.integers(1, 300), longer_s=st.integers(0, 300))
def test_resampled_positions_are_the_periodic_queries_of_each_session(
    times: IntArray, period_s: int, longer_s: int
) -> None:
    max_gap_s = period_s + longer_s
    visits = [Visit(int(time_s), number) for number, time_s in enumerate(times)]
    queries = [q for part in sessions(visits, max_gap_s=max_gap_s) for q in every(period_s).queries(part, None)]
    session = session_numbers(np.zeros_like(times), times, max_gap_s=max_gap_s)
    positions = resample(times, np.arange(times.size), session, period_s=period_s)
    assert [Visit(*pair) for pair in zip(positions.times_s.tolist(), positions.values.tolist(), strict=True)] == queries
    with_row = {int(time_s) // period_s * period_s for time_s in times}
    assert positions.carried.tolist() == [query.time_s not in with_row for query in queries]
    unlimited = list(every(period_s).queries(visits, None))
    assert positions.cut == len(unlimited) - len(queries)
    # A position is carried within its session only, for at most the longest gap.
    ages = positions.times_s + period_s - times[positions.values]
    assert ages.max() <= max_gap_s + period_s
    assert (ages > 0).all()


def test_a_slot_in_which_sessions_meet_belongs_to_the_later_one() -> None:
    positions = resample(np.array([0, 110, 130, 150, 390]), np.arange(5), np.array([0, 0, 1, 2, 2]), period_s=100)
    assert (positions.times_s.tolist(), positions.values.tolist()) == ([0, 100, 200, 300], [0, 3, 3, 4])
    assert positions.carried.tolist() == [False, False, True, False]


def test_no_position_of_geolife_is_invented(tmp_path: Path) -> None:
    """Without sessions, more than 90 % of the queries every 5 minutes would be carried over gaps, as was measured."""
    path = geolife(tmp_path)
    uncut = queried(made(Replay, locations=GRID, file=path, max_gap_s=10**9), "a", every(300))
    resampled = made(Replay, locations=GRID, file=path, resample_s=300)
    trace, cut = (
        queried(resampled, "a", EveryVisit()),
        queried(made(Replay, locations=GRID, file=path), "a", every(300)),
    )
    assert trace.times_s.tolist() == cut.times_s.tolist()
    assert trace.cells.tolist() == cut.cells.tolist()
    assert len(trace) < 0.1 * len(uncut)
    recorded = times_of(path, "a")
    for time_s in trace.times_s:
        assert ((recorded >= time_s) & (recorded < time_s + 300)).any()


@pytest.mark.parametrize("period_s", [60, 300, 900])
def test_periodic_queries_of_resampled_positions_never_enter_gaps(tmp_path: Path, period_s: int) -> None:
    """Sessions that are one second more than the limit apart stay apart on the slots."""
    path = tmp_path / "t.csv"
    path.write_text("user,time_s,cell\n" + "".join(f"a,{t},{n}\n" for n, t in enumerate((0, 650, 7851, 7900))))
    trace = queried(made(Replay, locations=GRID, file=path, resample_s=300), "a", every(period_s))
    assert set(trace.times_s.tolist()) & set(range(901, 7200)) == set()


def test_short_sessions_are_omitted_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    stamps = {"a": [0, 10, 20, DAY, 2 * DAY, 2 * DAY + 5], "b": [0], "c": [7, 8, 9]}
    rows = "".join(f"{user},{time_s},0\n" for user, own in stamps.items() for time_s in own)
    path.write_text("user,time_s,cell\n" + rows)
    replay = made(Replay, locations=GRID, file=path, min_session=3)
    assert list(replay.users()) == ["a", "c"]
    assert replay.times_s("a").tolist() == [0, 10, 20]
    report = replay.report()
    assert [report[name] for name in ("sessions", "sessions_dropped", "rows_dropped", "visits")] == [2, 2, 3, 6]
    with raises_code(InvalidValue, "no-sessions") as error:
        made(Replay, locations=GRID, file=path, min_session=4)
    assert "none of its 5 sessions" in str(error.value)


def test_carried_and_cut_queries_of_resampled_positions_are_counted(
    tmp_path: Path, make_scenario: MakeScenario
) -> None:
    path = tmp_path / "t.csv"
    stamps = [0, 301, 1500, 1501, DAY, DAY + 900, 3 * DAY]
    path.write_text("user,time_s,cell\n" + "".join(f"a,{t},{n % 6}\n" for n, t in enumerate(stamps)))
    mobility = {"kind": "replay", "file": str(path), "resample_s": 300, "min_session": 2}

    def reading(**users: Any) -> dict[str, Any]:
        grid = {"kind": "rectangle", "rows": 2, "cols": 3, "width_km": 3, "height_km": 2}
        scenario = make_scenario(users={"mobility": mobility} | users, training={}, world={"grid": grid})
        return Setting(scenario).readings()["users"]

    slots_cut = DAY // 300 - 6
    for demand in ("every_visit", {"kind": "periodic", "period_s": 300}):
        counts = reading(demand=demand)
        assert (counts["queries_recorded"], counts["queries_carried"], counts["queries_cut"]) == (5, 5, slots_cut)
        assert (counts["visits_carried"], counts["visits_cut"], counts["gaps"]) == (5, slots_cut, 1)
    assert reading(queries=4)["queries_carried"] == 2
    notes = left_out({"users": reading()})
    assert [note for note in notes if "5 of 10 queries (50 %)" in note]
    assert [note for note in notes if "in 1 gap of over 2 h" in note and f"{slots_cut} are omitted" in note]
    assert [note for note in notes if "1 of 3 sessions (33 %) are shorter than `min_session`" in note]
    coarse = reading(demand={"kind": "periodic", "period_s": 600})
    assert (coarse["queries_recorded"], coarse["queries_carried"]) == (4, 1), "slots 600-1200 have no row"
    poisson = reading(demand={"kind": "poisson", "per_hour": 3600})
    assert poisson["queries_recorded"] == 3, "one query each after the visits at 0, 300 and the new day"
    assert poisson["queries_carried"] > 2000


def test_invalid_combinations_are_rejected(tmp_path: Path) -> None:
    path = geolife(tmp_path, trips=1)
    for options in ({"resample_s": 300}, {"stay_points": StayPoints()}):
        with raises_code(Exception, "exclusive-keys"):
            made(Replay, locations=GRID, file=path, days=RecordedDays(), **options)
    with raises_code(Exception, "out-of-range"):
        made(Replay, locations=GRID, file=path, resample_s=300, max_gap_s=299)
    path.write_text("user,order,cell\na,1,0\n")
    for name, value in {"resample_s": 300, "min_session": 2, "stay_points": StayPoints()}.items():
        with raises_code(InvalidValue, "times-missing") as error:
            made(Replay, locations=GRID, file=path, **{name: value})
        assert f"`{name}`" in str(error.value)


def test_the_digest_depends_on_the_options_only_if_they_are_given(make_scenario: MakeScenario) -> None:
    def scenario(**options: Any) -> Any:
        return make_scenario(users={"mobility": {"kind": "replay", "file": "t.csv"} | options}, training={})

    plain = scenario()
    assert "resample_s" not in plain.canonical()
    digests = {scenario(**options).digest for options in options_of_sessions()}
    assert len(digests | {plain.digest}) == 4


def options_of_sessions() -> Iterable[dict[str, Any]]:
    return ({"resample_s": 300}, {"min_session": 2}, {"stay_points": {}})
