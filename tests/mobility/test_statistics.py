"""Training statistics compared with counts by hand and by a slow loop."""

from __future__ import annotations

import pickle
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.mobility.statistics import regimes, statistics
from sim.mobility.traces import Trace
from tests.support import raises_code

DAY_S = 86_400


def trace(cells: list[int], times_s: list[int] | None = None, user: str = "ann") -> Trace:
    times = np.arange(len(cells)) if times_s is None else np.array(times_s)
    return Trace(user, times.astype(np.int64), np.array(cells, dtype=np.int64))


def test_statistics_by_hand() -> None:
    # ann: 0->1, 1->1, 1->2; bob: 2->0. No transition from ann's last cell to bob's first. Cell 3: no data.
    result = statistics([trace([0, 1, 1, 2]), trace([2, 0], user="bob")], n_cells=4, restart_s=None)
    histogram = [2 / 6, 2 / 6, 2 / 6, 0]
    np.testing.assert_allclose(result.profile, histogram)
    np.testing.assert_allclose(result.start_profile, histogram)
    expected = np.array([[0, 1, 0, 0], [0, 0.5, 0.5, 0], [1, 0, 0, 0], histogram])
    np.testing.assert_allclose(result.transition, expected)
    assert (result.n_visits, result.n_transitions, result.fallback_rows, result.n_cells) == (6, 4, 1, 4)


def test_pairs_do_not_cross_days() -> None:
    one = trace([0, 1, 2, 0], [10, DAY_S - 1, DAY_S, DAY_S + 1])
    continuous = statistics([one], n_cells=3, restart_s=None)
    restarted = statistics([one], n_cells=3, restart_s=DAY_S)
    np.testing.assert_allclose(continuous.transition, np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]]))
    np.testing.assert_allclose(restarted.transition, np.array([[0, 1, 0], [0.5, 0.25, 0.25], [1, 0, 0]]))
    assert (continuous.fallback_rows, restarted.fallback_rows) == (0, 1)


@given(
    lists=st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=12).map(sorted), max_size=4),
    restart_s=st.sampled_from([None, 7, 10]),
)
def test_statistics_agree_with_a_slow_count(lists: list[list[tuple[int, int]]], restart_s: int | None) -> None:
    result = statistics(
        [trace([c for _, c in points], [t for t, _ in points]) for points in lists],
        n_cells=4,
        restart_s=restart_s,
    )
    counts = np.zeros((4, 4))
    seen = np.zeros(4)
    for points in lists:
        for _, cell in points:
            seen[cell] += 1
        for (t, a), (u, b) in pairwise(points):
            if restart_s is None or t // restart_s == u // restart_s:
                counts[a, b] += 1
    profile = seen / seen.sum() if seen.sum() else np.full(4, 0.25)
    rows = [row / row.sum() if row.sum() else profile for row in counts]
    np.testing.assert_allclose(result.profile, profile)
    np.testing.assert_allclose(result.transition, rows)
    assert result.fallback_rows == sum(row.sum() == 0 for row in counts)
    assert result.n_visits == seen.sum()


@pytest.mark.parametrize("traces", [[], [trace([])], [trace([]), trace([])]])
def test_statistics_without_data_are_uniform(traces: list[Trace]) -> None:
    result = statistics(traces, n_cells=5, restart_s=DAY_S)
    np.testing.assert_allclose(result.profile, 0.2)
    np.testing.assert_allclose(result.transition, 0.2)
    assert (result.n_visits, result.n_transitions, result.fallback_rows) == (0, 0, 5)


def test_arrays_are_read_only_computed_once_and_picklable() -> None:
    result = statistics([trace([0, 1])], n_cells=2, restart_s=None)
    assert "transitions" not in vars(result)
    assert result.transitions is result.transitions
    for array in (result.profile, result.start_profile, result.transition):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(result)).transition, result.transition)


@pytest.mark.parametrize(("cells", "extent"), [([0, 2], "0 to 2"), ([-1, 0], "-1 to 0")])
def test_cells_outside_the_grid_are_rejected(cells: list[int], extent: str) -> None:
    with raises_code(InvalidValue, "cell-outside-grid") as error:
        statistics([trace(cells)], n_cells=2, restart_s=None)
    assert re.search(rf"\bann\b.* \[0, 2\), got {extent}$", str(error.value))


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"^restart_s\b.* \[1, inf\), got 0"):
        statistics([], n_cells=2, restart_s=0)
    with pytest.raises(ValueError, match=r"^n_cells\b.* \[1, inf\), got 0"):
        statistics([], n_cells=0, restart_s=None)


def test_a_pair_belongs_to_the_section_of_its_second_query() -> None:
    one, two = regimes(trace([0, 1, 1, 2, 2]), [4], n_cells=3)
    assert (one[0], two[0]) == (1, 4)
    np.testing.assert_allclose(one[1].profile, [1 / 3, 2 / 3, 0])
    np.testing.assert_allclose(one[1].transition, np.array([[0, 1, 0], [0, 1, 0], [1 / 3, 2 / 3, 0]]))
    np.testing.assert_allclose(two[1].profile, [0, 0, 1])
    np.testing.assert_allclose(two[1].transition, [[0, 0, 1], [0, 0, 1], [0, 0, 1]])
    assert [part.n_transitions for _, part in (one, two)] == [2, 2]


def test_no_pair_crosses_midnight_at_a_border() -> None:
    sections = regimes(trace([0, 1, 2, 0], [0, 1, DAY_S, DAY_S + 1]), [3], n_cells=3, restart_s=DAY_S)
    assert [part.n_transitions for _, part in sections] == [1, 1]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.sets(st.integers(2, 30)))
def test_counts_of_sections_add_up_to_the_whole(cells: list[int], borders: set[int]) -> None:
    valid = sorted(border for border in borders if border <= len(cells))
    whole, sections = statistics([trace(cells)], n_cells=5), regimes(trace(cells), valid, n_cells=5)
    assert [first for first, _ in sections] == [1, *valid]
    assert sum(part.n_visits for _, part in sections) == whole.n_visits
    assert sum(part.n_transitions for _, part in sections) == whole.n_transitions
    total = sum(part.profile * part.n_visits for _, part in sections)
    np.testing.assert_allclose(total / whole.n_visits, whole.profile, atol=1e-12)
    if not valid:
        np.testing.assert_array_equal(sections[0][1].transition, whole.transition)
