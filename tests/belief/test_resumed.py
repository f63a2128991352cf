"""Solutions of a belief: a copy that receives them continues with the same bits without solving."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.belief import estimated_profile
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.interfaces import FloatArray
from tests.inference.problems import exponential_rows

ROWS, COLS = 4, 5
N = ROWS * COLS
DAY_S = 86_400

VARIANTS: list[dict[str, Any]] = [
    {},
    {"solver": "em", "gap": 1e-3, "start": "initial"},
    {"fading": 0.0},
    {"forget": {"window": 20}},
    {"forget": {"half_life_queries": 10}},
    {"forget": {"half_life_days": 2}},
    {"forget": {"adaptive": True, "queries_per_false_alarm": 2, "recent": 5}},
    {"regularise": {"prior_reports": 5}},
    {"regularise": {"prior_reports": 5, "smooth_km": 1.0}, "forget": {"half_life_days": 2}},
]


def make(changes: dict[str, Any]) -> EstimatedProfile:
    parameters = EstimatedProfileParameters.model_validate({"kind": "estimated_profile"} | changes)
    smooth = "smooth_km" in str(changes)
    kernel = np.full((N, N), 0.1 / N) + 0.9 * np.eye(N) if smooth else None
    return EstimatedProfile(parameters, initial_profile=np.full(N, 1 / N), kernel=kernel)


def reports(count: int) -> FloatArray:
    """Return rows of two different users, one after the other, so that a test for changes raises an alarm."""
    rows = exponential_rows(2 * count, ROWS, COLS, 2.0)
    return np.concatenate([rows[:count], rows[count:, ::-1]])


@pytest.mark.usefixtures("numpy_and_numba")
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_resumed_belief_has_the_same_bits(
    changes: dict[str, Any], compact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compact:
        monkeypatch.setattr(estimated_profile, "COMPACT_CELLS", 1)
    one, other = make(changes), make(changes)
    received = 0
    for number, row in enumerate(reports(30)):
        time_s = number * DAY_S // 2
        expected = one.prior(time_s).copy()
        if (solution := one.solution()) is not None:
            other.resume(solution)
            received += 1
        assert other.prior(time_s).tobytes() == expected.tobytes()
        assert other.observe(time_s, row).tobytes() == one.observe(time_s, row).tobytes()
    assert (received > 50) is (changes != {"fading": 0.0})
    assert (other.worst_gap, other.alarms) == (one.worst_gap, one.alarms)
    assert (one.alarms > 0) is ("adaptive" in str(changes))


def test_resumed_belief_does_not_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = make({}), make({})
    solutions = []
    for time_s, row in enumerate(reports(10)):
        one.prior(time_s)
        solutions.append(one.solution())
        one.observe(time_s, row)
    monkeypatch.setattr(EstimatedProfile, "_solve", None)
    for time_s, (row, solution) in enumerate(zip(reports(10), solutions, strict=True)):
        if solution is not None:
            other.resume(solution)
        other.observe(time_s, row)
    assert other.remembered == 20


@pytest.mark.parametrize(
    "solution",
    [np.empty(0), np.ones(N), np.r_[0.0, 1.0, -1.0, np.full(N, 2 / N)], np.r_[np.nan, 1.0, -1.0, np.full(N, 1 / N)]],
    ids=["empty", "short", "sum", "nan"],
)
def test_vector_that_is_no_solution_is_rejected(solution: FloatArray) -> None:
    with pytest.raises(ValueError, match=r"^vector must"):
        make({}).resume(solution)
