"""The log against one that remembers nothing and writes row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.events import Guess, Query, Report, Shift
from sim.inference.bayes import read_only
from sim.interfaces import LPPM, Attack, Belief, Channel, FloatArray
from sim.lppm.channel import MatrixChannel, exponential, identity
from sim.lppm.exponential import Exponential, ExponentialParameters
from sim.lppm.identity import Identity
from sim.lppm.mechanism import Mechanism
from sim.lppm.outputs import CellsOrNothing
from sim.lppm.theory import theory
from sim.mobility.traces import Trace
from sim.rng import stream
from sim.simulation.engine import simulate
from sim.simulation.recorder import SimulationLog
from sim.storage.event_schema import EVENTS
from sim.world import World
from sim.world.distance import Distance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)
N = GRID.n_cells


def uphill(distance: Distance) -> Distance:
    """Return a distance that is longer from a cell to one of a higher number than back."""
    return Distance(kind="file", matrix_km=distance.matrix_km * (1 + np.triu(np.ones((N, N)))))


WORLD = World(grid=GRID, roads=None, quality_distance=manhattan(GRID), privacy_distance=uphill(euclidean(GRID)))
"""With a privacy distance that is another one the other way round, so that no figure may take it so."""
ONE_WAY = replace(WORLD, quality_distance=uphill(manhattan(GRID)))
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
        "learning": EstimatedProfile(EstimatedProfileParameters(), initial_profile=PROFILE),
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


def plain_rows(witnesses: dict[str, Witness], *, world: World, expected: bool) -> list[dict[str, Any]]:
    """Return the rows that the reports and guesses make, each worked out on its own."""
    cells = {(trace.user, i): int(cell) for trace in TRACES for i, cell in enumerate(trace.cells, start=1)}
    order = {trace.user: i for i, trace in enumerate(TRACES)}
    quality_km, privacy_km = world.quality_distance.matrix_km, world.privacy_distance.matrix_km
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


@pytest.mark.parametrize("world", [WORLD, ONE_WAY], ids=["manhattan", "one way"])
@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["fixed", "markov", "learning", "identity"])
def test_the_table_holds_what_happened(kind: str, shared: bool, expected: bool, world: World) -> None:
    distance = world.quality_distance
    design = (
        Identity(n_cells=N)
        if kind == "identity"
        else Exponential(ExponentialParameters(epsilon_per_km=0.7), distance=distance)
    )

    def mechanism() -> LPPM:
        return Mechanism(belief=beliefs()["learning" if kind == "identity" else kind], design=design)

    of_all = mechanism()

    def attack(name: str) -> Attack:
        return OptimalAttack(belief_of=lambda _: beliefs()[name], distance=world.privacy_distance, foresee=expected)

    witnesses = {name: Witness(attack(name)) for name in ("fixed", "markov")}
    log = SimulationLog(world=world, traces=TRACES, attacks=list(witnesses), expected=expected)
    simulate(
        traces=TRACES,
        lppm_of=lambda _: of_all if shared else mechanism(),
        noise_of=lambda user: stream(1, "noise", user),
        attacks=witnesses,
        log=log,
    )
    table = log.table(point=4, lppm="mine", replication=2)
    assert table.equals(pa.Table.from_pylist(plain_rows(witnesses, world=world, expected=expected), schema=EVENTS))
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


# ---------------------------------------------------------------- what is not recorded of every query of every run

NOWHERE_KM = 4.0


class Shy(MatrixChannel):
    """Tell the truth or nothing at all, each half of the time."""

    def __init__(self) -> None:
        super().__init__(np.column_stack([0.5 * np.eye(N), np.full(N, 0.5)]))
        self.space, self.countless = CellsOrNothing(N), False

    def loss_of_km(self, cell: int, output: int) -> float:
        return NOWHERE_KM if output == N else float(WORLD.quality_distance.matrix_km[cell, output])

    def expected_loss_of_km(self, cell: int) -> float:
        return 0.5 * NOWHERE_KM


def send(log: SimulationLog, index: int, output: int, channel: Channel, *, user: str = "ann") -> None:
    log.user(user).query(Query(user, index, index - 1, 1), output, channel)


def test_no_report_is_no_output_and_costs_what_its_channel_says() -> None:
    log, _ = opened(Shy())
    for index, output in enumerate([1, N, 1, N], start=1):
        send(log, index, output, Shy())
        log.attack("a").guess(Guess("ann", index, 0))
    table = log.table(point=0, lppm="mine", replication=0)
    assert table["output"].to_pylist() == [1, None, 1, None]
    assert table["quality_loss_km"].to_pylist() == [0.0, NOWHERE_KM, 0.0, NOWHERE_KM]
    assert table["expected_quality_loss_km"].to_pylist() == [0.5 * NOWHERE_KM] * 4


def test_the_promise_is_that_of_the_channel_in_force_and_may_be_none() -> None:
    mild, sharp = (exponential(WORLD.quality_distance, epsilon_per_km) for epsilon_per_km in (0.5, 3.0))
    traces = [Trace("ann", np.arange(4), np.ones(4, int))]
    log = SimulationLog(world=WORLD, traces=traces, attacks=[], epsilon_in=WORLD.quality_distance)
    for index, channel in enumerate([mild, mild, sharp, identity(N)], start=1):
        send(log, index, 1, channel)
    found = log.table(point=0, lppm="mine", replication=0)["epsilon_per_km"].to_pylist()
    ratios = [_worst_ratio(channel.matrix(), WORLD.quality_distance.matrix_km) for channel in (mild, sharp)]
    assert found == [pytest.approx(ratios[0])] * 2 + [pytest.approx(ratios[1]), math.inf]


def _worst_ratio(matrix: FloatArray, apart_km: FloatArray) -> float:
    pairs = [(x, y) for x in range(N) for y in range(N) if x != y]
    return max(float(np.log(matrix[x, z] / matrix[y, z]) / apart_km[x, y]) for x, y in pairs for z in range(N))


def test_beliefs_are_taken_down_from_those_who_tell_them() -> None:
    log, reports = opened(identity(N), queries=2)
    for report, posterior in zip(reports, [np.array([0.5, 0.25, 0.25, 0, 0, 0]), None], strict=True):
        send(log, report.index, 1, identity(N))
        log.attack("a").guess(Guess("ann", report.index, 0, None, posterior))
    table = log.table(point=0, lppm="mine", replication=0)
    assert table["posterior_entropy_bits"].to_pylist() == [1.5, None]
    assert table["posterior_at_truth"].to_pylist() == [0.25, None]
    assert table["identity"].to_pylist() == [None, None]


PSEUDONYMS = {"ann": "user B", "bob": "user A"}


def hidden(attacks: Sequence[str] = ("a",)) -> SimulationLog:
    """Return a log of two users who have sent two reports each under other names, and of answers to all of them."""
    traces = [Trace(name, np.arange(2), np.array([cell, cell + 1])) for name, cell in (("ann", 1), ("bob", 3))]
    log = SimulationLog(world=WORLD, traces=traces, attacks=list(attacks), pseudonyms=PSEUDONYMS)
    for trace in traces:
        for index in (1, 2):
            send(log, index, int(trace.cells[index - 1]), identity(N), user=trace.user)
    return log


def test_answers_come_under_pseudonyms_and_are_logged_under_names() -> None:
    log = hidden()
    for called, estimate, identities in (("user A", 5, ("ann", "bob")), ("user B", 2, ("ann", None))):
        for index, who in enumerate(identities, start=1):
            log.attack("a").guess(Guess(called, index, estimate, identity=who))
    found = log.table(point=0, lppm="mine", replication=0).to_pylist()
    assert [(row["user"], row["estimate"], row["identity"]) for row in found] == [
        ("ann", 2, "ann"),
        ("ann", 2, None),
        ("bob", 5, "ann"),
        ("bob", 5, "bob"),
    ]
    with pytest.raises(RuntimeError, match="a answered cell 0 for query 1 of ann"):
        log.attack("a").guess(Guess("ann", 1, 0))


def test_past_queries_that_are_estimated_once_more_have_rows_of_their_own_at_the_end() -> None:
    log = hidden(("a", "b"))
    for called in PSEUDONYMS.values():
        for name in ("a", "b"):
            log.attack(name).guess(Guess(called, 1, 0))
            log.attack(name).guess(Guess(called, 2, 0, revised=[(1, 4)] if name == "b" else ()))
    log.attack("a").conclude(Guess("user A", 2, 0, revised=[(1, 3)]))
    found = log.table(point=4, lppm="mine", replication=2).to_pylist()
    assert [row["estimated_index"] for row in found[:8]] == [row["index"] for row in found[:8]] == [1, 1, 2, 2] * 2
    columns = ("user", "index", "estimated_index", "cell", "attack", "estimate", "time_s")
    assert [tuple(row[name] for name in columns) for row in found[8:]] == [
        ("bob", 2, 1, 3, "a", 3, 1),
        ("ann", 2, 1, 1, "b", 4, 1),
        ("bob", 2, 1, 3, "b", 4, 1),
    ]
    privacy_km = WORLD.privacy_distance.matrix_km
    assert [row["adversary_error_km"] for row in found[8:]] == [0.0, privacy_km[1, 4], privacy_km[3, 4]]
    assert {row["quality_loss_km"] for row in found[8:]} == {None}
    assert {(row["point"], row["replication"], row["lppm"], row["event"]) for row in found} == {(4, 2, "mine", "query")}


@pytest.mark.parametrize("past", [2, 3, 0], ids=["the same", "to come", "before all"])
def test_only_earlier_queries_can_be_estimated_once_more(past: int) -> None:
    log = hidden()
    with pytest.raises(RuntimeError, match=f"query {past} of user A"):
        log.attack("a").guess(Guess("user A", 2, 0, revised=[(past, 1)]))


def test_a_snapshot_tells_what_its_channel_promises_on_what_is_believed() -> None:
    design = Exponential(ExponentialParameters(epsilon_per_km=0.7), distance=WORLD.quality_distance)
    made: list[Mechanism] = []

    def mechanism(_: str) -> LPPM:
        made.append(Mechanism(belief=beliefs()["learning"], design=design))
        return made[-1]

    log = SimulationLog(
        world=WORLD,
        traces=TRACES,
        attacks=[],
        snapshot_at=frozenset({1, 3}),
        epsilon_in=WORLD.privacy_distance,
    )
    simulate(traces=TRACES, lppm_of=mechanism, noise_of=lambda user: stream(1, user), attacks={}, log=log)
    assert [(taken.user, taken.index) for taken in log.snapshots] == [
        ("ann", 1),
        ("di", 1),
        ("bob", 1),
        ("ann", 3),
        ("di", 3),
    ]
    for taken in log.snapshots:
        world = {"quality": WORLD.quality_distance, "privacy": WORLD.privacy_distance}
        own = theory(design(taken.profile), taken.profile, epsilon_in=WORLD.privacy_distance, **world)
        assert taken.own == pytest.approx(own)
    assert log.snapshots[0].own == log.snapshots[1].own != log.snapshots[3].own
