"""The log against one that remembers nothing and writes row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sim.attack import OptimalAttack
from sim.belief import EstimatedProfile, FixedProfile, MarkovFilter
from sim.engine import simulate
from sim.events import Guess, Query, Report, Shift
from sim.inference import read_only
from sim.interfaces import LPPM, Attack, Belief, Channel
from sim.lppm.channel import exponential, identity
from sim.lppm.designs import Exponential, Identity
from sim.lppm.mechanism import Mechanism
from sim.mobility.traces import Trace
from sim.recorder import SimulationLog
from sim.rng import stream
from sim.rundir import EVENTS
from sim.world import World
from sim.world.distance import euclidean, manhattan
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)
N = GRID.n_cells
WORLD = World(grid=GRID, roads=None, quality_distance=manhattan(GRID), privacy_distance=euclidean(GRID))
PROFILE = np.array([0.3, 0.3, 0.2, 0.1, 0.1, 0.0])
TRACES = [
    Trace("ann", np.array([0, 5, 5, 9, 20, 21]), np.array([1, 1, 3, 1, 3, 0])),
    Trace("bob", np.array([3]), np.array([2])),
    Trace("cy", np.array([], dtype=np.int64), np.array([], dtype=np.int64)),
    Trace("di", np.array([0, 5, 8]), np.array([4, 4, 4])),
]


def beliefs() -> dict[str, Belief]:
    moves = np.full((N, N), 0.5 / N) + 0.5 * np.eye(N)
    return {
        "fixed": FixedProfile(profile=PROFILE),
        "markov": MarkovFilter(start_profile=PROFILE, transition=moves),
        "learning": EstimatedProfile(initial_profile=PROFILE),
    }


class Witness:
    """An attack that keeps every report and what was answered to it."""

    def __init__(self, attack: Attack) -> None:
        self.attack = attack
        self.seen: list[tuple[Report, Guess]] = []

    def observe(self, report: Report) -> Guess:
        guess = self.attack.observe(report)
        self.seen.append((report, guess))
        return guess


def plain_rows(witnesses: dict[str, Witness], *, expected: bool) -> list[dict[str, Any]]:
    """Return the rows that the reports and guesses make, each worked out on its own."""
    cells = {(trace.user, i): int(cell) for trace in TRACES for i, cell in enumerate(trace.cells, start=1)}
    order = {trace.user: i for i, trace in enumerate(TRACES)}
    quality_km, privacy_km = WORLD.quality_distance.matrix_km, WORLD.privacy_distance.matrix_km
    rows = []
    for name, witness in witnesses.items():
        for report, guess in witness.seen:
            cell = cells[report.user, report.index]
            assert report.channel is not None
            row = report.channel.row(cell)
            rows.append(
                {
                    "event": "query",
                    "shift": None,
                    "point": 4,
                    "replication": 2,
                    "user": report.user,
                    "index": report.index,
                    "time_s": report.time_s,
                    "cell": cell,
                    "output": report.output,
                    "lppm": "mine",
                    "attack": name,
                    "estimated_index": report.index,
                    "estimate": guess.estimate,
                    "quality_loss_km": quality_km[cell, report.output],
                    "adversary_error_km": privacy_km[cell, guess.estimate],
                    "expected_quality_loss_km": row @ quality_km[cell] if expected else None,
                    "expected_adversary_error_km": (
                        None if guess.estimate_by_output is None else row @ privacy_km[cell, guess.estimate_by_output]
                    ),
                }
            )
    return sorted(rows, key=lambda row: (order[row["user"]], row["index"]))


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["fixed", "markov", "learning", "identity"])
def test_the_table_holds_what_happened(kind: str, shared: bool, expected: bool) -> None:
    distance = WORLD.quality_distance
    design = Identity(n_cells=N) if kind == "identity" else Exponential(distance=distance, epsilon_per_km=0.7)

    def mechanism() -> LPPM:
        return Mechanism(belief=beliefs()["learning" if kind == "identity" else kind], design=design)

    of_all = mechanism()

    def attack(name: str) -> Attack:
        return OptimalAttack(belief_of=lambda _: beliefs()[name], distance=WORLD.privacy_distance, foresee=expected)

    witnesses = {name: Witness(attack(name)) for name in ("fixed", "markov")}
    log = SimulationLog(world=WORLD, traces=TRACES, attacks=list(witnesses), expected=expected)
    simulate(
        traces=TRACES,
        lppm_of=lambda _: of_all if shared else mechanism(),
        noise_of=lambda user: stream(1, "noise", user),
        attacks=witnesses,
        log=log,
    )
    table = log.table(point=4, lppm="mine", replication=2)
    assert table.equals(pa.Table.from_pylist(plain_rows(witnesses, expected=expected), schema=EVENTS))
    assert table.num_rows == 2 * sum(map(len, TRACES))


def test_without_attacks_there_is_a_row_per_query() -> None:
    log = SimulationLog(world=WORLD, traces=TRACES, attacks=[], expected=False)
    mechanism = Mechanism(belief=FixedProfile(profile=PROFILE), design=Identity(n_cells=N))
    simulate(traces=TRACES, lppm_of=lambda _: mechanism, noise_of=lambda user: stream(1, user), attacks={}, log=log)
    table = log.table(point=0, lppm="mine", replication=0)
    assert table.schema.equals(EVENTS)
    assert table["user"].to_pylist() == ["ann"] * 6 + ["bob"] + ["di"] * 3
    assert table["output"].to_pylist() == table["cell"].to_pylist()
    assert table["estimate"].null_count == table["attack"].null_count == table.num_rows


@pytest.mark.parametrize("window", [None, 2, 10])
@pytest.mark.parametrize("attacks", [0, 2])
def test_a_shift_is_a_row_before_those_of_its_query(attacks: int, window: int | None) -> None:
    shifts = [
        Shift("ann", "move", 4),
        Shift("ann", "holiday", 4),
        Shift("ann", "holiday", 6, ends=True),
        Shift("di", "move", 1),
    ]
    names = [f"a{i}" for i in range(attacks)]

    def table(shifts: list[Shift]) -> pa.Table:
        log = SimulationLog(world=WORLD, traces=TRACES, attacks=names, window=window, shifts=shifts)
        mechanism = Mechanism(belief=FixedProfile(profile=PROFILE), design=Identity(n_cells=N))
        listening = {
            name: OptimalAttack(belief_of=lambda _: beliefs()["fixed"], distance=WORLD.privacy_distance)
            for name in names
        }
        simulate(
            traces=TRACES,
            lppm_of=lambda _: mechanism,
            noise_of=lambda user: stream(1, user),
            attacks=listening,
            log=log,
        )
        return log.table(point=4, lppm="mine", replication=2)

    found = table(shifts).to_pylist()
    changed = [row for row in found if row["shift"] is not None]
    assert [row for row in found if row["shift"] is None] == table([]).to_pylist()
    trace_of = {trace.user: trace for trace in TRACES}
    assert changed == [
        dict.fromkeys(EVENTS.names)
        | {"event": "shift_end" if shift.ends else "shift", "shift": shift.name, "point": 4, "replication": 2}
        | {"user": shift.user, "index": shift.index, "lppm": "mine"}
        | {"time_s": int(trace_of[shift.user].times_s[shift.index - 1])}
        | {"cell": int(trace_of[shift.user].cells[shift.index - 1])}
        for shift in shifts
    ]
    for at, row in enumerate(found):
        if row["shift"] is not None:
            following = next(after for after in found[at:] if after["shift"] is None)
            before = [one["index"] for one in found[:at] if one["user"] == row["user"] and one["shift"] is None]
            assert following["user"] == row["user"]
            assert max(before, default=0) < row["index"] <= following["index"]


def test_nobody_leaves_an_empty_table() -> None:
    table = SimulationLog(world=WORLD, traces=[], attacks=["a"]).table(point=0, lppm="mine", replication=0)
    assert table.equals(EVENTS.empty_table())


def opened(channel: Channel, *, queries: int = 4) -> tuple[SimulationLog, list[Report]]:
    """Return a log of one user who stays in cell 1, and the reports she will send."""
    log = SimulationLog(world=WORLD, traces=[Trace("ann", np.arange(queries), np.ones(queries, int))], attacks=["a"])
    return log, [Report("ann", index, index - 1, 1, channel) for index in range(1, queries + 1)]


def channel_of(report: Report) -> Channel:
    assert report.channel is not None
    return report.channel


def column(log: SimulationLog, name: str) -> list[float]:
    return [float(value) for value in log.table(point=0, lppm="mine", replication=0)[name].to_numpy()]


@pytest.mark.parametrize("kept", [True, False])
def test_answers_that_change_are_looked_at_again(kept: bool) -> None:
    """Whether an attack hands out new answers or writes over the ones it has."""
    log, reports = opened(exponential(WORLD.quality_distance, 1.0))
    answers, expected = np.zeros(N, dtype=np.int64), []
    for report, cell in zip(reports, [2, 2, 2, 5], strict=True):
        answers[:] = cell
        expected.append(WORLD.privacy_distance.matrix_km[1, cell])
        log.user("ann").query(Query("ann", report.index, report.time_s, 1), report.output, channel_of(report))
        handed = read_only(answers.copy()) if kept else answers
        log.attack("a").guess(Guess("ann", report.index, cell, handed))
    assert column(log, "expected_adversary_error_km") == pytest.approx(expected)


def test_another_channel_has_another_loss_and_the_same_answers_another_error() -> None:
    """Three queries by one channel, three by another: the answers are one array all along."""
    answers = read_only(np.arange(N))
    mild, sharp = (exponential(WORLD.quality_distance, epsilon_per_km) for epsilon_per_km in (0.5, 3.0))
    log, reports = opened(mild, queries=6)
    losses_km: list[float] = []
    errors_km: list[float] = []
    for report, channel in zip(reports, [mild] * 3 + [sharp] * 3, strict=True):
        log.user("ann").query(Query("ann", report.index, report.time_s, 1), report.output, channel)
        log.attack("a").guess(Guess("ann", report.index, 1, answers))
        losses_km.append(float(channel.row(1) @ WORLD.quality_distance.matrix_km[1]))
        errors_km.append(float(channel.row(1) @ WORLD.privacy_distance.matrix_km[1]))
    assert column(log, "expected_quality_loss_km") == losses_km
    assert column(log, "expected_adversary_error_km") == errors_km
    assert len(set(losses_km)) == len(set(errors_km)) == 2


@pytest.mark.parametrize(
    "guess",
    [
        Guess("ann", 1, -1),
        Guess("ann", 1, N),
        Guess("ann", 1, 1.5),  # type: ignore[arg-type]
        Guess("ann", 2, 0),
        Guess("ann", 9, 0),
        Guess("eve", 1, 0),
    ],
    ids=["no cell", "beyond the grid", "half a cell", "not sent yet", "never sent", "a stranger"],
)
def test_nonsense_is_refused_by_name(guess: Guess) -> None:
    log, reports = opened(identity(N))
    log.user("ann").query(Query("ann", 1, 0, 1), reports[0].output, channel_of(reports[0]))
    with pytest.raises(RuntimeError, match=f"a answered cell {guess.estimate} for query {guess.index} of {guess.user}"):
        log.attack("a").guess(guess)


def test_foresight_for_an_earlier_query_is_refused() -> None:
    log, reports = opened(identity(N))
    for report in reports[:2]:
        log.user("ann").query(Query("ann", report.index, report.time_s, 1), report.output, channel_of(report))
    with pytest.raises(RuntimeError, match="a answered query 1 of ann after 2"):
        log.attack("a").guess(Guess("ann", 1, 0, np.zeros(N, dtype=np.int64)))


def test_a_query_without_an_answer_is_named() -> None:
    log, reports = opened(identity(N))
    for report in reports:
        log.user("ann").query(Query("ann", report.index, report.time_s, 1), report.output, channel_of(report))
        if report.index != 3:
            log.attack("a").guess(Guess("ann", report.index, 1))
    with pytest.raises(RuntimeError, match="not every query of ann was answered by every attack, with mine"):
        log.table(point=0, lppm="mine", replication=0)
