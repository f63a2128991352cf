"""Counting, against counts made by hand and by a slow loop."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.mobility.statistics import regimes, statistics
from sim.mobility.traces import Trace

DAY_S = 86_400


def trace(cells: list[int], times_s: list[int] | None = None, user: str = "ann") -> Trace:
    times = np.arange(len(cells)) if times_s is None else np.array(times_s)
    return Trace(user, times.astype(np.int64), np.array(cells, dtype=np.int64))


def test_by_hand() -> None:
    # ann: 0->1, 1->1, 1->2; bob: 2->0. Nothing goes from ann's last cell to bob's first. Cell 3: no data.
    found = statistics([trace([0, 1, 1, 2]), trace([2, 0], user="bob")], n_cells=4, restart_s=None)
    histogram = [2 / 6, 2 / 6, 2 / 6, 0]
    np.testing.assert_allclose(found.profile, histogram)
    np.testing.assert_allclose(found.start_profile, histogram)
    expected = np.array([[0, 1, 0, 0], [0, 0.5, 0.5, 0], [1, 0, 0, 0], histogram])
    np.testing.assert_allclose(found.transition, expected)
    assert (found.n_visits, found.n_transitions, found.fallback_rows, found.n_cells) == (6, 4, 1, 4)


def test_pairs_do_not_cross_days() -> None:
    one = trace([0, 1, 2, 0], [10, DAY_S - 1, DAY_S, DAY_S + 1])
    through = statistics([one], n_cells=3, restart_s=None)
    anew = statistics([one], n_cells=3, restart_s=DAY_S)
    np.testing.assert_allclose(through.transition, np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]]))
    np.testing.assert_allclose(anew.transition, np.array([[0, 1, 0], [0.5, 0.25, 0.25], [1, 0, 0]]))
    assert (through.fallback_rows, anew.fallback_rows) == (0, 1)


@given(
    lists=st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=12).map(sorted), max_size=4),
    restart_s=st.sampled_from([None, 7, 10]),
)
def test_against_a_slow_count(lists: list[list[tuple[int, int]]], restart_s: int | None) -> None:
    found = statistics(
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
    np.testing.assert_allclose(found.profile, profile)
    np.testing.assert_allclose(found.transition, rows)
    assert found.fallback_rows == sum(row.sum() == 0 for row in counts)
    assert found.n_visits == seen.sum()


@pytest.mark.parametrize("traces", [[], [trace([])], [trace([]), trace([])]])
def test_without_data_all_is_uniform(traces: list[Trace]) -> None:
    found = statistics(traces, n_cells=5, restart_s=DAY_S)
    np.testing.assert_allclose(found.profile, 0.2)
    np.testing.assert_allclose(found.transition, 0.2)
    assert (found.n_visits, found.n_transitions, found.fallback_rows) == (0, 0, 5)


def test_arrays_are_read_only_made_once_and_travel() -> None:
    found = statistics([trace([0, 1])], n_cells=2, restart_s=None)
    assert "transition" not in vars(found)
    assert found.transition is found.transition
    for array in (found.profile, found.start_profile, found.transition):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).transition, found.transition)


def test_refuses() -> None:
    with pytest.raises(ValueError, match=r"cells of ann must be in \[0, 2\), got 0 to 2"):
        statistics([trace([0, 2])], n_cells=2, restart_s=None)
    with pytest.raises(ValueError, match=r"cells of ann must be in \[0, 2\), got -1 to 0"):
        statistics([trace([-1, 0])], n_cells=2, restart_s=None)
    with pytest.raises(ValueError, match=r"restart_s must be in \[1, inf\), got 0"):
        statistics([], n_cells=2, restart_s=0)
    with pytest.raises(ValueError, match=r"n_cells must be in \[1, inf\), got 0"):
        statistics([], n_cells=0, restart_s=None)


def test_a_pair_counts_where_it_ends() -> None:
    one, two = regimes(trace([0, 1, 1, 2, 2]), [4], n_cells=3)
    assert (one[0], two[0]) == (1, 4)
    np.testing.assert_allclose(one[1].profile, [1 / 3, 2 / 3, 0])
    np.testing.assert_allclose(one[1].transition, np.array([[0, 1, 0], [0, 1, 0], [1 / 3, 2 / 3, 0]]))
    np.testing.assert_allclose(two[1].profile, [0, 0, 1])
    np.testing.assert_allclose(two[1].transition, [[0, 0, 1], [0, 0, 1], [0, 0, 1]])
    assert [own.n_transitions for _, own in (one, two)] == [2, 2]


def test_no_pair_crosses_a_day_at_a_border_either() -> None:
    found = regimes(trace([0, 1, 2, 0], [0, 1, DAY_S, DAY_S + 1]), [3], n_cells=3, restart_s=DAY_S)
    assert [own.n_transitions for _, own in found] == [1, 1]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.sets(st.integers(2, 30)))
def test_stretches_make_up_the_whole(cells: list[int], borders: set[int]) -> None:
    kept = sorted(border for border in borders if border <= len(cells))
    whole, found = statistics([trace(cells)], n_cells=5), regimes(trace(cells), kept, n_cells=5)
    assert [first for first, _ in found] == [1, *kept]
    assert sum(own.n_visits for _, own in found) == whole.n_visits
    assert sum(own.n_transitions for _, own in found) == whole.n_transitions
    total = sum(own.profile * own.n_visits for _, own in found)
    np.testing.assert_allclose(total / whole.n_visits, whole.profile, atol=1e-12)
    if not kept:
        np.testing.assert_array_equal(found[0][1].transition, whole.transition)
