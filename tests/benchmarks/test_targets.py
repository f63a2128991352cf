"""Targets and timing: ratios, and the round and case that count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.targets import Measurement, Row
from benchmarks.timing import Samples, median_case, seconds_of, side_by_side, slowest_case


@pytest.mark.parametrize(
    ("direction", "measured", "ratio", "met"),
    [
        ("at_most", 20.0, 2.0, True),
        ("at_most", 30.0, 3.0, True),
        ("at_most", 30.1, 3.01, False),
        ("at_least", 2.0, 5.0, True),
        ("at_least", 10 / 3, 3.0, True),
        ("at_least", 5.0, 2.0, False),
    ],
)
def test_a_target_is_a_ceiling_or_a_floor(direction: Any, measured: float, ratio: float, met: bool) -> None:
    result = Measurement(measured, 10.0)
    row = Row("x", "what", "beside", direction, 3.0, "s", lambda _scale: result)
    assert row.ratio(result) == pytest.approx(ratio)
    assert row.met(result) is met
    assert row.met(replace(result, fault="wrong")) is False
    assert row.ratios(result) == [row.ratio(result)]
    rounds = Samples((measured, 20.0), (10.0, 10.0))
    assert row.ratios(replace(result, samples={"case": rounds})) == [
        row.ratio(result),
        2.0 if direction == "at_most" else 0.5,
    ]


def test_the_best_round_counts_and_then_the_median_or_the_slowest_case() -> None:
    cases = {
        "a": Samples((5.0, 4.0), (1.0, 2.0)),
        "b": Samples((9.0, 6.0), (2.0, 3.0)),
        "c": Samples((30.0, 20.0), (10.0, 11.0)),
    }
    assert cases["a"].best == (4.0, 1.0)
    assert median_case(cases) == (6.0, 2.0)
    assert slowest_case(cases) == (4.0, 1.0)


def test_limit_and_work_alternate() -> None:
    turns: list[str] = []

    def noted(what: str, cost: float) -> float:
        turns.append(what)
        return cost + len(turns)

    samples = side_by_side(lambda: noted("work", 10), lambda: noted("limit", 0), rounds=2)
    assert turns == ["limit", "work", "limit", "work"]
    assert samples == Samples(measured=(12, 14), limit=(1, 3))


def test_short_calls_are_timed_in_blocks() -> None:
    calls: list[None] = []
    cost_s = seconds_of(lambda: calls.append(None))
    assert len(calls) > 1
    assert cost_s > 0
