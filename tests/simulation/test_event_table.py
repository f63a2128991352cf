"""The event table equals one that is computed row by row, without caches."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.events import Guess, Query, Report, Shift
from sim.interfaces import LPPM, Attack
from sim.lppm.channels.hiding import identity
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.designs.identity import Identity
from sim.lppm.mechanism import Mechanism
from sim.rng import stream
from sim.simulation.engine import simulate
from sim.simulation.recorder import SimulationLog
from sim.storage.event_schema import EVENTS
from sim.world import World
from tests.simulation.small_world import (
    ONE_WAY,
    PROFILE,
    TRACES,
    WORLD,
    N,
    beliefs,
    channel_of,
    opened,
)


class Witness:
    """Attack that stores every report and its guess."""

    def __init__(self, attack: Attack) -> None:
        self.attack = attack
        self.seen: list[tuple[Report, Guess]] = []

    def observe(self, report: Report) -> Guess:
        guess = self.attack.observe(report)
        self.seen.append((report, guess))
        return guess


def plain_rows(witnesses: dict[str, Witness], *, world: World, expected: bool) -> list[dict[str, Any]]:
    """Return the rows of the reports and guesses, each computed separately."""
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
def test_the_table_equals_rows_computed_separately(kind: str, shared: bool, expected: bool, world: World) -> None:
    distance = world.quality_distance
    design = (
        Identity(n_cells=N)
        if kind == "identity"
        else Exponential(ExponentialParameters(epsilon_per_km=0.7), distance=distance)
    )

    def mechanism() -> LPPM:
        return Mechanism(belief=beliefs()["learning" if kind == "identity" else kind], design=design)

    common = mechanism()

    def attack(name: str) -> Attack:
        return OptimalAttack(belief_of=lambda _: beliefs()[name], distance=world.privacy_distance, all_outputs=expected)

    witnesses = {name: Witness(attack(name)) for name in ("fixed", "markov")}
    log = SimulationLog(world=world, traces=TRACES, attacks=list(witnesses), expected=expected)
    simulate(
        traces=TRACES,
        lppm_of=lambda _: common if shared else mechanism(),
        noise_of=lambda user: stream(1, "noise", user),
        attacks=witnesses,
        log=log,
    )
    table = log.table(point=4, lppm="mine", replication=2)
    plain = pa.Table.from_pylist(plain_rows(witnesses, world=world, expected=expected), schema=EVENTS)
    pd.testing.assert_frame_equal(table.to_pandas(), plain.to_pandas(), rtol=1e-13, atol=0)
    assert table.schema.equals(plain.schema)
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
def test_the_row_of_a_shift_precedes_those_of_its_query(attacks: int, window: int | None) -> None:
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

    rows = table(shifts).to_pylist()
    changed = [row for row in rows if row["shift"] is not None]
    assert [row for row in rows if row["shift"] is None] == table([]).to_pylist()
    trace_of = {trace.user: trace for trace in TRACES}
    assert changed == [
        dict.fromkeys(EVENTS.names)
        | {"event": "shift_end" if shift.ends else "shift", "shift": shift.name, "point": 4, "replication": 2}
        | {"user": shift.user, "index": shift.index, "lppm": "mine"}
        | {"time_s": int(trace_of[shift.user].times_s[shift.index - 1])}
        | {"cell": int(trace_of[shift.user].cells[shift.index - 1])}
        for shift in shifts
    ]
    for at, row in enumerate(rows):
        if row["shift"] is not None:
            following = next(after for after in rows[at:] if after["shift"] is None)
            before = [one["index"] for one in rows[:at] if one["user"] == row["user"] and one["shift"] is None]
            assert following["user"] == row["user"]
            assert max(before, default=0) < row["index"] <= following["index"]


def test_a_simulation_without_users_has_an_empty_table() -> None:
    table = SimulationLog(world=WORLD, traces=[], attacks=["a"]).table(point=0, lppm="mine", replication=0)
    assert table.equals(EVENTS.empty_table())


def test_a_query_without_a_guess_is_reported_with_its_user() -> None:
    log, reports = opened(identity(N))
    for report in reports:
        log.user("ann").query(Query("ann", report.index, report.time_s, 1), report.output, channel_of(report))
        if report.index != 3:
            log.attack("a").guess(Guess("ann", report.index, 1))
    with pytest.raises(RuntimeError, match=r"\bmine\b.*\bann$"):
        log.table(point=0, lppm="mine", replication=0)
