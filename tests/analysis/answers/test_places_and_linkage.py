"""Top places, unicity and the linkage of weeks."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from sim.analysis.answers.linkage import EVERYBODY, link, ranks_of_truth
from sim.analysis.answers.reidentified_places import found_share, merged, random_found_share, top_places
from sim.analysis.answers.unicity import anonymity_sets, singled_out, top_key


def test_top_places_are_greedy_disks() -> None:
    """Each place is the best disk for what the others left, by enumeration."""
    rng = np.random.default_rng(1)
    at, weights = rng.uniform(0, 4, (30, 2)), rng.uniform(0.5, 1.5, 30)
    left = weights.copy()
    expected = []
    for _ in range(4):
        near = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1)) <= 0.8
        scores = np.where(left > 0, near @ left, -1)
        expected.append(at[scores.argmax()].tolist())
        left[near[scores.argmax()]] = 0
    assert top_places(at, weights, 4, merge_km=0.8).tolist() == expected


def test_many_places_are_ranked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    at, weights = rng.uniform(0, 4, (60, 2)), rng.integers(1, 4, 60).astype(float)
    dense = top_places(at, weights, 60, merge_km=0.5)
    monkeypatch.setattr("sim.analysis.answers.reidentified_places._DENSE_PLACES", 0)
    assert top_places(at, weights, 60, merge_km=0.5).tolist() == dense.tolist()


def test_no_place_is_ranked_twice() -> None:
    at = np.array([[0.0, 0.0], [0.1, 0.0], [3.0, 0.0]])
    assert top_places(at, np.array([3.0, 1.0, 1.0]), 5, merge_km=0.5).tolist() == [[0.0, 0.0], [3.0, 0.0]]
    assert len(top_places(at, np.ones(3), 5)) == 3


def test_neighbours_of_one_place_take_one_guess() -> None:
    home, work = [[0.0, 0.0], [0.2, 0.0], [0.0, 0.2]], [[3.0, 3.0]]
    estimates, weights = np.array(home + work), np.array([3.0, 2.0, 2.0, 1.0])
    true = np.array([[0.1, 0.1], [3.1, 3.0]])
    assert found_share(true, top_places(estimates, weights, 2), 0.5) == 0.5
    assert found_share(true, top_places(estimates, weights, 2, merge_km=0.5), 0.5) == 1.0


def test_places_of_continuous_coordinates() -> None:
    rng = np.random.default_rng(2)
    centres = np.array([[0.0, 0.0], [5.0, 0.0]])
    which = rng.integers(0, 2, 200)
    points = centres[which] + rng.normal(0, 0.01, (200, 2))
    own = merged(points, 0.1)
    assert len(np.unique(own, axis=0)) == 2
    np.testing.assert_allclose(own, centres[which], atol=0.05)
    assert merged(points, 0.0) is points


def test_found_nothing() -> None:
    assert found_share(np.zeros((1, 2)), np.zeros((0, 2)), 1.0) == 0.0
    assert np.isnan(found_share(np.zeros((0, 2)), np.zeros((1, 2)), 1.0))
    assert np.isnan(random_found_share(np.zeros(0), 3))


def test_random_places_by_enumeration() -> None:
    """With replacement: 2 guesses among 3 cells, of which one or two find a place."""
    success = np.array([1 / 3, 2 / 3])
    outcomes = [(1 - (1 - p) ** 2) for p in success]
    assert random_found_share(success, 2) == pytest.approx(np.mean(outcomes))


def test_unicity_by_comparing_all_pairs() -> None:
    rng = np.random.default_rng(3)
    reports = [rng.choice(5, 30, p=[0.4, 0.3, 0.15, 0.1, 0.05]) for _ in range(40)]
    for count in (1, 2, 3):
        keys = [top_key(own, count) for own in reports]
        shared = {user for pair in combinations(range(40), 2) if keys[pair[0]] == keys[pair[1]] for user in pair}
        alone = [user for user in range(40) if user not in shared]
        assert singled_out(Counter(keys)) == (len(alone), 40)
        assert (anonymity_sets(keys) == 1).sum() == len(alone)


def test_a_pair_is_not_singled_out() -> None:
    assert singled_out(Counter("abbccc")) == (1, 6)


def test_key_ties_go_to_the_first_report() -> None:
    assert top_key([7, 3, 3, 7, 5], 1) == frozenset({7})
    assert top_key([7, 3, 3, 7, 5], 2) == frozenset({3, 7})
    assert top_key([], 1) is None


def test_likelihood_by_hand() -> None:
    """Without smoothing, the matched user maximises sum_z n(z) log(0.9 p_u(z) + 0.1 p(z))."""
    west, east = [0.0, 0.0], [1.0, 0.0]
    first = [np.array([west, west, east]), np.array([east, east, west])]
    second = [np.array([west, west]), np.array([west, east, east])]
    everybody = np.array([6, 5]) / 11
    profiles = (1 - EVERYBODY) * np.array([[2, 1], [1, 2]]) / 3 + EVERYBODY * everybody
    scores = np.array([[2, 0], [1, 2]]) @ np.log(profiles).T
    top, rank = ranks_of_truth(scores)
    linked = link(first, second, bandwidths_km=[0.0])
    assert linked.top.tolist() == top.tolist() == [1.0, 1.0]
    assert linked.rank.tolist() == rank.tolist()
    swapped = link(first, second[::-1], bandwidths_km=[0.0])
    assert swapped.rank.tolist() == [2.0, 2.0]


def test_bandwidth_finds_weeks_behind_noise() -> None:
    """Reports never repeat, so that only a smoothed profile links them; the bandwidth follows from the first week."""
    rng = np.random.default_rng(4)
    homes = rng.uniform(0, 20, (30, 2))
    weeks = [[home + rng.normal(0, 0.4, (40, 2)) for home in homes] for _ in range(2)]
    tuned, exact = link(*weeks), link(*weeks, bandwidths_km=[0.0])
    assert tuned.bandwidth_km > 0
    assert tuned.top.mean() > 0.9
    assert exact.top.mean() == pytest.approx(1 / 30, abs=0.01), "nothing repeats: a random match"
    assert tuned.rank.mean() < 1.2


def test_users_without_differences_are_matched_by_chance() -> None:
    same = [np.zeros((4, 2))] * 5
    linked = link(same, same)
    np.testing.assert_allclose(linked.top, linked.random_top)
    np.testing.assert_allclose(linked.rank, 3.0)
