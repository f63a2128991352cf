"""The log of an attack: expected errors, beliefs, pseudonyms and revisions."""

from __future__ import annotations

import numpy as np
import pytest

from sim.events import Guess, Query
from sim.inference.bayes import read_only
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.hiding import identity
from sim.mobility.traces import Trace
from sim.simulation.recorder import SimulationLog
from sim.storage.event_schema import POSTERIOR_WITHIN_KM
from tests.simulation.small_world import (
    PSEUDONYMS,
    WORLD,
    N,
    channel_of,
    column,
    hidden,
    opened,
    send,
)


@pytest.mark.parametrize("copied", [True, False])
def test_changed_estimates_by_output_are_not_cached(copied: bool) -> None:
    """Whether an attack returns new arrays or overwrites the same one."""
    log, reports = opened(exponential(WORLD.quality_distance, 1.0))
    answers, expected = np.zeros(N, dtype=np.int64), []
    for report, cell in zip(reports, [2, 2, 2, 5], strict=True):
        answers[:] = cell
        expected.append(WORLD.privacy_distance.matrix_km[1, cell])
        log.user("ann").query(Query("ann", report.index, report.time_s, 1), report.output, channel_of(report))
        returned = read_only(answers.copy()) if copied else answers
        log.attack("a").guess(Guess("ann", report.index, cell, returned))
    assert column(log, "expected_adversary_error_km") == pytest.approx(expected)


def test_another_channel_changes_expected_loss_and_error() -> None:
    """Three queries with one channel, three with another; the estimates by output are always the same array."""
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
    assert column(log, "expected_quality_loss_km") == pytest.approx(losses_km, rel=1e-14)
    assert column(log, "expected_adversary_error_km") == pytest.approx(errors_km, rel=1e-14)
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
    ids=["negative", "outside the grid", "fraction", "no report yet", "no such query", "unknown user"],
)
def test_an_invalid_guess_is_refused_with_its_values(guess: Guess) -> None:
    log, reports = opened(identity(N))
    log.user("ann").query(Query("ann", 1, 0, 1), reports[0].output, channel_of(reports[0]))
    with pytest.raises(RuntimeError, match=rf" {guess.estimate} .* {guess.index} of {guess.user}\b"):
        log.attack("a").guess(guess)


def test_estimates_by_output_for_an_earlier_query_are_refused() -> None:
    log, reports = opened(identity(N))
    for report in reports[:2]:
        log.user("ann").query(Query("ann", report.index, report.time_s, 1), report.output, channel_of(report))
    with pytest.raises(RuntimeError, match=r"\b1 of ann\b.*\b2\b"):
        log.attack("a").guess(Guess("ann", 1, 0, np.zeros(N, dtype=np.int64)))


def test_posterior_metrics_are_recorded_if_a_guess_has_a_posterior() -> None:
    log, reports = opened(identity(N), queries=2)
    for report, posterior in zip(reports, [np.array([0.5, 0.25, 0.25, 0, 0, 0]), None], strict=True):
        send(log, report.index, 1, identity(N))
        log.attack("a").guess(Guess("ann", report.index, 0, None, posterior))
    table = log.table(point=0, lppm="mine", replication=0)
    assert table["posterior_entropy_bits"].to_pylist() == [1.5, None]
    assert table["posterior_at_truth"].to_pylist() == [0.25, None]
    # The cells are 1 km wide: cell 1 is between 0 and 2, and all cells are within 2 km of it.
    within = [table[name].to_pylist() for name in POSTERIOR_WITHIN_KM.values()]
    assert within == [[0.25, None], [0.25, None], [0.25, None], [1.0, None]]
    assert table["identity"].to_pylist() == [None, None]


def test_posterior_masses_of_attacks_without_a_posterior_are_missing() -> None:
    log = SimulationLog(world=WORLD, traces=[Trace("ann", np.arange(1), np.ones(1, int))], attacks=["a", "b"])
    send(log, 1, 1, identity(N))
    log.attack("a").guess(Guess("ann", 1, 0, None, np.array([0.5, 0.25, 0.25, 0, 0, 0])))
    log.attack("b").guess(Guess("ann", 1, 0))
    table = log.table(point=0, lppm="mine", replication=0)
    assert table["posterior_within_2km"].to_pylist() == [1.0, None]


def test_guesses_under_pseudonyms_are_logged_under_names() -> None:
    log = hidden()
    for pseudonym, estimate, identities in (("user A", 5, ("ann", "bob")), ("user B", 2, ("ann", None))):
        for index, who in enumerate(identities, start=1):
            log.attack("a").guess(Guess(pseudonym, index, estimate, identity=who))
    rows = log.table(point=0, lppm="mine", replication=0).to_pylist()
    assert [(row["user"], row["estimate"], row["identity"]) for row in rows] == [
        ("ann", 2, "ann"),
        ("ann", 2, None),
        ("bob", 5, "ann"),
        ("bob", 5, "bob"),
    ]
    with pytest.raises(RuntimeError, match="cell 0 for query 1 of ann"):
        log.attack("a").guess(Guess("ann", 1, 0))


def test_revised_estimates_are_the_last_rows() -> None:
    log = hidden(("a", "b"))
    for pseudonym in PSEUDONYMS.values():
        for name in ("a", "b"):
            log.attack(name).guess(Guess(pseudonym, 1, 0))
            log.attack(name).guess(Guess(pseudonym, 2, 0, revised=[(1, 4)] if name == "b" else ()))
    log.attack("a").conclude(Guess("user A", 2, 0, revised=[(1, 3)]))
    rows = log.table(point=4, lppm="mine", replication=2).to_pylist()
    assert [row["estimated_index"] for row in rows[:8]] == [row["index"] for row in rows[:8]] == [1, 1, 2, 2] * 2
    columns = ("user", "index", "estimated_index", "cell", "attack", "estimate", "time_s")
    assert [tuple(row[name] for name in columns) for row in rows[8:]] == [
        ("bob", 2, 1, 3, "a", 3, 1),
        ("ann", 2, 1, 1, "b", 4, 1),
        ("bob", 2, 1, 3, "b", 4, 1),
    ]
    privacy_km = WORLD.privacy_distance.matrix_km
    assert [row["adversary_error_km"] for row in rows[8:]] == [0.0, privacy_km[1, 4], privacy_km[3, 4]]
    assert {row["quality_loss_km"] for row in rows[8:]} == {None}
    assert {(row["point"], row["replication"], row["lppm"], row["event"]) for row in rows} == {(4, 2, "mine", "query")}


@pytest.mark.parametrize("past", [2, 3, 0], ids=["current", "later", "before the first"])
def test_only_earlier_queries_can_be_revised(past: int) -> None:
    log = hidden()
    with pytest.raises(RuntimeError, match=f"query {past} of user A"):
        log.attack("a").guess(Guess("user A", 2, 0, revised=[(past, 1)]))
